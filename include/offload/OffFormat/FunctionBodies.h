// The model-local functions that give `offload` operators their meaning.
//
// A `.off` carries one function for each (operator, overload) that it uses, so
// that any ONNX tool can check it and run it. The bodies are plain ONNX of the
// model's own opset; docs/format.md lists them. The compiler writes them, and
// both halves refuse a file whose bodies are others: another runtime would
// compute other numbers from it. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_FUNCTIONBODIES_H
#define OFFLOAD_OFFFORMAT_FUNCTIONBODIES_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offload {

/// Of domain `offload`, as files import it.
inline constexpr int kOffloadVersion = 1;

/// One (operator, overload) of domain `offload`.
struct OffFunction {
  std::string_view op;       // "Stage"
  std::string_view overload; // "", "two", "three", "four"
  /// Values that one node copies at once; 0 where the operator is no copy. The
  /// copied values are operands and results 0 to parts - 1, and the operand
  /// after them is `after`.
  unsigned parts = 0;
  unsigned numInputs = 0, numOutputs = 0; // fixed; an absent one is ""
};

/// All of them, in the order in which a file lists those that it uses.
std::span<const OffFunction> offFunctions();

/// The row, or nullptr.
const OffFunction *findOffFunction(std::string_view op,
                                   std::string_view overload);

/// The function in ONNX's text. Bit i of `subByteParts` says that some node
/// copies (Release: names) a 2- or 4-bit tensor as part i: ONNX Runtime has no
/// Identity for these, nor operands of theirs that nothing reads, so the part
/// is read by CastLike to itself, which means the same.
std::string offFunctionText(const OffFunction &function, uint32_t subByteParts);

/// The texts that a file may have for the function, for any of the types that
/// its nodes copy, without blanks.
std::vector<std::string> offFunctionForms(const OffFunction &function);

/// Text of ONNX without blanks and ends of lines: equal for equal functions.
std::string withoutBlanks(std::string_view text);

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_FUNCTIONBODIES_H
