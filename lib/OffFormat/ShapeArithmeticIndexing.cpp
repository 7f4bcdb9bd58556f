// Rules that look elements up by indices, or write them there.

#include "ShapeArithmeticParts.h"

#include <algorithm>

namespace offload::shape {

namespace {

void needIndices(const HostValue &indices) {
  if (!isInteger(indices.type))
    refuse("indices have the type " + std::string(dataTypeName(indices.type)));
}

/// Where the tuple of `depth` indices that starts at `from` points to, along
/// the axes from `first` on.
int64_t pointTo(const HostValue &indices, int64_t from, int64_t depth,
                const Dims &dims, const Dims &strides, int64_t first) {
  int64_t offset = 0;
  for (int64_t k = 0; k < depth; ++k)
    offset += normalizeIndex(indices.ints[from + k], dims[first + k]) *
              strides[first + k];
  return offset;
}

/// One update of ScatterND: plain, or combined with what is there.
void scatterElement(HostValue &data, int64_t i, const HostValue &updates,
                    int64_t j, const std::string &reduction) {
  if (reduction == "none") {
    copyElement(data, i, updates, j);
  } else if (reduction == "max" || reduction == "min") {
    int order = compareElements(updates, j, data, i);
    if (order == (reduction == "max" ? 1 : -1))
      copyElement(data, i, updates, j);
  } else if (reduction != "add" && reduction != "mul") {
    refuse("attribute reduction=" + reduction + " is not supported");
  } else if (data.isReal()) {
    double x = data.reals[i], y = updates.reals[j];
    data.reals[i] = roundTo(data.type, reduction == "add" ? x + y : x * y);
  } else {
    auto x = static_cast<uint64_t>(data.ints[i]);
    auto y = static_cast<uint64_t>(updates.ints[j]);
    data.ints[i] = wrapTo(
        data.type, static_cast<int64_t>(reduction == "add" ? x + y : x * y));
  }
}

} // namespace

std::vector<HostValue> gather(const Evaluation &e) {
  const HostValue &data = e.value(0), &indices = e.value(1);
  needIndices(indices);
  int64_t axis = normalizeAxis(intAttribute(e.attributes, "axis", 0),
                               static_cast<int64_t>(data.dims.size()));
  size_t rank = indices.dims.size();
  Dims dims = data.dims;
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.dims.begin(), indices.dims.end());
  HostValue result = makeValue(data.type, dims);
  Dims inIndices = rowMajorStrides(indices.dims);
  Dims inData = rowMajorStrides(data.dims);
  walk(dims, [&](int64_t i, const Dims &index) {
    auto begin = index.begin() + axis;
    Dims which(begin, begin + rank);
    Dims at(index.begin(), begin);
    at.push_back(normalizeIndex(indices.ints[offsetOf(which, inIndices)],
                                data.dims[axis]));
    at.insert(at.end(), begin + rank, index.end());
    copyElement(result, i, data, offsetOf(at, inData));
  });
  return {result};
}

std::vector<HostValue> gatherElements(const Evaluation &e) {
  const HostValue &data = e.value(0), &indices = e.value(1);
  needIndices(indices);
  if (indices.dims.size() != data.dims.size())
    refuse("data and indices differ in rank");
  int64_t axis = normalizeAxis(intAttribute(e.attributes, "axis", 0),
                               static_cast<int64_t>(data.dims.size()));
  for (size_t i = 0; i < data.dims.size(); ++i)
    if (static_cast<int64_t>(i) != axis && indices.dims[i] > data.dims[i])
      refuse("indices of shape " + printDims(indices.dims) +
             " exceed data of shape " + printDims(data.dims));
  HostValue result = makeValue(data.type, indices.dims);
  Dims strides = rowMajorStrides(data.dims);
  walk(indices.dims, [&](int64_t i, const Dims &index) {
    Dims at = index;
    at[axis] = normalizeIndex(indices.ints[i], data.dims[axis]);
    copyElement(result, i, data, offsetOf(at, strides));
  });
  return {result};
}

std::vector<HostValue> gatherND(const Evaluation &e) {
  const HostValue &data = e.value(0), &indices = e.value(1);
  needIndices(indices);
  int64_t batch = intAttribute(e.attributes, "batch_dims", 0);
  auto dataRank = static_cast<int64_t>(data.dims.size());
  auto indexRank = static_cast<int64_t>(indices.dims.size());
  if (batch < 0 || indexRank < 1 || batch >= std::min(dataRank, indexRank) ||
      !std::equal(data.dims.begin(), data.dims.begin() + batch,
                  indices.dims.begin()))
    refuse("batch_dims does not fit shapes " + printDims(data.dims) + " and " +
           printDims(indices.dims));
  int64_t depth = indices.dims.back();
  if (depth < 1 || depth > dataRank - batch)
    refuse("indices of shape " + printDims(indices.dims) +
           " exceed the rank of " + printDims(data.dims));
  Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), data.dims.begin() + batch + depth, data.dims.end());
  HostValue result = makeValue(data.type, dims);
  Dims inData = rowMajorStrides(data.dims);
  Dims inIndices = rowMajorStrides(indices.dims);
  inIndices.pop_back();
  walk(dims, [&](int64_t i, const Dims &index) {
    int64_t tuple = offsetOf(index, inIndices);
    int64_t offset = pointTo(indices, tuple, depth, data.dims, inData, batch);
    for (int64_t k = 0; k < batch; ++k)
      offset += index[k] * inData[k];
    for (int64_t k = batch + depth; k < dataRank; ++k)
      offset += index[indexRank - 1 + k - batch - depth] * inData[k];
    copyElement(result, i, data, offset);
  });
  return {result};
}

std::vector<HostValue> scatterND(const Evaluation &e) {
  HostValue result = e.value(0);
  const HostValue &indices = e.value(1), &updates = e.value(2);
  needIndices(indices);
  needSameType(result, updates);
  auto rank = static_cast<int64_t>(result.dims.size());
  int64_t depth = indices.dims.empty() ? 0 : indices.dims.back();
  if (depth < 1 || depth > rank)
    refuse("indices of shape " + printDims(indices.dims) +
           " exceed the rank of " + printDims(result.dims));
  Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), result.dims.begin() + depth, result.dims.end());
  if (updates.dims != dims)
    refuse("updates must have shape " + printDims(dims) + ", have " +
           printDims(updates.dims));
  std::string reduction = stringAttribute(e.attributes, "reduction", "none");
  Dims strides = rowMajorStrides(result.dims);
  Dims inIndices = rowMajorStrides(indices.dims);
  inIndices.pop_back();
  walk(dims, [&](int64_t i, const Dims &index) {
    int64_t tuple = offsetOf(index, inIndices);
    int64_t offset = pointTo(indices, tuple, depth, result.dims, strides, 0);
    for (int64_t k = depth; k < rank; ++k)
      offset += index[inIndices.size() + k - depth] * strides[k];
    scatterElement(result, offset, updates, i, reduction);
  });
  return {result};
}

} // namespace offload::shape
