# The libraries, one for each room. Each takes all .cpp files of its folder; the
# arrows between rooms are the target_link_libraries lines below.

# A room without sources yet is a library of one empty file, so that every
# arrow can be stated.
function(offload_room name folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
  if(NOT sources)
    set(sources "${PROJECT_BINARY_DIR}/empty/${name}.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "\n")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(OFFLOAD_VERIFY_EACH)
    target_compile_definitions(${name} PRIVATE OFFLOAD_VERIFY_EACH=1)
  endif()
endfunction()

# Shared by both halves; the standard library only.
offload_room(OffloadOffFormat lib/OffFormat)

# The compiler half.
if(OFFLOAD_BUILD_COMPILER)
  offload_room(OffloadIR lib/IR)
  target_link_libraries(OffloadIR PUBLIC OffloadOffFormat offload_llvm)

  offload_room(OffloadOnnx lib/Onnx)
  target_link_libraries(OffloadOnnx PUBLIC OffloadIR PRIVATE onnx::onnx)
  offload_precompile(OffloadOnnx <onnx/onnx_pb.h> <llvm/Support/Error.h>
                     <llvm/ADT/StringMap.h> <map> <string> <vector>)

  offload_room(OffloadAnalysis lib/Analysis)
  target_link_libraries(OffloadAnalysis PUBLIC OffloadIR)

  offload_room(OffloadSchedule lib/Schedule)
  target_link_libraries(OffloadSchedule PUBLIC OffloadIR OffloadAnalysis)

  # The pass manager's table names every pass's factory, and every pass derives
  # from its Pass: one cycle, between these two alone.
  offload_room(OffloadPassManager lib/PassManager)
  offload_room(OffloadPasses passes)
  target_include_directories(OffloadPassManager PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/passes>")
  include(PassProse)
  target_link_libraries(OffloadPassManager
    PUBLIC OffloadIR OffloadSchedule OffloadPasses)
  target_link_libraries(OffloadPasses
    PUBLIC OffloadPassManager OffloadIR OffloadAnalysis OffloadSchedule)
endif()

# The runtime half: no LLVM, and LibTorch in the kernels alone. The runtime calls
# kernels, and they throw its errors: the other cycle.
offload_room(OffloadRuntime lib/Runtime)
if(OFFLOAD_KERNELS_ARCHIVE)
  add_library(OffloadKernels STATIC IMPORTED GLOBAL)
  set_target_properties(OffloadKernels PROPERTIES
    IMPORTED_LOCATION "${OFFLOAD_KERNELS_ARCHIVE}")
  target_link_libraries(OffloadKernels INTERFACE
    OffloadOffFormat OffloadRuntime "$<LINK_ONLY:tw::torch_with_cuda>")
else()
  offload_room(OffloadKernels lib/Runtime/Kernels)
  target_link_libraries(OffloadKernels
    PUBLIC OffloadOffFormat OffloadRuntime PRIVATE tw::torch_with_cuda)
  offload_precompile(OffloadKernels <ATen/ATen.h>)
endif()
# CUDA's runtime alone, from NVIDIA's Python packages: no toolkit, no LibTorch.
offload_room(OffloadCuda lib/Runtime/Cuda)
target_link_libraries(OffloadCuda
  PUBLIC OffloadOffFormat OffloadRuntime
  PRIVATE tw::cudart Threads::Threads ${CMAKE_DL_LIBS})
find_package(ZLIB REQUIRED) # .npz files
target_link_libraries(OffloadRuntime
  PUBLIC OffloadOffFormat OffloadKernels OffloadCuda PRIVATE onnx::proto ZLIB::ZLIB Threads::Threads)

# What a user links: offload::offload.
add_library(offload INTERFACE)
add_library(offload::offload ALIAS offload)
target_link_libraries(offload INTERFACE OffloadRuntime)
