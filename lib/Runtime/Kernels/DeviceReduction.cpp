// Operators that order elements along an axis, for devices.
//
// In:  an operand, an axis.
// Out: contiguous.
// How: ATen's reductions and stable sort. Of equal elements ATen's argmax takes
//      the first; the last one is the first of the reversed axis. Running sums
//      of one long row would be made in parallel parts whose bounds differ from
//      run to run, so such a row is summed beside a copy of itself, which ATen
//      does in a fixed order.

#include "Kernel.h"

namespace offload::rt {

namespace {

/// A scalar as a row of one element.
at::Tensor atLeastOne(const at::Tensor &x) {
  return x.dim() ? x : x.unsqueeze(0);
}

KernelOutputs argument(const KernelContext &context, bool largest) {
  at::Tensor x = atLeastOne(context.contiguous(0));
  int64_t axis = wrapAxis(context.intAttr("axis", 0), x.dim());
  bool last = context.intAttr("select_last_index", 0);
  bool keep = context.intAttr("keepdims", 1);
  at::Tensor input = last ? x.flip(axis) : x;
  at::Tensor out =
      largest ? at::argmax(input, axis, keep) : at::argmin(input, axis, keep);
  if (last)
    out.neg_().add_(x.size(axis) - 1);
  return {context.dims(0).empty() ? out.view(at::IntArrayRef{}) : out};
}

at::Tensor runningSum(const at::Tensor &x, int64_t axis) {
  bool isRow = x.numel() == x.size(axis) && at::isFloatingType(x.scalar_type());
  at::ScalarType type = x.scalar_type();
  if (type == at::kHalf || type == at::kBFloat16)
    type = at::kFloat;
  if (!isRow)
    return at::cumsum(x, axis, type);
  Dims two = {2, x.size(axis)};
  at::Tensor twice = x.view({1, -1}).expand(two).contiguous();
  return at::cumsum(twice, 1, type).select(0, 0).view(x.sizes());
}

} // namespace

OFFLOAD_DEVICE_KERNEL(ArgMax) { return argument(context, true); }

OFFLOAD_DEVICE_KERNEL(ArgMin) { return argument(context, false); }

OFFLOAD_DEVICE_KERNEL(TopK) {
  at::Tensor x = atLeastOne(context.contiguous(0));
  int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
  int64_t count = context.launchInt(1, -1);
  if (count < 0 || count > x.size(axis))
    throw Error("k=" + std::to_string(count) + " is out of range for " +
                std::to_string(x.size(axis)) + " elements");
  auto [sorted, order] =
      at::sort(x, true, axis, context.intAttr("largest", 1) != 0);
  at::Tensor indices = order.narrow(axis, 0, count);
  at::Tensor values = sorted.narrow(axis, 0, count);
  if (!context.intAttr("sorted", 1)) {
    indices = std::get<0>(at::sort(indices, axis));
    values = at::gather(x, axis, indices);
  }
  return {values.contiguous(), indices.contiguous()};
}

OFFLOAD_DEVICE_KERNEL(CumSum) {
  at::Tensor given = context.contiguous(0), x = atLeastOne(given);
  int64_t axis = wrapAxis(context.launchInt(1, 0), x.dim());
  int64_t length = x.size(axis);
  at::Tensor out = makeEmpty(given.sizes(), x.scalar_type());
  if (out.numel() == 0)
    return {out};
  at::Tensor to = out.view(x.sizes());
  if (context.intAttr("reverse", 0))
    x = x.flip(axis);
  at::Tensor sums;
  if (context.intAttr("exclusive", 0)) {
    sums = at::zeros_like(x);
    if (length > 1)
      sums.narrow(axis, 1, length - 1)
          .copy_(runningSum(x.narrow(axis, 0, length - 1).contiguous(), axis));
  } else {
    sums = runningSum(x, axis);
  }
  to.copy_(context.intAttr("reverse", 0) ? sums.flip(axis) : sums);
  return {out};
}

} // namespace offload::rt
