// The evaluator of shape arithmetic: dispatch, operands and indices.
//
// In:  a node's row, attributes, and the values or shapes of its operands.
// Out: its results with ONNX's meaning bit for bit, or one line that says what
//      is wrong with an operand.
// Not: which nodes are shape arithmetic (Analysis/LaunchValues), shapes of
//      results whose values are unknown (Onnx/InferTypes).
// How: one rule an operator, by name; rules work on whole tensors of int64 or
//      double and round to the type of the result. Tensors are small, so the
//      index arithmetic is the plain one.

#include "ShapeArithmeticParts.h"

#include <algorithm>
#include <iterator>

namespace offload {

using namespace shape;

namespace {

struct RuleRow {
  std::string_view name;
  Rule rule;
  unsigned minOperands, maxOperands;
};

constexpr unsigned kAny = 1u << 30;

/// Every row of Operators.def that names one of these has shapeArithmetic true,
/// and no other row has; ShapeArithmeticTest checks both.
constexpr RuleRow kRules[] = {
    {"Abs", unary, 1, 1},
    {"Add", binary, 2, 2},
    {"And", logical, 2, 2},
    {"ArgMax", argExtremum, 1, 1},
    {"ArgMin", argExtremum, 1, 1},
    {"Cast", cast, 1, 1},
    {"CastLike", castLike, 2, 2},
    {"Ceil", unary, 1, 1},
    {"Clip", clip, 1, 3},
    {"Concat", concat, 1, kAny},
    {"Constant", constant, 0, 0},
    {"ConstantOfShape", constantOfShape, 1, 1},
    {"CumSum", cumSum, 2, 2},
    {"Div", binary, 2, 2},
    {"Equal", comparison, 2, 2},
    {"Exp", unary, 1, 1},
    {"Expand", expand, 2, 2},
    {"Flatten", flatten, 1, 1},
    {"Floor", unary, 1, 1},
    {"Gather", gather, 2, 2},
    {"GatherElements", gatherElements, 2, 2},
    {"GatherND", gatherND, 2, 2},
    {"Greater", comparison, 2, 2},
    {"GreaterOrEqual", comparison, 2, 2},
    {"Identity", identity, 1, 1},
    {"Less", comparison, 2, 2},
    {"LessOrEqual", comparison, 2, 2},
    {"Log", unary, 1, 1},
    {"Max", extremum, 1, kAny},
    {"Min", extremum, 1, kAny},
    {"Mod", binary, 2, 2},
    {"Mul", binary, 2, 2},
    {"Neg", unary, 1, 1},
    {"Not", unary, 1, 1},
    {"OneHot", oneHot, 3, 3},
    {"Or", logical, 2, 2},
    {"Pad", pad, 2, 4},
    {"Pow", power, 2, 2},
    {"Range", range, 3, 3},
    {"ReduceMax", reduce, 1, 2},
    {"ReduceMean", reduce, 1, 2},
    {"ReduceMin", reduce, 1, 2},
    {"ReduceProd", reduce, 1, 2},
    {"ReduceSum", reduce, 1, 2},
    {"Reshape", reshape, 2, 2},
    {"Round", unary, 1, 1},
    {"ScatterND", scatterND, 3, 3},
    {"Shape", shapeOf, 1, 1},
    {"Sign", unary, 1, 1},
    {"Size", sizeOf, 1, 1},
    {"Slice", slice, 3, 5},
    {"Split", split, 1, 2},
    {"Sqrt", unary, 1, 1},
    {"Squeeze", squeeze, 1, 2},
    {"Sub", binary, 2, 2},
    {"Tile", tile, 2, 2},
    {"TopK", topK, 2, 2},
    {"Transpose", transpose, 1, 1},
    {"Trilu", trilu, 1, 2},
    {"Unsqueeze", unsqueeze, 1, 2},
    {"Where", where, 3, 3},
    {"Xor", logical, 2, 2},
};

const RuleRow *findRule(const OperatorInfo &op) {
  auto row = std::lower_bound(
      std::begin(kRules), std::end(kRules), op.name,
      [](const RuleRow &a, std::string_view name) { return a.name < name; });
  bool found =
      op.domain.empty() && row != std::end(kRules) && row->name == op.name;
  return found ? row : nullptr;
}

void checkOperands(const Evaluation &e, const RuleRow &row) {
  if (e.operands.size() > row.maxOperands)
    refuse("takes at most " + std::to_string(row.maxOperands) +
           " operands, has " + std::to_string(e.operands.size()));
  for (unsigned i = 0; i < row.minOperands; ++i)
    if (!e.has(i))
      refuse("operand " + std::to_string(i) + " is missing");
  if (row.minOperands == 0)
    return;
  const ShapeOperand &first = e.operands[0];
  DataType type = first.value ? first.value->type : first.type;
  if (type != DataType::Undefined && !e.op.supportsType(type))
    refuse("does not take the type " + std::string(dataTypeName(type)));
}

/// Bounds the memory of one value to 128 MiB: shape arithmetic is small, so
/// more is a fault in the model and not a plan.
constexpr int64_t kMaxElements = int64_t(1) << 24;

} // namespace

ShapeResult evaluateShapeArithmetic(const OperatorInfo &op, int sinceVersion,
                                    const AttributeMap &attributes,
                                    std::span<const ShapeOperand> operands,
                                    unsigned numOutputs) {
  ShapeResult result;
  Evaluation e{op, sinceVersion, attributes, operands, numOutputs};
  try {
    const RuleRow *row = findRule(op);
    if (!row)
      refuse("shape arithmetic does not cover " + std::string(op.name));
    checkOperands(e, *row);
    result.outputs = row->rule(e);
    if (result.outputs.size() < numOutputs)
      refuse("has " + std::to_string(result.outputs.size()) + " results, not " +
             std::to_string(numOutputs));
    result.outputs.resize(numOutputs);
  } catch (const Refusal &refusal) {
    result.outputs.clear();
    result.error = refusal.message;
  }
  return result;
}

int64_t HostValue::numElements() const {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

namespace shape {

void refuse(std::string message) { throw Refusal{std::move(message)}; }

bool Evaluation::has(unsigned i) const {
  if (i >= operands.size())
    return false;
  const ShapeOperand &operand = operands[i];
  return operand.value || operand.dims || operand.type != DataType::Undefined;
}

const HostValue &Evaluation::value(unsigned i) const {
  if (!has(i) || !operands[i].value)
    refuse("the value of operand " + std::to_string(i) + " is not known");
  return *operands[i].value;
}

Dims Evaluation::integers(unsigned i) const {
  const HostValue &operand = value(i);
  if (!isInteger(operand.type) || operand.dims.size() > 1)
    refuse("operand " + std::to_string(i) + " must be a list of integers, is " +
           std::string(dataTypeName(operand.type)) + printDims(operand.dims));
  return operand.ints;
}

int64_t Evaluation::integer(unsigned i) const {
  const HostValue &operand = value(i);
  if (!isInteger(operand.type) || operand.numElements() != 1)
    refuse("operand " + std::to_string(i) + " must be one integer, is " +
           std::string(dataTypeName(operand.type)) + printDims(operand.dims));
  return operand.ints[0];
}

std::optional<Dims> Evaluation::axes(unsigned operand) const {
  if (has(operand))
    return integers(operand);
  if (const Dims *attribute = intsAttribute(attributes, "axes"))
    return *attribute;
  return std::nullopt;
}

int64_t countElements(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (dim < 0)
      refuse("a result of shape " + printDims(dims) +
             " has a negative dimension");
  if (std::count(dims.begin(), dims.end(), 0))
    return 0;
  for (int64_t dim : dims) {
    if (dim > kMaxElements / count)
      refuse("a result of shape " + printDims(dims) +
             " is too large for shape arithmetic");
    count *= dim;
  }
  return count;
}

HostValue makeValue(DataType type, Dims dims) {
  HostValue value;
  value.type = type;
  int64_t count = countElements(dims);
  if (isFloating(type))
    value.reals.resize(count);
  else
    value.ints.resize(count);
  value.dims = std::move(dims);
  return value;
}

Dims rowMajorStrides(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i--;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

int64_t normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    refuse("axis " + std::to_string(axis) + " is outside of rank " +
           std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

Dims normalizeAxes(const Dims &axes, int64_t rank) {
  Dims sorted;
  for (int64_t axis : axes)
    sorted.push_back(normalizeAxis(axis, rank));
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    refuse("axis " + std::to_string(*twice) + " is named twice");
  return sorted;
}

int64_t normalizeIndex(int64_t index, int64_t bound) {
  if (index < -bound || index >= bound)
    refuse("index " + std::to_string(index) +
           " is out of range of a dimension of " + std::to_string(bound));
  return index < 0 ? index + bound : index;
}

Dims broadcastDims(const Dims &a, const Dims &b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t inA = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t inB = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (inA != inB && inA != 1 && inB != 1)
      refuse("shapes " + printDims(a) + " and " + printDims(b) +
             " do not broadcast");
    dims[dims.size() - 1 - i] = inA == 1 ? inB : inA;
  }
  return dims;
}

Dims broadcastStrides(const Dims &dims, size_t rank) {
  Dims own = rowMajorStrides(dims);
  Dims strides(rank);
  for (size_t i = 0; i < dims.size(); ++i)
    strides[rank - dims.size() + i] = dims[i] == 1 ? 0 : own[i];
  return strides;
}

void walk(const Dims &dims,
          const std::function<void(int64_t, const Dims &)> &visit) {
  int64_t count = countElements(dims);
  Dims index(dims.size());
  for (int64_t i = 0; i < count; ++i) {
    visit(i, index);
    for (size_t axis = dims.size(); axis-- && ++index[axis] == dims[axis];)
      index[axis] = 0;
  }
}

std::string printDims(const Dims &dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

void needSameType(const HostValue &a, const HostValue &b) {
  if (a.type != b.type)
    refuse("operands have the types " + std::string(dataTypeName(a.type)) +
           " and " + std::string(dataTypeName(b.type)));
}

} // namespace shape

} // namespace offload
