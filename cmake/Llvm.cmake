# LLVM's ADT and Support libraries, for the compiler half only.

find_package(LLVM 19.1 REQUIRED CONFIG
             HINTS /usr/lib/llvm-19/lib/cmake/llvm)
add_library(offload_llvm INTERFACE)
target_include_directories(offload_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(offload_llvm INTERFACE ${_definitions})
target_link_libraries(offload_llvm INTERFACE LLVMSupport)
