// Copies elements whose source index along each axis is a table.
//
// In:  a tensor of any strides, a table for each axis.
// Out: a new contiguous tensor; no scratch.
// How: rows of the last axis one by one, spread over threads; a row whose table
//      counts up by one over elements that lie together is one memcpy.

#include "AxisMap.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace offload::rt {

namespace {

struct Source {
  const std::byte *data;
  Dims strideBytes;
  size_t elementBytes;
};

bool countsUp(const Dims &table) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != table[0] + static_cast<int64_t>(i))
      return false;
  return !table.empty() && table[0] >= 0;
}

void fillRow(std::byte *to, const void *fill, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; ++i)
    std::memcpy(to + i * bytes, fill, bytes);
}

template <size_t kBytes>
void copyRow(std::byte *to, const std::byte *from, const Dims &table,
             int64_t strideBytes, const void *fill) {
  for (size_t i = 0; i < table.size(); ++i)
    std::memcpy(to + i * kBytes,
                table[i] < 0 ? fill : from + table[i] * strideBytes, kBytes);
}

void copyRow(std::byte *to, const std::byte *from, const Dims &table,
             const Source &source, bool together, const void *fill) {
  int64_t stride = source.strideBytes.back();
  if (together) {
    std::memcpy(to, from + table[0] * stride,
                table.size() * source.elementBytes);
    return;
  }
  switch (source.elementBytes) {
  case 1:
    return copyRow<1>(to, from, table, stride, fill);
  case 2:
    return copyRow<2>(to, from, table, stride, fill);
  case 4:
    return copyRow<4>(to, from, table, stride, fill);
  default:
    return copyRow<8>(to, from, table, stride, fill);
  }
}

/// Start of row `row` in the source, or null where it is all fill.
const std::byte *rowStart(const Source &source, const AxisMap &map,
                          int64_t row) {
  const std::byte *from = source.data;
  for (size_t axis = map.size() - 1; axis-- > 0;) {
    int64_t size = static_cast<int64_t>(map[axis].size());
    int64_t index = map[axis][row % size];
    if (index < 0)
      return nullptr;
    from += index * source.strideBytes[axis];
    row /= size;
  }
  return from;
}

/// Positions of a table that are not filled: one range, since only pads fill.
std::pair<int64_t, int64_t> takenRange(const Dims &table) {
  auto isTaken = [](int64_t index) { return index >= 0; };
  auto first = std::find_if(table.begin(), table.end(), isTaken);
  auto last = std::find_if(table.rbegin(), table.rend(), isTaken).base();
  return {first - table.begin(), std::max<int64_t>(last - first, 0)};
}

/// `x` with an axis in the order of `count` entries of a table from `first` on:
/// a view where they are evenly spaced, else a copy by indices.
at::Tensor inOrderOf(const at::Tensor &x, int64_t axis, const Dims &table,
                     int64_t first, int64_t count) {
  int64_t step = count > 1 ? table[first + 1] - table[first] : 1;
  bool isEven = step != 0;
  for (int64_t i = 1; i < count && isEven; ++i)
    isEven = table[first + i] - table[first + i - 1] == step;
  int64_t start = table[first], last = table[first + count - 1];
  if (isEven && step > 0)
    return x.slice(axis, start, last + 1, step);
  if (isEven)
    return x.slice(axis, last, start + 1, -step).flip(axis);
  Dims indices(table.begin() + first, table.begin() + first + count);
  return x.index_select(axis, tableOnDevice(indices));
}

at::Tensor takeOnDevice(at::Tensor &out, const at::Tensor &x,
                        const AxisMap &map, const void *fill) {
  at::Tensor from = x, to = out;
  bool isWhole = true;
  for (size_t axis = 0; axis < map.size(); ++axis) {
    auto [first, count] = takenRange(map[axis]);
    isWhole &= count == out.size(axis);
    to = to.narrow(axis, first, count);
    if (count)
      from = inOrderOf(from, axis, map[axis], first, count);
  }
  if (!isWhole) // the bytes of one element, as a tensor without dimensions
    out.fill_(at::from_blob(const_cast<void *>(fill), {},
                            at::TensorOptions(out.scalar_type())));
  if (to.numel())
    to.copy_(from);
  return out;
}

} // namespace

at::Tensor tableOnDevice(const Dims &table) {
  at::Tensor made = makeEmpty({static_cast<int64_t>(table.size())}, at::kLong);
  made.copy_(at::from_blob(const_cast<int64_t *>(table.data()),
                           {static_cast<int64_t>(table.size())}, at::kLong),
             true);
  return made;
}

AxisMap identityMap(const at::Tensor &x) {
  AxisMap map;
  for (int64_t size : x.sizes()) {
    map.emplace_back(size);
    std::iota(map.back().begin(), map.back().end(), 0);
  }
  return map;
}

at::Tensor takeByAxis(const at::Tensor &x, const AxisMap &map,
                      const void *fill) {
  if (map.empty())
    return x;
  Dims dims;
  for (const Dims &table : map)
    dims.push_back(static_cast<int64_t>(table.size()));
  at::Tensor out = makeEmpty(dims, x.scalar_type());
  if (out.numel() == 0)
    return out;
  if (usesDeviceForms())
    return takeOnDevice(out, x, map, fill);
  Source source{static_cast<const std::byte *>(x.const_data_ptr()),
                {},
                static_cast<size_t>(x.element_size())};
  for (int64_t stride : x.strides())
    source.strideBytes.push_back(stride *
                                 static_cast<int64_t>(source.elementBytes));
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  const Dims &last = map.back();
  size_t rowBytes = last.size() * source.elementBytes;
  bool together = countsUp(last) && x.stride(-1) == 1;
  at::parallel_for(0, product(dims, 0, dims.size() - 1),
                   1 + 16384 / dims.back(), [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row)
                       if (const std::byte *from = rowStart(source, map, row))
                         copyRow(to + row * rowBytes, from, last, source,
                                 together, fill);
                       else
                         fillRow(to + row * rowBytes, fill, last.size(),
                                 source.elementBytes);
                   });
  return out;
}

} // namespace offload::rt
