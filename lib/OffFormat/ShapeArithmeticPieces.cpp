// Rules that cut tensors into pieces, join pieces and add borders.

#include "ShapeArithmeticParts.h"

#include <algorithm>
#include <limits>

namespace offload::shape {

namespace {

/// The part of `value` that starts at `begin` along `axis`.
HostValue cut(const HostValue &value, int64_t axis, int64_t begin,
              int64_t count) {
  Dims dims = value.dims;
  dims[axis] = count;
  HostValue result = makeValue(value.type, dims);
  Dims strides = rowMajorStrides(value.dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    copyElement(result, i, value,
                offsetOf(index, strides) + begin * strides[axis]);
  });
  return result;
}

/// Lengths of the parts of a split; the last of equal ones may be shorter.
Dims splitLengths(const Evaluation &e, int64_t dim) {
  if (e.has(1))
    return e.integers(1);
  if (const Dims *given = intsAttribute(e.attributes, "split"))
    return *given;
  int64_t parts = intAttribute(e.attributes, "num_outputs", e.numOutputs);
  bool named = e.attributes.count("num_outputs");
  if (parts <= 0 || (!named && dim % parts != 0))
    refuse("a dimension of " + std::to_string(dim) + " cannot be cut into " +
           std::to_string(parts) + " equal parts");
  int64_t length = (dim + parts - 1) / parts;
  Dims lengths(parts, length);
  lengths.back() = dim - length * (parts - 1);
  if (lengths.back() < 0)
    refuse("a dimension of " + std::to_string(dim) + " is too short for " +
           std::to_string(parts) + " parts");
  return lengths;
}

/// What a slice takes along one axis.
struct Span {
  int64_t begin = 0, count = 0, step = 1;
};

/// numpy's rule: ends are clamped, for a negative step to one before the first.
Span clampSpan(int64_t begin, int64_t end, int64_t step, int64_t dim) {
  if (step == 0)
    refuse("step is 0");
  if (dim == 0)
    return {0, 0, step};
  auto clamp = [dim](int64_t at, int64_t low, int64_t high) {
    return std::clamp(at < 0 ? at + dim : at, low, high);
  };
  bool back = step < 0;
  begin = back ? clamp(begin, 0, dim - 1) : clamp(begin, 0, dim);
  end = back ? clamp(end, -1, dim - 1) : clamp(end, 0, dim);
  int64_t distance = back ? begin - end : end - begin;
  // The step's size as an unsigned number: the smallest int64 has no negative.
  uint64_t stride = back ? 0 - static_cast<uint64_t>(step) : step;
  int64_t count = 0;
  if (distance > 0)
    count = static_cast<int64_t>((uint64_t(distance) - 1) / stride + 1);
  return {begin, count, step};
}

/// Where a padded index lies in the source, or -1 for the constant.
int64_t mirror(int64_t at, int64_t dim, const std::string &mode) {
  if (at >= 0 && at < dim)
    return at;
  if (mode == "constant")
    return -1;
  if (dim == 0)
    refuse("pads an empty dimension in mode " + mode);
  if (mode == "edge")
    return at < 0 ? 0 : dim - 1;
  if (mode == "wrap")
    return ((at % dim) + dim) % dim;
  if (mode != "reflect")
    refuse("attribute mode=" + mode + " is not supported");
  if (dim == 1)
    return 0;
  int64_t period = 2 * (dim - 1);
  int64_t folded = ((at % period) + period) % period;
  return folded < dim ? folded : period - folded;
}

} // namespace

std::vector<HostValue> concat(const Evaluation &e) {
  const HostValue &first = e.value(0);
  int64_t axis = normalizeAxis(intAttribute(e.attributes, "axis", 0),
                               static_cast<int64_t>(first.dims.size()));
  Dims dims = first.dims;
  dims[axis] = 0;
  for (unsigned i = 0; i < e.operands.size(); ++i) {
    needSameType(first, e.value(i));
    Dims other = e.value(i).dims;
    if (other.size() == dims.size())
      other[axis] = dims[axis];
    if (other != dims)
      refuse("shapes " + printDims(first.dims) + " and " +
             printDims(e.value(i).dims) + " do not fit along axis " +
             std::to_string(axis));
    dims[axis] += e.value(i).dims[axis];
  }
  HostValue result = makeValue(first.type, dims);
  Dims strides = rowMajorStrides(dims);
  int64_t begin = 0;
  for (unsigned k = 0; k < e.operands.size(); ++k) {
    walk(e.value(k).dims, [&](int64_t i, const Dims &index) {
      copyElement(result, offsetOf(index, strides) + begin * strides[axis],
                  e.value(k), i);
    });
    begin += e.value(k).dims[axis];
  }
  return {result};
}

