# The interpreter whose site-packages hold LibTorch and the test judges. It is
# the active virtual environment's; script/bootstrap makes one.

set(OFFLOAD_PYTHON "" CACHE FILEPATH "Python with the packages of requirements.txt")
if(NOT OFFLOAD_PYTHON)
  set(Python3_FIND_VIRTUALENV ONLY)
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_Interpreter_FOUND)
    message(FATAL_ERROR "no virtual environment is active: run "
                        ". \"\$(script/bootstrap)\" or give OFFLOAD_PYTHON")
  endif()
  set(OFFLOAD_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "" FORCE)
endif()
execute_process(
  COMMAND "${OFFLOAD_PYTHON}" -c
          "import sysconfig; print(sysconfig.get_path('purelib'))"
  OUTPUT_VARIABLE OFFLOAD_SITE_PACKAGES
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
