// Evaluates shape arithmetic: small tensors known before a step starts.
//
// One evaluator for both halves: the compiler folds with it and sizes values at
// the bound of dynamic dimensions, the runtime computes launch operands with it
// from the feeds' shapes. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_SHAPEARITHMETIC_H
#define OFFLOAD_OFFFORMAT_SHAPEARITHMETIC_H

#include "offload/OffFormat/Attributes.h"
#include "offload/OffFormat/DataType.h"
#include "offload/OffFormat/Operators.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace offload {

/// A tensor on the host of any type that shape arithmetic meets. Integers and
/// bools are held as int64, float kinds as double (rounded to their type after
/// every operation, so results are those of the type).
struct HostValue {
  DataType type = DataType::Int64;
  std::vector<int64_t> dims;
  std::vector<int64_t> ints; // integers and bool
  std::vector<double> reals; // float kinds

  int64_t numElements() const;
  bool isReal() const { return isFloating(type); }
  bool operator==(const HostValue &) const = default;
  /// From and to packed little-endian bytes as in raw_data.
  static HostValue fromBytes(DataType type, std::vector<int64_t> dims,
                             std::span<const uint8_t> bytes);
  std::vector<uint8_t> toBytes() const;
};

/// One operand: its value where known, and its shape where only that matters
/// (Shape, Size). An absent optional operand has neither.
struct ShapeOperand {
  const HostValue *value = nullptr;
  const std::vector<int64_t> *dims = nullptr;
  DataType type = DataType::Undefined;
};

struct ShapeResult {
  std::vector<HostValue> outputs; // empty on error
  std::string error;              // one line without the node's name
};

/// Evaluates one node of a row with `shapeArithmetic`. `sinceVersion` selects
/// between axes as attribute and as operand. Errors: an operand that is missing
/// or of the wrong rank, an index out of range, a division by zero, a type that
/// the operator does not take.
ShapeResult evaluateShapeArithmetic(const OperatorInfo &op, int sinceVersion,
                                    const AttributeMap &attributes,
                                    std::span<const ShapeOperand> operands,
                                    unsigned numOutputs);

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_SHAPEARITHMETIC_H
