// Rules that combine the elements along axes.
//
// How: sums, products and means of float kinds are made in double and rounded
//      once.

#include "ShapeArithmeticParts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace offload::shape {

namespace {

/// Largest (smallest) number of a type, where a minimum (maximum) starts.
void setExtreme(HostValue &value, int64_t i, bool largest) {
  if (value.isReal()) {
    double infinity = std::numeric_limits<double>::infinity();
    value.reals[i] = largest ? infinity : -infinity;
    return;
  }
  unsigned bits = value.type == DataType::Bool ? 1 : elementBits(value.type);
  bool isUnsigned = wrapTo(value.type, -1) != -1 || isWide(value.type);
  uint64_t ones = ~uint64_t(0) >> (64 - bits);
  uint64_t high = isUnsigned ? ones : ones >> 1;
  uint64_t low = isUnsigned ? 0 : ~high;
  value.ints[i] = static_cast<int64_t>(largest ? high : low);
}

void startReduction(Op op, HostValue &result) {
  for (int64_t i = 0, count = result.numElements(); i < count; ++i) {
    if (op == Op::ReduceMin || op == Op::ReduceMax)
      setExtreme(result, i, op == Op::ReduceMin);
    else if (op == Op::ReduceProd && result.isReal())
      result.reals[i] = 1;
    else if (op == Op::ReduceProd)
      result.ints[i] = 1;
  }
}

void accumulate(Op op, HostValue &result, int64_t i, const HostValue &value,
                int64_t j) {
  if (op == Op::ReduceMin || op == Op::ReduceMax) {
    int order = compareElements(value, j, result, i);
    bool takes = order == 2 ? std::isnan(value.reals[j])
                            : order == (op == Op::ReduceMin ? -1 : 1);
    if (takes)
      copyElement(result, i, value, j);
  } else if (value.isReal()) {
    double &sum = result.reals[i];
    sum = op == Op::ReduceProd ? sum * value.reals[j] : sum + value.reals[j];
  } else {
    auto x = static_cast<uint64_t>(result.ints[i]);
    auto y = static_cast<uint64_t>(value.ints[j]);
    result.ints[i] = static_cast<int64_t>(op == Op::ReduceProd ? x * y : x + y);
  }
}

void finishReduction(Op op, HostValue &result, int64_t perResult) {
  for (double &x : result.reals)
    x = roundTo(result.type, op == Op::ReduceMean ? x / double(perResult) : x);
  for (int64_t &x : result.ints) {
    if (op == Op::ReduceMean && perResult == 0)
      refuse("has no mean of no element");
    x = wrapTo(result.type, op == Op::ReduceMean ? x / perResult : x);
  }
}

/// `dims` with the axes dropped, or kept as 1.
Dims reducedDims(const Dims &dims, const Dims &axes, bool keep) {
  Dims reduced;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i))
      reduced.push_back(dims[i]);
    else if (keep)
      reduced.push_back(1);
  }
  return reduced;
}

int64_t axisAttribute(const Evaluation &e, int64_t fallback) {
  return normalizeAxis(intAttribute(e.attributes, "axis", fallback),
                       static_cast<int64_t>(e.value(0).dims.size()));
}

/// Compares with NaN above every number, so that an order is total.
int compareTotally(const HostValue &value, int64_t i, int64_t j) {
  int order = compareElements(value, i, value, j);
  if (order != 2)
    return order;
  return int(std::isnan(value.reals[i])) - int(std::isnan(value.reals[j]));
}

/// Offset of the first element of each line along `axis`.
std::vector<int64_t> lineStarts(const Dims &dims, int64_t axis) {
  std::vector<int64_t> starts;
  Dims strides = rowMajorStrides(dims);
  walk(reducedDims(dims, {axis}, true), [&](int64_t, const Dims &index) {
    starts.push_back(offsetOf(index, strides));
  });
  return starts;
}

} // namespace

