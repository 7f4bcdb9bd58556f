// What the parts of the shape evaluator share: operands, errors, indices.
//
// Rules throw Refusal where an operand is not as ONNX demands; the evaluator
// turns it into ShapeResult::error, so no exception leaves OffFormat.

#ifndef OFFLOAD_LIB_OFFFORMAT_SHAPEARITHMETICPARTS_H
#define OFFLOAD_LIB_OFFFORMAT_SHAPEARITHMETICPARTS_H

#include "offload/OffFormat/ShapeArithmetic.h"

#include <functional>

namespace offload::shape {

using Dims = std::vector<int64_t>;

struct Refusal {
  std::string message;
};
[[noreturn]] void refuse(std::string message);

/// One node under evaluation.
struct Evaluation {
  const OperatorInfo &op;
  int sinceVersion;
  const AttributeMap &attributes;
  std::span<const ShapeOperand> operands;
  unsigned numOutputs;

  /// Whether an optional operand is there.
  bool has(unsigned i) const;
  /// Refuses where the operand is absent or its value not known.
  const HostValue &value(unsigned i) const;
  const HostValue *optionalValue(unsigned i) const {
    return has(i) ? &value(i) : nullptr;
  }
  /// An integer operand of rank 1 (or a scalar, as one entry).
  Dims integers(unsigned i) const;
  /// An integer operand of one element.
  int64_t integer(unsigned i) const;
  /// Axes as operand 1 (newer versions) or as the attribute "axes"; empty
  /// where the node has neither.
  std::optional<Dims> axes(unsigned operand = 1) const;
};

using Rule = std::vector<HostValue> (*)(const Evaluation &);

// Numbers (ShapeArithmeticNumbers.cpp).

/// The nearest value of a float kind, ties to even, past the largest to
/// infinity.
double roundTo(DataType type, double value);
/// The low bits of an integer kind, as C's conversion wraps; bool: value != 0.
int64_t wrapTo(DataType type, int64_t value);
/// Whether an integer kind orders its values as unsigned 64-bit numbers.
inline bool isWide(DataType type) { return type == DataType::UInt64; }
bool isInteger(DataType type);
/// One element as a number of another type (Cast).
void castElement(HostValue &to, int64_t i, const HostValue &from, int64_t j);
/// -1, 0, 1; 2 where one is NaN.
int compareElements(const HostValue &a, int64_t i, const HostValue &b,
                    int64_t j);

// Tensors.

/// Product of `dims`; refuses a negative dimension and more elements than a
/// host value may have.
int64_t countElements(const Dims &dims);
/// Zeros of that type.
HostValue makeValue(DataType type, Dims dims);
/// Types must be equal.
inline void copyElement(HostValue &to, int64_t i, const HostValue &from,
                        int64_t j) {
  if (from.isReal())
    to.reals[i] = from.reals[j];
  else
    to.ints[i] = from.ints[j];
}
Dims rowMajorStrides(const Dims &dims);
/// `axis` counted from the end where negative; refuses outside of [-rank,
/// rank).
int64_t normalizeAxis(int64_t axis, int64_t rank);
/// Normalized, sorted; refuses an axis named twice.
Dims normalizeAxes(const Dims &axes, int64_t rank);
/// Index along an axis, from the end where negative; refuses outside.
int64_t normalizeIndex(int64_t index, int64_t bound);
Dims broadcastDims(const Dims &a, const Dims &b);
/// Strides of an operand of `dims` read at the index of a result of `rank`: 0
/// along what is broadcast.
Dims broadcastStrides(const Dims &dims, size_t rank);
inline int64_t offsetOf(const Dims &index, const Dims &strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    offset += index[i] * strides[i];
  return offset;
}
/// Calls `visit(i, index)` for every index of `dims` in row-major order.
void walk(const Dims &dims,
          const std::function<void(int64_t, const Dims &)> &visit);
std::string printDims(const Dims &dims);
/// Refuses two operands of different types.
void needSameType(const HostValue &a, const HostValue &b);

// Rules, by the file that has them.

std::vector<HostValue> constant(const Evaluation &e); // ...Create.cpp
std::vector<HostValue> constantOfShape(const Evaluation &e);
std::vector<HostValue> shapeOf(const Evaluation &e);
std::vector<HostValue> sizeOf(const Evaluation &e);
std::vector<HostValue> range(const Evaluation &e);
std::vector<HostValue> oneHot(const Evaluation &e);

std::vector<HostValue> identity(const Evaluation &e); // ...Elementwise.cpp
std::vector<HostValue> cast(const Evaluation &e);
std::vector<HostValue> castLike(const Evaluation &e);
std::vector<HostValue> unary(const Evaluation &e);
std::vector<HostValue> binary(const Evaluation &e);
std::vector<HostValue> logical(const Evaluation &e);
std::vector<HostValue> comparison(const Evaluation &e);
std::vector<HostValue> power(const Evaluation &e);
std::vector<HostValue> extremum(const Evaluation &e);
std::vector<HostValue> clip(const Evaluation &e);
std::vector<HostValue> where(const Evaluation &e);

std::vector<HostValue> reshape(const Evaluation &e); // ...Layout.cpp
std::vector<HostValue> flatten(const Evaluation &e);
std::vector<HostValue> squeeze(const Evaluation &e);
std::vector<HostValue> unsqueeze(const Evaluation &e);
std::vector<HostValue> transpose(const Evaluation &e);
std::vector<HostValue> expand(const Evaluation &e);
std::vector<HostValue> tile(const Evaluation &e);
std::vector<HostValue> trilu(const Evaluation &e);

std::vector<HostValue> concat(const Evaluation &e); // ...Pieces.cpp
std::vector<HostValue> split(const Evaluation &e);
std::vector<HostValue> slice(const Evaluation &e);
std::vector<HostValue> pad(const Evaluation &e);

std::vector<HostValue> gather(const Evaluation &e); // ...Indexing.cpp
std::vector<HostValue> gatherElements(const Evaluation &e);
std::vector<HostValue> gatherND(const Evaluation &e);
std::vector<HostValue> scatterND(const Evaluation &e);

std::vector<HostValue> reduce(const Evaluation &e); // ...Reduce.cpp
std::vector<HostValue> argExtremum(const Evaluation &e);
std::vector<HostValue> cumSum(const Evaluation &e);
std::vector<HostValue> topK(const Evaluation &e);

} // namespace offload::shape

#endif // OFFLOAD_LIB_OFFFORMAT_SHAPEARITHMETICPARTS_H
