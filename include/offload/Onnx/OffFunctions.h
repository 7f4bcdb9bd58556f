// The model-local functions that give `offload` operators their meaning.
//
// A `.off` carries one function for each (operator, overload) that it uses, so
// that any ONNX tool can check it and run it. The bodies are plain ONNX of the
// model's own opset; docs/format.md lists them. Not thread-safe: protobuf
// messages are made anew by each call.

#ifndef OFFLOAD_ONNX_OFFFUNCTIONS_H
#define OFFLOAD_ONNX_OFFFUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace onnx {
class FunctionProto;
}

namespace offload {

/// One (operator, overload) of domain `offload`.
struct OffFunction {
  llvm::StringRef op;       // "Stage"
  llvm::StringRef overload; // "", "two", "three", "four"
  /// Values that one node copies at once; 0 where the operator is no copy. The
  /// copied values are operands and results 0 to parts - 1, and the operand
  /// after them is `after`.
  unsigned parts = 0;
  unsigned numInputs = 0, numOutputs = 0; // fixed; an absent one is ""
};

/// All of them, in the order in which a file lists those that it uses.
llvm::ArrayRef<OffFunction> offFunctions();

/// The row, or nullptr.
const OffFunction *findOffFunction(llvm::StringRef op,
                                   llvm::StringRef overload);

/// The function with a body for `opset` of ai.onnx. Bit i of `subByteParts`
/// says that some node copies (Release: names) a 2- or 4-bit tensor as part i:
/// ONNX Runtime has no Identity for these, nor operands of theirs that nothing
/// reads, so the part is read by CastLike to itself, which means the same.
onnx::FunctionProto offFunctionProto(const OffFunction &function, int64_t opset,
                                     uint32_t subByteParts = 0);

} // namespace offload

#endif // OFFLOAD_ONNX_OFFFUNCTIONS_H