std::vector<HostValue> split(const Evaluation &e) {
  const HostValue &value = e.value(0);
  int64_t axis = normalizeAxis(intAttribute(e.attributes, "axis", 0),
                               static_cast<int64_t>(value.dims.size()));
  Dims lengths = splitLengths(e, value.dims[axis]);
  std::vector<HostValue> results;
  int64_t begin = 0;
  for (int64_t length : lengths) {
    if (length < 0 || length > value.dims[axis] - begin)
      refuse("lengths " + printDims(lengths) + " do not add up to " +
             std::to_string(value.dims[axis]));
    results.push_back(cut(value, axis, begin, length));
    begin += length;
  }
  if (begin != value.dims[axis])
    refuse("lengths " + printDims(lengths) + " do not add up to " +
           std::to_string(value.dims[axis]));
  return results;
}

std::vector<HostValue> slice(const Evaluation &e) {
  const HostValue &value = e.value(0);
  auto rank = static_cast<int64_t>(value.dims.size());
  Dims begins = e.integers(1), ends = e.integers(2), axes;
  if (e.has(3))
    axes = e.integers(3);
  else
    for (size_t i = 0; i < begins.size(); ++i)
      axes.push_back(static_cast<int64_t>(i));
  Dims steps = e.has(4) ? e.integers(4) : Dims(axes.size(), 1);
  if (begins.size() != axes.size() || ends.size() != axes.size() ||
      steps.size() != axes.size())
    refuse("starts, ends, axes and steps differ in length");
  normalizeAxes(axes, rank);
  Dims dims = value.dims, strides = rowMajorStrides(value.dims);
  int64_t base = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = normalizeAxis(axes[i], rank);
    Span span = clampSpan(begins[i], ends[i], steps[i], value.dims[axis]);
    dims[axis] = span.count;
    base += span.begin * strides[axis];
    // One element needs no step, and a huge one would overflow.
    strides[axis] = span.count > 1 ? strides[axis] * span.step : 0;
  }
  HostValue result = makeValue(value.type, dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    copyElement(result, i, value, base + offsetOf(index, strides));
  });
  return {result};
}

std::vector<HostValue> pad(const Evaluation &e) {
  const HostValue &value = e.value(0);
  auto rank = static_cast<int64_t>(value.dims.size());
  Dims pads = e.integers(1), axes(rank);
  for (int64_t i = 0; i < rank; ++i)
    axes[i] = i;
  if (e.has(3))
    axes = e.integers(3);
  if (pads.size() != 2 * axes.size())
    refuse("has " + std::to_string(pads.size()) + " pads for " +
           std::to_string(axes.size()) + " axes");
  normalizeAxes(axes, rank);
  HostValue fill = makeValue(value.type, {});
  if (const HostValue *given = e.optionalValue(2)) {
    needSameType(value, *given);
    if (given->numElements() != 1)
      refuse("the constant must be one number, has shape " +
             printDims(given->dims));
    copyElement(fill, 0, *given, 0);
  }
  Dims dims = value.dims, before(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = normalizeAxis(axes[i], rank);
    before[axis] = pads[i];
    dims[axis] += pads[i] + pads[i + axes.size()];
  }
  std::string mode = stringAttribute(e.attributes, "mode", "constant");
  HostValue result = makeValue(value.type, dims);
  Dims strides = rowMajorStrides(value.dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    int64_t offset = 0;
    for (int64_t axis = 0; axis < rank && offset >= 0; ++axis) {
      int64_t at = mirror(index[axis] - before[axis], value.dims[axis], mode);
      offset = at < 0 ? -1 : offset + at * strides[axis];
    }
    copyElement(result, i, offset < 0 ? fill : value,
                std::max<int64_t>(0, offset));
  });
  return {result};
}

} // namespace offload::shape
