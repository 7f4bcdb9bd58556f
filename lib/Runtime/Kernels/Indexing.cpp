// Operators that read or write by index.
//
// In:  data, and indices of 32 or 64 bits that count from the end where they
//      are negative.
// Out: contiguous. An index out of range is an Error that names it.
// How: own loops over bytes, so every element type goes one way. Scatters run
//      in the order of the indices on one thread: where two meet, the later one
//      wins, or is added after the earlier one.

#include "Indices.h"
#include "Kernel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

namespace offload::rt {

namespace {

/// Indices of an operand, checked against an axis.
class Indices {
public:
  explicit Indices(const at::Tensor &tensor) : tensor(tensor.contiguous()) {
    if (tensor.scalar_type() != at::kLong && tensor.scalar_type() != at::kInt)
      throw Error("indices are neither int32 nor int64");
  }
  int64_t numElements() const { return tensor.numel(); }
  int64_t raw(int64_t i) const {
    return tensor.scalar_type() == at::kLong
               ? tensor.const_data_ptr<int64_t>()[i]
               : tensor.const_data_ptr<int32_t>()[i];
  }
  int64_t wrapped(int64_t i, int64_t size) const {
    int64_t index = raw(i);
    if (index < -size || index >= size)
      throw Error("index " + std::to_string(index) + " at position " +
                  std::to_string(i) + " is out of range for " +
                  std::to_string(size) + " elements");
    return index < 0 ? index + size : index;
  }
  at::IntArrayRef sizes() const { return tensor.sizes(); }

private:
  at::Tensor tensor;
};

/// Offset, in the data, of each position of an index tensor whose axes other
/// than `axis` are the data's.
class ElementWalk {
public:
  ElementWalk(at::IntArrayRef dataDims, at::IntArrayRef indexDims, int64_t axis)
      : indexDims(indexDims.vec()), axis(axis), position(indexDims.size(), 0),
        strides(dataDims.size(), 1) {
    if (dataDims.size() != indexDims.size())
      throw Error("data and indices differ in rank");
    for (size_t i = 0; i < dataDims.size(); ++i)
      if (static_cast<int64_t>(i) != axis && indexDims[i] > dataDims[i])
        throw Error("indices are larger than the data along axis " +
                    std::to_string(i));
    for (size_t i = dataDims.size(); i-- > 1;)
      strides[i - 1] = strides[i] * dataDims[i];
  }
  /// Offset of the current position with `index` along the axis.
  int64_t offset(int64_t index) const {
    int64_t offset = index * strides[axis];
    for (size_t i = 0; i < position.size(); ++i)
      if (static_cast<int64_t>(i) != axis)
        offset += position[i] * strides[i];
    return offset;
  }
  void next() {
    for (size_t i = position.size(); i-- > 0;) {
      if (++position[i] < indexDims[i])
        return;
      position[i] = 0;
    }
  }

private:
  Dims indexDims;
  int64_t axis;
  Dims position, strides;
};

template <typename T>
void combine(T &to, T from, const std::string &reduction) {
  using C = ComputeType<T>;
  C a = static_cast<C>(to), b = static_cast<C>(from);
  if (reduction == "add")
    to = static_cast<T>(a + b);
  else if (reduction == "mul")
    to = static_cast<T>(a * b);
  else if (reduction == "max")
    to = static_cast<T>(std::max(a, b));
  else
    to = static_cast<T>(std::min(a, b));
}

/// Writes `count` elements of `updates` from `from` on to `to` in `out`.
void update(at::Tensor &out, int64_t to, const at::Tensor &updates,
            int64_t from, int64_t count, const std::string &reduction) {
  if (reduction == "none") {
    size_t bytes = out.element_size();
    std::memcpy(static_cast<std::byte *>(out.mutable_data_ptr()) + to * bytes,
                static_cast<const std::byte *>(updates.const_data_ptr()) +
                    from * bytes,
                count * bytes);
    return;
  }
  dispatchNumber(out.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    T *target = out.data_ptr<T>() + to;
    const T *source = updates.const_data_ptr<T>() + from;
    for (int64_t i = 0; i < count; ++i)
      combine(target[i], source[i], reduction);
  });
}

/// Index tuples of GatherND and ScatterND.
struct Tuples {
  int64_t batches, perBatch, length; // tuples of `length` numbers
  int64_t batchElements, block;      // elements of the data
};

Tuples tuplesOf(at::IntArrayRef data, at::IntArrayRef indices,
                int64_t batchDims) {
  Tuples tuples;
  tuples.length = indices.back();
  tuples.batches = product(data, 0, batchDims);
  tuples.perBatch = product(indices, batchDims, indices.size() - 1);
  tuples.batchElements = product(data, batchDims, data.size());
  if (batchDims + tuples.length > static_cast<int64_t>(data.size()))
    throw Error("tuples of " + std::to_string(tuples.length) +
                " indices are longer than the data's rank");
  tuples.block = product(data, batchDims + tuples.length, data.size());
  return tuples;
}

/// Offset in the data's batch that tuple `t` points at.
int64_t tupleOffset(const Indices &indices, const Tuples &tuples, int64_t t,
                    at::IntArrayRef data, int64_t batchDims) {
  int64_t offset = 0;
  for (int64_t k = 0; k < tuples.length; ++k) {
    int64_t size = data[batchDims + k];
    offset = offset * size + indices.wrapped(t * tuples.length + k, size);
  }
  return offset * tuples.block;
}

template <typename Visit>
void visitBand(const at::Tensor &out, const Visit &visit) {
  int64_t rows = out.size(-2), columns = out.size(-1);
  for (int64_t m = 0; m < out.numel() / std::max<int64_t>(rows * columns, 1);
       ++m)
    for (int64_t r = 0; r < rows; ++r)
      visit(m * rows * columns + r * columns, r, columns);
}

} // namespace

