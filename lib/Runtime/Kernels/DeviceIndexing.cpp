// Operators that read or write by index, for devices.
//
// In:  data, and indices of 32 or 64 bits.
// Out: as on the host. Nothing waits for the device, so an index out of range
//      is replaced by the nearest one and told by the call's `problem`.
// How: indices become offsets by arithmetic on tensors; ATen's selection,
//      gather and indexed writes do the rest. Sums of updates that meet go by
//      ATen's sorted accumulation, one after the other in the indices' order;
//      products have no such form and are taken tuple by tuple.

#include "Indices.h"

namespace offload::rt {

namespace {

void requireRows(int64_t size, const at::Tensor &indices) {
  if (size == 0 && indices.numel())
    throw Error("indices point into an axis without elements");
}

/// Offsets of tuples of indices, in blocks of the data behind them.
at::Tensor tupleOffsets(const KernelContext &context, const at::Tensor &indices,
                        at::IntArrayRef data, int64_t batchDims) {
  int64_t length = indices.size(-1);
  if (batchDims + length > static_cast<int64_t>(data.size()))
    throw Error("tuples of " + std::to_string(length) +
                " indices are longer than the data's rank");
  int64_t batches = product(data, 0, batchDims);
  at::Tensor tuples = indices.reshape({batches, -1, length});
  at::Tensor offsets = makeEmpty({batches, tuples.size(1)}, at::kLong).zero_();
  if (batches > 1)
    offsets.add_(at::arange(batches, offsets.options()).unsqueeze(1));
  for (int64_t k = 0; k < length; ++k) {
    int64_t size = data[batchDims + k];
    requireRows(size, tuples);
    offsets.mul_(size).add_(
        rowsInRange(context, tuples.select(2, k), size, true));
  }
  return offsets.view(-1);
}

int64_t tupleCount(const at::Tensor &indices) {
  return product(indices.sizes(), 0, indices.dim() - 1);
}

/// Combines rows of `updates` into rows `offsets` of `out`.
void combineRows(at::Tensor out, const at::Tensor &offsets,
                 const at::Tensor &updates, const std::string &reduction) {
  if (offsets.numel() == 0 || updates.numel() == 0)
    return;
  if (reduction == "none" || reduction == "add") {
    out.index_put_({offsets}, updates, reduction == "add");
    return;
  }
  if (reduction == "mul") {
    for (int64_t t = 0; t < offsets.size(0); ++t) {
      at::Tensor row = offsets.narrow(0, t, 1);
      out.index_copy_(0, row,
                      out.index_select(0, row).mul_(updates.narrow(0, t, 1)));
    }
    return;
  }
  at::Tensor index =
      offsets.view({-1, 1}).expand({offsets.size(0), out.size(1)});
  out.scatter_reduce_(0, index, updates, reduction == "max" ? "amax" : "amin");
}

/// The offset, in the data, of every position of an index tensor whose axes
/// other than `axis` are the data's.
at::Tensor elementOffsets(const at::Tensor &indices, at::IntArrayRef data,
                          int64_t axis) {
  if (static_cast<int64_t>(data.size()) != indices.dim())
    throw Error("data and indices differ in rank");
  at::Tensor offsets = makeEmpty(indices.sizes(), at::kLong).zero_();
  int64_t stride = 1;
  for (int64_t i = indices.dim(); i-- > 0; stride *= data[i]) {
    if (i != axis && indices.size(i) > data[i])
      throw Error("indices are larger than the data along axis " +
                  std::to_string(i));
    if (i == axis) {
      offsets.add_(indices, stride);
      continue;
    }
    Dims shape(indices.dim(), 1);
    shape[i] = indices.size(i);
    offsets.add_(at::arange(indices.size(i), offsets.options()).view(shape),
                 stride);
  }
  return offsets.view(-1);
}

} // namespace

at::Tensor rowsInRange(const KernelContext &context, const at::Tensor &indices,
                       int64_t size, bool fromEnd) {
  if (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt)
    throw Error("indices are neither int32 nor int64");
  at::Tensor near =
      at::clamp(indices, fromEnd ? -size : 0, std::max<int64_t>(size - 1, 0));
  if (int32_t *problem = context.problem(); problem && near.numel()) {
    at::Tensor flag = tensorAt(problem, {1}, {1}, at::kInt);
    flag.logical_or_(at::ne(near, indices).any().unsqueeze(0));
  }
  return fromEnd ? at::remainder(near, std::max<int64_t>(size, 1)) : near;
}

OFFLOAD_DEVICE_KERNEL(Gather) {
  if (context.launch(1))
    return {partOf(context)};
  at::Tensor data = context.contiguous(0), given = context[1];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  Dims dims = data.sizes().slice(0, axis).vec();
  dims.insert(dims.end(), given.sizes().begin(), given.sizes().end());
  at::IntArrayRef rest = data.sizes().slice(axis + 1);
  dims.insert(dims.end(), rest.begin(), rest.end());
  Dims flat = data.sizes().vec();
  flat[axis] = given.numel();
  at::Tensor out = makeEmpty(dims, data.scalar_type());
  if (out.numel() == 0)
    return {out};
  requireRows(data.size(axis), given);
  at::Tensor index =
      rowsInRange(context, given, data.size(axis), true).reshape(-1);
  at::Tensor rows = out.view(flat);
  at::index_select_out(rows, data, axis, index);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(GatherElements) {
  at::Tensor data = context.contiguous(0), given = context[1];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  if (data.dim() == 0 || given.numel() == 0)
    return {makeEmpty(given.sizes(), data.scalar_type())
                .copy_(data.expand(given.sizes()))};
  requireRows(data.size(axis), given);
  at::Tensor index =
      rowsInRange(context, given, data.size(axis), true).to(at::kLong);
  at::Tensor out = makeEmpty(given.sizes(), data.scalar_type());
  at::gather_out(out, data, axis, index);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(GatherND) {
  at::Tensor data = context.contiguous(0), indices = context.contiguous(1);
  int64_t batchDims = context.intAttr("batch_dims", 0);
  int64_t inner = batchDims + indices.size(-1);
  Dims dims = indices.sizes().slice(0, indices.dim() - 1).vec();
  at::Tensor offsets = tupleOffsets(context, indices, data.sizes(), batchDims);
  at::IntArrayRef rest = data.sizes().slice(inner);
  dims.insert(dims.end(), rest.begin(), rest.end());
  at::Tensor out = makeEmpty(dims, data.scalar_type());
  if (out.numel() == 0)
    return {out};
  int64_t block = product(data.sizes(), inner, data.dim());
  at::Tensor rows = out.view({-1, block});
  at::index_select_out(rows, data.view({-1, block}), 0, offsets);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(ScatterElements) {
  at::Tensor data = context[0], updates = context.contiguous(2);
  at::Tensor given = context[1];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), data.dim());
  at::Tensor out = makeEmpty(data.sizes(), data.scalar_type()).copy_(data);
  if (given.numel() == 0)
    return {out};
  int64_t size = data.dim() ? data.size(axis) : 1;
  requireRows(size, given);
  at::Tensor index = rowsInRange(context, given, size, true).to(at::kLong);
  at::Tensor offsets =
      data.dim() ? elementOffsets(index, data.sizes(), axis) : index.view(-1);
  combineRows(out.view({-1, 1}), offsets, updates.view({-1, 1}),
              context.textAttr("reduction", "none"));
  return {out};
}

OFFLOAD_DEVICE_KERNEL(ScatterND) {
  at::Tensor data = context[0], updates = context.contiguous(2);
  at::Tensor indices = context.contiguous(1);
  at::Tensor out = makeEmpty(data.sizes(), data.scalar_type()).copy_(data);
  if (tupleCount(indices) == 0 || out.numel() == 0)
    return {out};
  at::Tensor offsets = tupleOffsets(context, indices, data.sizes(), 0);
  int64_t block = product(data.sizes(), indices.size(-1), data.dim());
  combineRows(out.view({-1, block}), offsets, updates.view({-1, block}),
              context.textAttr("reduction", "none"));
  return {out};
}

OFFLOAD_DEVICE_KERNEL(OneHot) {
  at::Tensor ids = context.contiguous(0), values = context.contiguous(2);
  int64_t depth = context.launchInt(1, -1);
  if (depth < 0)
    throw Error("depth is missing or negative");
  int64_t axis = wrapAxis(context.intAttr("axis", -1), ids.dim() + 1);
  Dims dims = ids.sizes().vec(), shape(ids.dim() + 1, 1);
  dims.insert(dims.begin() + axis, depth);
  shape[axis] = depth;
  at::Tensor out = makeEmpty(dims, values.scalar_type());
  at::Tensor wide = ids.to(at::kLong, false, true);
  wide.add_(at::lt(wide, 0).to(at::kLong).mul_(depth));
  at::Tensor positions = at::arange(depth, wide.options()).view(shape);
  at::Tensor isOn = at::eq(wide.unsqueeze(axis), positions);
  at::where_out(out, isOn, values.select(0, 1), values.select(0, 0));
  return {out};
}

OFFLOAD_DEVICE_KERNEL(Trilu) {
  at::Tensor x = context[0];
  if (x.dim() < 2)
    throw Error("takes matrices");
  int64_t k = context.launchInt(1, 0);
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  if (context.intAttr("upper", 1))
    at::triu_out(out, x, k);
  else
    at::tril_out(out, x, k);
  return {out};
}

} // namespace offload::rt
