# Language level, output folders, warnings, sanitizers and ccache: what is the
# same for every target of the tree.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# One flag set for all: kernels and host twins must give the same bits, so no
# product is contracted into a fused multiply-add.
add_compile_options(-Wall -Wextra -ffp-contract=off)

# GCC 12 takes `"text" + std::string` for copies that may overlap, or, behind a
# precompiled header, that are larger than memory: false alarms in its own
# <string> (GCC's bugs 105329 and 105651), gone in GCC 13.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
   CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(_string_alarms TRUE)
  add_compile_options(-Wno-restrict)
endif()

if(OFFLOAD_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(OFFLOAD_SANITIZE STREQUAL "thread")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "OFFLOAD_SANITIZE=thread needs clang++: "
                        "configure with the preset 'thread'")
  endif()
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(OFFLOAD_SANITIZE)
  message(FATAL_ERROR "OFFLOAD_SANITIZE is '${OFFLOAD_SANITIZE}': "
                      "give address, thread or nothing")
endif()

# ccache sees the same paths from every clone: those below the folder that
# holds the clone are relative, and debug information names no folder. Its
# folder is the caller's (script/bootstrap puts it into the user's cache).
find_program(OFFLOAD_CCACHE ccache)
if(OFFLOAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  cmake_path(GET PROJECT_SOURCE_DIR PARENT_PATH _base)
  set(CMAKE_CXX_COMPILER_LAUNCHER /usr/bin/env
      CCACHE_BASEDIR=${_base} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${OFFLOAD_CCACHE})
  if(DEFINED ENV{CCACHE_DIR})
    list(INSERT CMAKE_CXX_COMPILER_LAUNCHER 1 CCACHE_DIR=$ENV{CCACHE_DIR})
  endif()
  # Remembered, so that a build that configures itself anew keeps it.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}"
      CACHE STRING "Compiler launcher")
endif()

# Precompiles `HEADERS...` for a target. Only with GCC: its ccache support needs
# the extra flag, and the trees built with Clang hold no LibTorch code.
function(offload_precompile target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    if(_string_alarms)
      target_compile_options(${target} PRIVATE
        -Wno-stringop-overflow -Wno-array-bounds)
    endif()
  endif()
endfunction()