at::Tensor partOf(const KernelContext &context) {
  at::Tensor data = context[0];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  int64_t index = context.launchInt(1, 0), size = data.size(axis);
  if (index < -size || index >= size)
    throw Error("index " + std::to_string(index) +
                " is out of range for an axis of size " + std::to_string(size));
  at::Tensor part = data.select(axis, index < 0 ? index + size : index);
  for (size_t i = 0; i < context.dims(1).size(); ++i)
    part = part.unsqueeze(axis);
  return part;
}

OFFLOAD_KERNEL(Gather) {
  if (context.launch(1))
    return {partOf(context)};
  at::Tensor data = context.contiguous(0);
  Indices indices(context[1]);
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  Dims dims = data.sizes().slice(0, axis).vec();
  dims.insert(dims.end(), indices.sizes().begin(), indices.sizes().end());
  at::IntArrayRef rest = data.sizes().slice(axis + 1);
  dims.insert(dims.end(), rest.begin(), rest.end());
  at::Tensor out = makeEmpty(dims, data.scalar_type());
  int64_t size = data.size(axis), count = indices.numElements();
  size_t blockBytes = product(rest, 0, rest.size()) * data.element_size();
  const auto *from = static_cast<const std::byte *>(data.const_data_ptr());
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  at::parallel_for(0, product(data.sizes(), 0, axis) * count,
                   1 + 16384 / static_cast<int64_t>(blockBytes + 1),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       std::memcpy(to + i * blockBytes,
                                   from + ((i / count) * size +
                                           indices.wrapped(i % count, size)) *
                                              blockBytes,
                                   blockBytes);
                   });
  return {out};
}

OFFLOAD_KERNEL(GatherElements) {
  at::Tensor data = context.contiguous(0);
  Indices indices(context[1]);
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  at::Tensor out = makeEmpty(indices.sizes(), data.scalar_type());
  ElementWalk walk(data.sizes(), indices.sizes(), axis);
  size_t bytes = data.element_size();
  const auto *from = static_cast<const std::byte *>(data.const_data_ptr());
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  for (int64_t i = 0; i < indices.numElements(); ++i, walk.next())
    std::memcpy(to + i * bytes,
                from + walk.offset(indices.wrapped(i, data.size(axis))) * bytes,
                bytes);
  return {out};
}

