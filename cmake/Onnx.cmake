# The ONNX C++ library, built once outside this tree, on a static protobuf.
#
#   onnx::proto  the message classes (what the runtime needs)
#   onnx::onnx   checker, shape inference, parser, printer, inliner; linked
#                whole, because operator schemas register statically
#
# In: OFFLOAD_ONNX_ROOT, the prefix that script/bootstrap installed it to.

set(OFFLOAD_ONNX_ROOT "$ENV{OFFLOAD_ONNX_ROOT}" CACHE PATH
    "Install prefix of the ONNX C++ library")
if(NOT EXISTS "${OFFLOAD_ONNX_ROOT}/lib/libonnx.a")
  message(FATAL_ERROR "OFFLOAD_ONNX_ROOT ('${OFFLOAD_ONNX_ROOT}') holds no "
                      "lib/libonnx.a: run . \"\$(script/bootstrap)\" first")
endif()

set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)
find_package(Threads REQUIRED)

if(NOT TARGET onnx::proto)
  add_library(onnx::proto STATIC IMPORTED GLOBAL)
  set_target_properties(onnx::proto PROPERTIES
    IMPORTED_LOCATION "${OFFLOAD_ONNX_ROOT}/lib/libonnx_proto.a")
  target_include_directories(onnx::proto SYSTEM INTERFACE
    "${OFFLOAD_ONNX_ROOT}/include")
  target_compile_definitions(onnx::proto INTERFACE
    ONNX_NAMESPACE=onnx ONNX_ML=1)
  target_link_libraries(onnx::proto INTERFACE
    protobuf::libprotobuf Threads::Threads)

  add_library(onnx::archive STATIC IMPORTED GLOBAL)
  set_target_properties(onnx::archive PROPERTIES
    IMPORTED_LOCATION "${OFFLOAD_ONNX_ROOT}/lib/libonnx.a")
  target_link_libraries(onnx::archive INTERFACE onnx::proto)
  add_library(onnx::onnx INTERFACE IMPORTED GLOBAL)
  target_link_libraries(onnx::onnx INTERFACE
    "$<LINK_LIBRARY:WHOLE_ARCHIVE,onnx::archive>" onnx::proto)
endif()
