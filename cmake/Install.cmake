# Installs the tools, the runtime library and its public headers, and a package
# by which other projects find them:
#
#   find_package(offload REQUIRED)
#   target_link_libraries(program PRIVATE offload::offload)
#
# The libraries are static. What they stand on is not copied, except for the
# ONNX message classes: LibTorch stays in the Python environment (the package
# remembers which), protobuf comes from the system. A tree that imports its
# kernels from another one installs nothing.

if(OFFLOAD_KERNELS_ARCHIVE)
  return()
endif()

include(CMakePackageConfigHelpers)
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/offload")

set(_tools)
foreach(tool offload-opt offload-run)
  if(TARGET ${tool})
    list(APPEND _tools ${tool})
  endif()
endforeach()
if(TARGET offload-run)
  set_target_properties(offload-run PROPERTIES
    INSTALL_RPATH "${OFFLOAD_SITE_PACKAGES}/torch/lib")
endif()

install(TARGETS offload OffloadOffFormat OffloadRuntime OffloadKernels OffloadCuda ${_tools}
        EXPORT offloadTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(EXPORT offloadTargets NAMESPACE offload:: DESTINATION "${_package}")
install(DIRECTORY include/offload/OffFormat include/offload/Runtime
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/offload"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES "${OFFLOAD_ONNX_ROOT}/lib/libonnx_proto.a"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/offload")

configure_package_config_file(
  cmake/offloadConfig.cmake.in "${PROJECT_BINARY_DIR}/offloadConfig.cmake"
  INSTALL_DESTINATION "${_package}"
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/offloadConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/offloadConfig.cmake"
              "${PROJECT_BINARY_DIR}/offloadConfigVersion.cmake"
              cmake/Torch.cmake
        DESTINATION "${_package}")
