// Functions of a file as text, to be compared with those of this program.

#ifndef OFFLOAD_LIB_RUNTIME_FUNCTIONREADER_H
#define OFFLOAD_LIB_RUNTIME_FUNCTIONREADER_H

#include <string>

namespace onnx {
class FunctionProto;
}

namespace offload::rt {

/// The function in ONNX's text without blanks, comments and names of nodes.
/// What the functions of a `.off` never have (attributes that hold graphs)
/// stands there as '?', which equals nothing.
std::string functionText(const onnx::FunctionProto &function);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_FUNCTIONREADER_H
