// Functions of the `offload` operators as ONNX's messages. Not thread-safe:
// protobuf messages are made anew by each call.

#ifndef OFFLOAD_ONNX_OFFFUNCTIONS_H
#define OFFLOAD_ONNX_OFFFUNCTIONS_H

#include "offload/OffFormat/FunctionBodies.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace onnx {
class FunctionProto;
}

namespace offload {

/// The function with a body for `opset` of ai.onnx; `subByteParts` as for
/// offFunctionText.
onnx::FunctionProto offFunctionProto(const OffFunction &function, int64_t opset,
                                     uint32_t subByteParts = 0);

/// "offload.Stage:two".
std::string functionLabel(const onnx::FunctionProto &function);

/// Refuses a function of domain `offload` that offFunctionProto does not give
/// for any types. The error names the function.
llvm::Error checkOffFunction(const onnx::FunctionProto &proto, int64_t opset);

} // namespace offload

#endif // OFFLOAD_ONNX_OFFFUNCTIONS_H