OFFLOAD_KERNEL(GatherND) {
  at::Tensor data = context.contiguous(0);
  Indices indices(context[1]);
  int64_t batchDims = context.intAttr("batch_dims", 0);
  Tuples tuples = tuplesOf(data.sizes(), indices.sizes(), batchDims);
  Dims dims = indices.sizes().slice(0, indices.sizes().size() - 1).vec();
  at::IntArrayRef rest = data.sizes().slice(batchDims + tuples.length);
  dims.insert(dims.end(), rest.begin(), rest.end());
  at::Tensor out = makeEmpty(dims, data.scalar_type());
  size_t bytes = data.element_size(), blockBytes = tuples.block * bytes;
  const auto *from = static_cast<const std::byte *>(data.const_data_ptr());
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  for (int64_t t = 0; t < tuples.batches * tuples.perBatch; ++t) {
    int64_t base = t / tuples.perBatch * tuples.batchElements;
    int64_t offset = tupleOffset(indices, tuples, t, data.sizes(), batchDims);
    std::memcpy(to + t * blockBytes, from + (base + offset) * bytes,
                blockBytes);
  }
  return {out};
}

OFFLOAD_KERNEL(ScatterElements) {
  at::Tensor data = context[0], updates = context.contiguous(2);
  Indices indices(context[1]);
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  std::string reduction = context.textAttr("reduction", "none");
  at::Tensor out = makeEmpty(data.sizes(), data.scalar_type()).copy_(data);
  ElementWalk walk(data.sizes(), indices.sizes(), axis);
  for (int64_t i = 0; i < indices.numElements(); ++i, walk.next())
    update(out, walk.offset(indices.wrapped(i, data.size(axis))), updates, i, 1,
           reduction);
  return {out};
}

OFFLOAD_KERNEL(ScatterND) {
  at::Tensor data = context[0], updates = context.contiguous(2);
  Indices indices(context[1]);
  std::string reduction = context.textAttr("reduction", "none");
  at::Tensor out = makeEmpty(data.sizes(), data.scalar_type()).copy_(data);
  Tuples tuples = tuplesOf(data.sizes(), indices.sizes(), 0);
  for (int64_t t = 0; t < tuples.perBatch; ++t)
    update(out, tupleOffset(indices, tuples, t, data.sizes(), 0), updates,
           t * tuples.block, tuples.block, reduction);
  return {out};
}

OFFLOAD_KERNEL(OneHot) {
  at::Tensor ids = context.contiguous(0), values = context.contiguous(2);
  int64_t depth = context.launchInt(1, -1);
  if (depth < 0)
    throw Error("depth is missing or negative");
  int64_t axis = wrapAxis(context.intAttr("axis", -1), ids.dim() + 1);
  Dims dims = ids.sizes().vec();
  dims.insert(dims.begin() + axis, depth);
  at::Tensor out = makeEmpty(dims, values.scalar_type());
  int64_t inner = product(ids.sizes(), axis, ids.dim());
  size_t bytes = out.element_size();
  const auto *offOn = static_cast<const std::byte *>(values.const_data_ptr());
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i)
    std::memcpy(to + i * bytes, offOn, bytes);
  dispatchNumber(ids.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = ids.const_data_ptr<T>();
    for (int64_t i = 0; i < ids.numel(); ++i) {
      auto id = static_cast<int64_t>(static_cast<ComputeType<T>>(from[i]));
      if (id < -depth || id >= depth)
        continue; // ONNX: a row without a one
      id = id < 0 ? id + depth : id;
      int64_t place = (i / inner * depth + id) * inner + i % inner;
      std::memcpy(to + place * bytes, offOn + bytes, bytes);
    }
  });
  return {out};
}

OFFLOAD_KERNEL(Trilu) {
  at::Tensor x = context[0];
  if (x.dim() < 2)
    throw Error("takes matrices");
  bool upper = context.intAttr("upper", 1);
  int64_t k = context.launchInt(1, 0);
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type()).copy_(x);
  size_t bytes = out.element_size();
  auto *to = static_cast<std::byte *>(out.mutable_data_ptr());
  visitBand(out, [&](int64_t start, int64_t row, int64_t columns) {
    // The diagonal k is kept, above it (upper) or below it.
    int64_t diagonal = std::clamp<int64_t>(row + k, -1, columns);
    int64_t first = upper ? 0 : std::max<int64_t>(diagonal + 1, 0);
    int64_t last = upper ? std::max<int64_t>(diagonal, 0) : columns;
    if (first < last)
      std::memset(to + (start + first) * bytes, 0, (last - first) * bytes);
  });
  return {out};
}

} // namespace offload::rt