std::vector<HostValue> reduce(const Evaluation &e) {
  const HostValue &value = e.value(0);
  auto rank = static_cast<int64_t>(value.dims.size());
  Dims axes = e.axes().value_or(Dims());
  if (axes.empty()) {
    if (intAttribute(e.attributes, "noop_with_empty_axes", 0) != 0)
      return {value};
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = normalizeAxes(axes, rank);
  HostValue result = makeValue(value.type, reducedDims(value.dims, axes, true));
  startReduction(e.op.id, result);
  Dims strides = broadcastStrides(result.dims, rank);
  for (int64_t axis : axes)
    strides[axis] = 0;
  walk(value.dims, [&](int64_t i, const Dims &index) {
    accumulate(e.op.id, result, offsetOf(index, strides), value, i);
  });
  int64_t perResult = 1;
  for (int64_t axis : axes)
    perResult *= value.dims[axis];
  finishReduction(e.op.id, result, perResult);
  if (intAttribute(e.attributes, "keepdims", 1) == 0)
    result.dims = reducedDims(value.dims, axes, false);
  return {result};
}

std::vector<HostValue> argExtremum(const Evaluation &e) {
  const HostValue &value = e.value(0);
  int64_t axis = axisAttribute(e, 0);
  if (value.dims[axis] == 0)
    refuse("dimension " + std::to_string(axis) + " is empty");
  bool last = intAttribute(e.attributes, "select_last_index", 0) != 0;
  bool keep = intAttribute(e.attributes, "keepdims", 1) != 0;
  int wins = e.op.id == Op::ArgMax ? 1 : -1;
  HostValue result =
      makeValue(DataType::Int64, reducedDims(value.dims, {axis}, keep));
  int64_t stride = rowMajorStrides(value.dims)[axis], i = 0;
  for (int64_t start : lineStarts(value.dims, axis)) {
    int64_t best = 0;
    for (int64_t k = 1; k < value.dims[axis]; ++k) {
      int order =
          compareTotally(value, start + k * stride, start + best * stride);
      if (order == wins || (last && order == 0))
        best = k;
    }
    result.ints[i++] = best;
  }
  return {result};
}

std::vector<HostValue> cumSum(const Evaluation &e) {
  const HostValue &value = e.value(0);
  int64_t axis =
      normalizeAxis(e.integer(1), static_cast<int64_t>(value.dims.size()));
  bool exclusive = intAttribute(e.attributes, "exclusive", 0) != 0;
  bool reverse = intAttribute(e.attributes, "reverse", 0) != 0;
  int64_t stride = rowMajorStrides(value.dims)[axis], dim = value.dims[axis];
  HostValue result = makeValue(value.type, value.dims);
  for (int64_t start : lineStarts(value.dims, axis)) {
    HostValue sum = makeValue(value.type, {});
    for (int64_t k = 0; k < dim; ++k) {
      int64_t at = start + (reverse ? dim - 1 - k : k) * stride;
      if (exclusive)
        copyElement(result, at, sum, 0);
      accumulate(Op::ReduceSum, sum, 0, value, at);
      finishReduction(Op::ReduceSum, sum, 1);
      if (!exclusive)
        copyElement(result, at, sum, 0);
    }
  }
  return {result};
}

std::vector<HostValue> topK(const Evaluation &e) {
  const HostValue &value = e.value(0);
  int64_t axis = axisAttribute(e, -1), wanted = e.integer(1);
  if (wanted < 0 || wanted > value.dims[axis])
    refuse("K is " + std::to_string(wanted) + " of " +
           std::to_string(value.dims[axis]));
  int first = intAttribute(e.attributes, "largest", 1) != 0 ? 1 : -1;
  Dims dims = value.dims;
  dims[axis] = wanted;
  HostValue values = makeValue(value.type, dims);
  HostValue indices = makeValue(DataType::Int64, dims);
  int64_t stride = rowMajorStrides(value.dims)[axis];
  int64_t stepOut = rowMajorStrides(dims)[axis];
  std::vector<int64_t> startsOut;
  if (wanted > 0)
    startsOut = lineStarts(dims, axis);
  std::vector<int64_t> starts = lineStarts(value.dims, axis);
  for (size_t line = 0; line < startsOut.size(); ++line) {
    std::vector<int64_t> order(value.dims[axis]);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return compareTotally(value, starts[line] + a * stride,
                            starts[line] + b * stride) == first;
    });
    for (int64_t k = 0; k < wanted; ++k) {
      int64_t at = startsOut[line] + k * stepOut;
      copyElement(values, at, value, starts[line] + order[k] * stride);
      indices.ints[at] = order[k];
    }
  }
  return {values, indices};
}

} // namespace offload::shape
