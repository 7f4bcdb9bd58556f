# Puts the opening comments of the sources in passes/ into PassProse.inc, so that
# `offload-opt --passes-doc` prints what the sources say. Included by the build,
# and run as a script (cmake -P) by the rule that it makes.

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "")
  file(GLOB sources "${PASSES}/*.cpp")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    file(READ "${source}" content)
    if(content MATCHES "OFFLOAD_DEFINE_PASS" AND
       content MATCHES "^((//[^\n]*\n)+)")
      set(prose "\n${CMAKE_MATCH_1}")
      string(REGEX REPLACE "\n// ?" "\n" prose "${prose}")
      string(REGEX REPLACE "^\n" "" prose "${prose}")
      string(APPEND text "{\"${name}\", R\"prose(${prose})prose\"},\n")
    endif()
  endforeach()
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/passes/*.cpp")
set(_folder "${PROJECT_BINARY_DIR}/generated")
set(_prose "${_folder}/PassProse.inc")
add_custom_command(OUTPUT "${_prose}"
  COMMAND "${CMAKE_COMMAND}" "-DPASSES=${PROJECT_SOURCE_DIR}/passes"
          "-DOUTPUT=${_prose}" -P "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${_sources} "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Reading the opening comments of passes" VERBATIM)
target_sources(OffloadPassManager PRIVATE "${_prose}")
target_include_directories(OffloadPassManager PRIVATE "${_folder}")
