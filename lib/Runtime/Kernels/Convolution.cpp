// Convolution and its transpose, over one to three dimensions.
//
// In:  input [N, C, ...], weight, an optional bias.
// Out: contiguous [N, M, ...].
// How: oneDNN for float, ATen's own code for double. One dimension is two, the
//      first of size 1. Pads that differ at the two ends are made explicit
//      first; 16-bit types are computed in float, since few CPUs have these
//      products and the fallback's scratch grows with the window.

#include "Window.h"

#include <algorithm>

namespace offload::rt {

namespace {

/// Operands as ATen takes them: at least two spatial dimensions, and a type
/// that it computes in.
struct Operands {
  at::Tensor input, weight, bias;
  at::ScalarType type;
  bool oneDimensional;
};

at::Tensor toComputeType(const at::Tensor &x) {
  return !x.defined() || x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

Operands operandsOf(const KernelContext &context) {
  Operands operands;
  operands.type = context[0].scalar_type();
  operands.input = toComputeType(context.contiguous(0));
  operands.weight = toComputeType(context.contiguous(1));
  operands.bias = toComputeType(context.optionalOperand(2));
  operands.oneDimensional = operands.input.dim() == 3;
  if (operands.oneDimensional) {
    operands.input = operands.input.unsqueeze(2);
    operands.weight = operands.weight.unsqueeze(2);
  }
  return operands;
}

at::Tensor resultOf(const Operands &operands, at::Tensor y) {
  if (operands.oneDimensional)
    y = y.squeeze(2);
  if (y.scalar_type() == operands.type)
    return y;
  at::Tensor out = makeEmpty(y.sizes(), operands.type);
  out.copy_(y);
  return out;
}

Window spatialWindow(const KernelContext &context, const Operands &operands) {
  const Dims &input = context.dims(0), &weight = context.dims(1);
  Window window = windowOf(context, at::IntArrayRef(input).slice(2),
                           at::IntArrayRef(weight).slice(2));
  if (operands.oneDimensional) {
    window.kernel.insert(window.kernel.begin(), 1);
    window.strides.insert(window.strides.begin(), 1);
    window.dilations.insert(window.dilations.begin(), 1);
    window.padsBegin.insert(window.padsBegin.begin(), 0);
    window.padsEnd.insert(window.padsEnd.begin(), 0);
  }
  return window;
}

/// constant_pad_nd's order: last dimension first, begin before end.
Dims innermostFirst(const Dims &begin, const Dims &end) {
  Dims pads;
  for (size_t i = begin.size(); i-- > 0;) {
    pads.push_back(begin[i]);
    pads.push_back(end[i]);
  }
  return pads;
}

at::Tensor emptyResult(const Operands &operands, Window window) {
  at::IntArrayRef spatial = operands.input.sizes().slice(2);
  Dims dims = {operands.input.size(0), operands.weight.size(0)};
  Dims positions = windowPositions(window, spatial, false);
  dims.insert(dims.end(), positions.begin(), positions.end());
  return at::zeros(dims, operands.input.options());
}

at::Tensor convolve(const Operands &operands, const Window &window,
                    int64_t groups) {
  at::Tensor input = operands.input;
  Dims pads = window.padsBegin;
  if (!window.isSymmetric()) {
    input = at::constant_pad_nd(
        input, innermostFirst(window.padsBegin, window.padsEnd));
    pads.assign(window.rank(), 0);
  }
  std::optional<at::Tensor> bias;
  if (operands.bias.defined())
    bias = operands.bias;
  if (input.scalar_type() == at::kFloat)
    return at::mkldnn_convolution(input, operands.weight, bias, pads,
                                  window.strides, window.dilations, groups);
  return at::convolution(input, operands.weight, bias, window.strides, pads,
                         window.dilations, false, Dims(window.rank(), 0),
                         groups);
}

/// Sets pads so that the result has the size that output_shape asks for.
void padToOutputShape(const KernelContext &context, Window &window,
                      at::IntArrayRef input, const Dims &outputPadding,
                      const Dims &shape) {
  bool extraAtEnd = context.textAttr("auto_pad", "NOTSET") != "SAME_LOWER";
  size_t first = window.rank() - shape.size();
  for (size_t i = first; i < window.rank(); ++i) {
    int64_t full =
        (input[i] - 1) * window.strides[i] + window.span(i) + outputPadding[i];
    int64_t pad = std::max<int64_t>(full - shape[i - first], 0);
    window.padsBegin[i] = extraAtEnd ? pad / 2 : pad - pad / 2;
    window.padsEnd[i] = pad - window.padsBegin[i];
  }
}

/// auto_pad of the transpose: the result has input * stride elements.
Dims sameOutputShape(const Window &window, at::IntArrayRef input,
                     size_t spatialRank) {
  Dims shape;
  for (size_t i = window.rank() - spatialRank; i < window.rank(); ++i)
    shape.push_back(input[i] * window.strides[i]);
  return shape;
}

at::Tensor convolveTransposed(const Operands &operands, const Window &window,
                              const Dims &outputPadding, int64_t groups) {
  bool direct = window.isSymmetric();
  for (size_t i = 0; i < window.rank(); ++i)
    direct &=
        outputPadding[i] < std::max(window.strides[i], window.dilations[i]) &&
        window.padsBegin[i] >= 0;
  std::optional<at::Tensor> bias;
  if (operands.bias.defined())
    bias = operands.bias;
  if (direct)
    return at::convolution(operands.input, operands.weight, bias,
                           window.strides, window.padsBegin, window.dilations,
                           true, outputPadding, groups);
  Dims zeros(window.rank(), 0), begin(window.rank()), end(window.rank());
  for (size_t i = 0; i < window.rank(); ++i) {
    begin[i] = -window.padsBegin[i];
    end[i] = outputPadding[i] - window.padsEnd[i];
  }
  at::Tensor full =
      at::convolution(operands.input, operands.weight, {}, window.strides,
                      zeros, window.dilations, true, zeros, groups);
  at::Tensor out = at::constant_pad_nd(full, innermostFirst(begin, end));
  if (!bias)
    return out;
  Dims broadcast(out.dim(), 1);
  broadcast[1] = bias->numel();
  return out.add_(bias->view(broadcast));
}

} // namespace

OFFLOAD_KERNEL(Conv) {
  Operands operands = operandsOf(context);
  Window window = spatialWindow(context, operands);
  if (operands.input.numel() == 0)
    return {resultOf(operands, emptyResult(operands, window))};
  at::Tensor y = convolve(operands, window, context.intAttr("group", 1));
  return {resultOf(operands, y)};
}

OFFLOAD_KERNEL(ConvTranspose) {
  Operands operands = operandsOf(context);
  Window window = spatialWindow(context, operands);
  size_t spatialRank = context.dims(0).size() - 2;
  at::IntArrayRef input = operands.input.sizes().slice(2);
  Dims outputPadding(window.rank(), 0);
  if (const Dims *given = context.intsAttr("output_padding"))
    std::copy(given->begin(), given->end(),
              outputPadding.end() - static_cast<int64_t>(given->size()));
  std::string automatic = context.textAttr("auto_pad", "NOTSET");
  const Dims *shape = context.intsAttr("output_shape");
  if (shape)
    padToOutputShape(context, window, input, outputPadding,
                     Dims(shape->end() - spatialRank, shape->end()));
  else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    padToOutputShape(context, window, input, outputPadding,
                     sameOutputShape(window, input, spatialRank));
  if (operands.input.numel() == 0)
    throw Error("takes no input without elements");
  return {resultOf(operands, convolveTransposed(operands, window, outputPadding,
                                                context.intAttr("group", 1)))};
}

} // namespace offload::rt
