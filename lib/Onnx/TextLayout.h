// The canonical text of a model: ONNX's syntax in a fixed layout. Private to
// this room.

#ifndef OFFLOAD_LIB_ONNX_TEXTLAYOUT_H
#define OFFLOAD_LIB_ONNX_TEXTLAYOUT_H

#include <onnx/onnx_pb.h>

#include <string>

namespace offload {

/// The model as text that ONNX's parser reads back to the same model. Ends with
/// a newline. Tensors whose contents ONNX's printer cannot write (2- and 4-bit
/// and complex types) must be external.
std::string layoutText(const onnx::ModelProto &model);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_TEXTLAYOUT_H
