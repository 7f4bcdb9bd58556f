// The one table of operators: what the compiler accepts, and what the runtime
// binds one kernel a row to.
//
// Rows are in Operators.def. A row covers the since-versions it lists (the
// version at which ONNX last changed the operator, as its schema tells); a node
// whose since-version is in no row is refused by offload-opt, so that nothing
// unknown is met at run time. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_OPERATORS_H
#define OFFLOAD_OFFFORMAT_OPERATORS_H

#include "offload/OffFormat/Attributes.h"
#include "offload/OffFormat/DataType.h"
#include "offload/OffFormat/Queue.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offload {

/// Index of a row; `Op::Gemm`, `Op::Offload_Stage`.
enum class Op : uint16_t {
#define OPERATOR(Id, Domain, Name, ...) Id,
#include "offload/OffFormat/Operators.def"
};

/// Whether an output is a second name for an operand's bytes.
enum class ViewRule : uint8_t {
  None,
  Always,  // output 0 has operand 0's elements in the same order (Reshape)
  Strided, // likewise with other strides; a view only where every reader takes
           // strides (Transpose), else a copy
  Part     // some of operand 0's elements, where the launching thread knows
           // which (Gather of a constant index); else as Strided
};

/// Which operand may hold a weight-bearing node's weight.
enum class WeightRule : uint8_t {
  None,
  Linear,    // Gemm: operand 1 (or 0), MatMul: either side
  Conv,      // operand 1, bias operand 2
  Embedding, // Gather: operand 0, on axis 0
  Quantized  // DequantizeLinear: operands 0 to 2
};

/// Scratch of a kernel beside its outputs, in bytes, as the planner counts it:
/// inputPercent/100 of the bytes of the operands in `operands` +
/// outputPercent/100 of the outputs' bytes + constantBytes. The runtime's dry
/// run compares.
struct ScratchFormula {
  uint16_t inputPercent = 0;
  uint16_t outputPercent = 0;
  uint32_t constantBytes = 0;
  uint32_t operands = ~0u; // bit i: operand i

  bool counts(size_t operand) const {
    return operand >= 32 || (operands >> operand & 1);
  }
};

struct OperatorInfo {
  Op id;
  std::string_view domain; // "" for ai.onnx
  std::string_view name;
  std::string_view since; // "1 6 13": the versions this row covers
  std::string_view types; // of operand 0, in letters: f float kinds, i 8- to
                          // 64-bit signed and 8-bit unsigned integers, b
                          // bool, q quantized (4 and 8 bits, uint16), * all of
                          // f, i, b and the wider unsigned integers
  Queue queue;            // of a node that its properties do not place
  ViewRule view;
  WeightRule weight;
  int inPlaceOperand;      // operand whose bytes output 0 may take over, or -1
  bool takesStrides;       // reads operands through strides without a copy
  uint32_t launchOperands; // bit i: operand i is known before the step starts;
                           // isLaunchConstant() may add to them
  ScratchFormula scratch;
  bool shapeArithmetic; // OffFormat/ShapeArithmetic can evaluate it

  bool isLaunchOperand(unsigned index) const {
    return index < 32 && (launchOperands >> index & 1);
  }
  bool covers(int sinceVersion) const;
  bool supportsType(DataType type) const;
};

/// Whether an operator reads operand `index` before the step starts where it is
/// a constant of `elements` elements: the index of a Gather, which then takes
/// one part.
bool isLaunchConstant(Op op, unsigned index, int64_t elements);

/// Scratch of the row's kernel on a card for operands of that type
/// (DeviceScratch.def).
ScratchFormula deviceScratch(Op op, DataType type);

/// All rows, in table order; index = Op.
std::span<const OperatorInfo> operatorTable();

inline const OperatorInfo &operatorInfo(Op op) {
  return operatorTable()[static_cast<unsigned>(op)];
}

/// The row of (domain, name) that covers `sinceVersion`, or nullptr. "ai.onnx"
/// is "". The version of `offload` operators is 1.
const OperatorInfo *findOperator(std::string_view domain, std::string_view name,
                                 int sinceVersion);

/// The row that holds for (domain, name) in a model that imports `opset` of
/// that domain, and in `since` the since-version that is in force there;
/// nullptr where no row does.
const OperatorInfo *findOperatorAtOpset(std::string_view domain,
                                        std::string_view name, int opset,
                                        int *since = nullptr);

/// One line that says which case of the operator no kernel covers, or an empty
/// text where all of the node's attributes are covered. offload-opt refuses by
/// it, so that such a case is not met at run time.
std::string unsupportedReason(const OperatorInfo &op, int sinceVersion,
                              const AttributeMap &attributes,
                              unsigned numOutputs = 1);

/// Whether any row has that name, and the versions it covers; for messages.
std::string supportedVersions(std::string_view domain, std::string_view name);

/// Markdown table of all rows (docs/operators.md, `--list-operators`).
std::string operatorTableMarkdown();

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_OPERATORS_H
