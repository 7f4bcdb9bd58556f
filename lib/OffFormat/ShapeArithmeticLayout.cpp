// Rules that give the same elements another shape or order.

#include "ShapeArithmeticParts.h"

#include <algorithm>
#include <numeric>

namespace offload::shape {

namespace {

HostValue withDims(const HostValue &value, Dims dims) {
  HostValue result = value;
  result.dims = std::move(dims);
  return result;
}

/// The target shape with 0 and -1 put in.
Dims resolveShape(const Dims &from, Dims target, bool allowZero) {
  int64_t known = 1, inferred = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allowZero) {
      if (i >= from.size())
        refuse("shape " + printDims(target) + " copies dimension " +
               std::to_string(i) + " of " + printDims(from));
      target[i] = from[i];
    }
    if (target[i] == -1) {
      if (inferred >= 0)
        refuse("shape " + printDims(target) + " has -1 twice");
      inferred = static_cast<int64_t>(i);
    } else if (target[i] < 0) {
      refuse("shape " + printDims(target) + " has a negative dimension");
    } else {
      known *= target[i];
    }
  }
  int64_t count = countElements(from);
  if (inferred >= 0) {
    if (known == 0 || count % known != 0)
      refuse("shape " + printDims(target) + " does not fit " + printDims(from));
    target[inferred] = count / known;
    known = count;
  }
  if (known != count)
    refuse("shape " + printDims(target) + " does not fit " + printDims(from));
  return target;
}

} // namespace

std::vector<HostValue> reshape(const Evaluation &e) {
  const HostValue &value = e.value(0);
  bool allowZero = intAttribute(e.attributes, "allowzero", 0) != 0;
  return {withDims(value, resolveShape(value.dims, e.integers(1), allowZero))};
}

std::vector<HostValue> flatten(const Evaluation &e) {
  const HostValue &value = e.value(0);
  auto rank = static_cast<int64_t>(value.dims.size());
  int64_t axis = intAttribute(e.attributes, "axis", 1);
  if (axis != rank)
    axis = normalizeAxis(axis, rank);
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < rank; ++i)
    (i < axis ? rows : columns) *= value.dims[i];
  return {withDims(value, {rows, columns})};
}

std::vector<HostValue> squeeze(const Evaluation &e) {
  const HostValue &value = e.value(0);
  auto rank = static_cast<int64_t>(value.dims.size());
  std::optional<Dims> axes = e.axes();
  if (axes)
    axes = normalizeAxes(*axes, rank);
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) {
    bool drops = axes ? std::binary_search(axes->begin(), axes->end(), i)
                      : value.dims[i] == 1;
    if (!drops)
      dims.push_back(value.dims[i]);
    else if (value.dims[i] != 1)
      refuse("dimension " + std::to_string(i) + " of " + printDims(value.dims) +
             " is not 1");
  }
  return {withDims(value, dims)};
}

std::vector<HostValue> unsqueeze(const Evaluation &e) {
  const HostValue &value = e.value(0);
  std::optional<Dims> axes = e.axes();
  if (!axes)
    refuse("has no axes");
  Dims sorted = normalizeAxes(
      *axes, static_cast<int64_t>(value.dims.size() + axes->size()));
  Dims dims = value.dims;
  for (int64_t axis : sorted)
    dims.insert(dims.begin() + axis, 1);
  return {withDims(value, dims)};
}

std::vector<HostValue> transpose(const Evaluation &e) {
  const HostValue &value = e.value(0);
  size_t rank = value.dims.size();
  Dims permutation(rank);
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  if (const Dims *given = intsAttribute(e.attributes, "perm")) {
    if (given->size() != rank)
      refuse("perm " + printDims(*given) + " does not fit rank " +
             std::to_string(rank));
    permutation = *given;
    normalizeAxes(permutation, static_cast<int64_t>(rank));
    for (int64_t &axis : permutation)
      axis = normalizeAxis(axis, static_cast<int64_t>(rank));
  }
  Dims own = rowMajorStrides(value.dims), dims(rank), strides(rank);
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = value.dims[permutation[i]];
    strides[i] = own[permutation[i]];
  }
  HostValue result = makeValue(value.type, dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    copyElement(result, i, value, offsetOf(index, strides));
  });
  return {result};
}

std::vector<HostValue> expand(const Evaluation &e) {
  const HostValue &value = e.value(0);
  Dims dims = broadcastDims(value.dims, e.integers(1));
  HostValue result = makeValue(value.type, dims);
  Dims strides = broadcastStrides(value.dims, dims.size());
  walk(dims, [&](int64_t i, const Dims &index) {
    copyElement(result, i, value, offsetOf(index, strides));
  });
  return {result};
}

std::vector<HostValue> tile(const Evaluation &e) {
  const HostValue &value = e.value(0);
  Dims repeats = e.integers(1), dims = value.dims;
  if (repeats.size() != dims.size())
    refuse("repeats " + printDims(repeats) + " do not fit rank " +
           std::to_string(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0)
      refuse("repeats " + printDims(repeats) + " has a negative number");
    if (repeats[i] > 0)
      countElements({dims[i], repeats[i]});
    dims[i] *= repeats[i];
  }
  HostValue result = makeValue(value.type, dims);
  Dims strides = rowMajorStrides(value.dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    Dims at = index;
    for (size_t axis = 0; axis < at.size(); ++axis)
      at[axis] %= value.dims[axis];
    copyElement(result, i, value, offsetOf(at, strides));
  });
  return {result};
}

std::vector<HostValue> trilu(const Evaluation &e) {
  HostValue result = e.value(0);
  size_t rank = result.dims.size();
  if (rank < 2)
    refuse("operand 0 must have rank 2 or more, is " + printDims(result.dims));
  int64_t diagonal = e.has(1) ? e.integer(1) : 0;
  bool upper = intAttribute(e.attributes, "upper", 1) != 0;
  HostValue zero = makeValue(result.type, {1});
  walk(result.dims, [&](int64_t i, const Dims &index) {
    int64_t across = index[rank - 1] - index[rank - 2];
    if (upper ? across < diagonal : across > diagonal)
      copyElement(result, i, zero, 0);
  });
  return {result};
}

} // namespace offload::shape
