// Normalization, for devices.
//
// In:  the operand and its scale and bias.
// Out: contiguous; moments in float.
// How: ATen's kernels, whose sums run in float in a fixed order.

#include "Kernel.h"

namespace offload::rt {

namespace {

/// A parameter of the operand's type, the one that the kernels take beside it.
at::Tensor parameter(const at::Tensor &given, const at::Tensor &x) {
  return given.to(x.scalar_type()).contiguous();
}

/// Batch normalization takes float beside 16-bit operands: running statistics
/// are wider than these.
at::Tensor batchParameter(const at::Tensor &given, const at::Tensor &x) {
  bool isShort =
      x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return given.to(isShort ? at::kFloat : x.scalar_type()).contiguous();
}

at::Tensor optionalParameter(const KernelContext &context, unsigned i,
                             at::IntArrayRef dims, const at::Tensor &x) {
  at::Tensor given = context.optionalOperand(i);
  return given.defined() ? parameter(given.expand(dims), x) : given;
}

std::optional<at::Tensor> asOptional(const at::Tensor &tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor normalizeGroups(const at::Tensor &x, int64_t groups,
                           const at::Tensor &scale, const at::Tensor &bias,
                           double epsilon) {
  int64_t plane = product(x.sizes(), 2, x.dim());
  return std::get<0>(at::native_group_norm(x, parameter(scale, x),
                                           parameter(bias, x), x.size(0),
                                           x.size(1), plane, groups, epsilon));
}

/// One value for each group as one for each channel.
at::Tensor byChannel(const at::Tensor &x, int64_t channels) {
  if (x.numel() == channels)
    return x;
  return x.view({-1, 1}).expand({x.numel(), channels / x.numel()}).reshape(-1);
}

} // namespace

OFFLOAD_DEVICE_KERNEL(BatchNormalization) {
  at::Tensor x = context.contiguous(0);
  at::Tensor input = x.dim() > 1 ? x : x.view({-1, 1});
  at::Tensor out = std::get<0>(at::native_batch_norm(
      input, batchParameter(context[1], x), batchParameter(context[2], x),
      batchParameter(context[3], x), batchParameter(context[4], x), false, 0,
      context.floatAttr("epsilon", 1e-5f)));
  return {out.view(x.sizes())};
}

OFFLOAD_DEVICE_KERNEL(InstanceNormalization) {
  at::Tensor x = context.contiguous(0);
  return {normalizeGroups(x, x.size(1), context[1], context[2],
                          context.floatAttr("epsilon", 1e-5f))};
}

OFFLOAD_DEVICE_KERNEL(GroupNormalization) {
  at::Tensor x = context.contiguous(0);
  int64_t groups = context.intAttr("num_groups", 1);
  if (groups <= 0 || x.size(1) % groups != 0)
    throw Error("num_groups=" + std::to_string(groups) + " does not divide " +
                std::to_string(x.size(1)) + " channels");
  return {normalizeGroups(x, groups,
                          byChannel(context.contiguous(1), x.size(1)),
                          byChannel(context.contiguous(2), x.size(1)),
                          context.floatAttr("epsilon", 1e-5f))};
}

OFFLOAD_DEVICE_KERNEL(LayerNormalization) {
  at::Tensor x = context.contiguous(0);
  int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
  at::IntArrayRef row = x.sizes().slice(axis);
  auto [out, mean, inverse] = at::native_layer_norm(
      x, row, asOptional(optionalParameter(context, 1, row, x)),
      asOptional(optionalParameter(context, 2, row, x)),
      context.floatAttr("epsilon", 1e-5f));
  Dims moments = x.sizes().vec();
  std::fill(moments.begin() + axis, moments.end(), 1);
  KernelOutputs outputs = {out};
  for (const at::Tensor &moment : {mean, inverse})
    if (outputs.size() < context.numOutputs())
      outputs.push_back(moment.to(at::kFloat).view(moments));
  return outputs;
}

OFFLOAD_DEVICE_KERNEL(RMSNormalization) {
  at::Tensor x = context.contiguous(0);
  int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
  at::IntArrayRef row = x.sizes().slice(axis);
  return {std::get<0>(at::_fused_rms_norm(
      x, row, asOptional(optionalParameter(context, 1, row, x)),
      context.floatAttr("epsilon", 1e-5f)))};
}

} // namespace offload::rt
