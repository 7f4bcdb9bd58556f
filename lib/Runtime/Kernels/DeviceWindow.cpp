// Convolution and pooling, for devices.
//
// In:  input [N, C, ...], for convolutions a weight and an optional bias.
// Out: contiguous [N, M, ...].
// How: ATen's convolution (cuDNN's deterministic algorithms, or where the call
//      leaves it free the one that cuDNN measures as the fastest; that is said
//      to each call, since LibTorch's own switch is one for the process) and
//      pooling. Pads that differ at the two ends, and those of a pooling, are
//      made first as a padded copy of the input. One-dimensional windows get a
//      second dimension of size 1. Averages of dilated windows are sums of
//      strided slices.

#include "Allocation.h"
#include "AxisMap.h"
#include "Window.h"

#include <limits>

namespace offload::rt {

namespace {

/// ATen counts pads from the last dimension, two for each.
at::Tensor padded(const at::Tensor &x, const Dims &begin, const Dims &end,
                  double value) {
  Dims pads;
  bool any = false;
  for (size_t i = begin.size(); i-- > 0;) {
    pads.push_back(begin[i]);
    pads.push_back(end[i]);
    any |= begin[i] != 0 || end[i] != 0;
  }
  return any ? at::constant_pad_nd(x, pads, value) : x;
}

/// Pads at the end so that the last window fits wholly, or what may be cut.
Dims neededEnd(const Window &window, at::IntArrayRef input,
               const Dims &positions) {
  Dims end(window.rank());
  for (size_t i = 0; i < window.rank(); ++i)
    end[i] = (positions[i] - 1) * window.strides[i] + window.span(i) -
             input[i] - window.padsBegin[i];
  return end;
}

/// A pooling over two or three dimensions of a padded input.
struct DevicePooling {
  at::Tensor input; // contiguous
  Window window;
  Dims spatial, positions;

  Dims outputDims() const {
    Dims dims = {input.size(0), input.size(1)};
    dims.insert(dims.end(), positions.begin(), positions.end());
    return dims;
  }
};

DevicePooling poolingOf(const KernelContext &context) {
  const Dims *kernel = context.intsAttr("kernel_shape");
  if (!kernel)
    throw Error("kernel_shape is missing");
  at::Tensor x = context.contiguous(0);
  Dims spatial = x.sizes().slice(2).vec();
  Window window = windowOf(context, spatial, *kernel);
  std::string automatic = context.textAttr("auto_pad", "NOTSET");
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  Dims positions = windowPositions(window, spatial,
                                   !same && context.intAttr("ceil_mode", 0));
  geometryOf(window, spatial, positions); // refuses other ranks
  return {x, window, spatial, positions};
}

Dims withOneInFront(Dims values, int64_t one) {
  if (values.size() == 1)
    values.insert(values.begin(), one);
  return values;
}

/// Indices of the padded planes as indices of the operand.
at::Tensor unpaddedIndices(const DevicePooling &pooling, at::Tensor indices,
                           const Dims &paddedSizes, bool columnMajor) {
  size_t rank = pooling.spatial.size();
  at::Tensor result = at::zeros_like(indices);
  int64_t rowStride = 1, columnStride = 1;
  Dims strides(rank, 1);
  for (size_t i = rank; i-- > 0; rowStride *= pooling.spatial[i])
    strides[i] = rowStride;
  if (columnMajor)
    for (size_t i = 0; i < rank; columnStride *= pooling.spatial[i++])
      strides[i] = columnStride;
  for (size_t i = rank; i-- > 0;) {
    at::Tensor along = at::remainder(indices, paddedSizes[i]);
    indices = at::div(indices, paddedSizes[i], "floor");
    along.sub_(pooling.window.padsBegin[i])
        .clamp_(0, pooling.spatial[i] - 1)
        .mul_(strides[i]);
    result.add_(along);
  }
  int64_t planes = result.size(0) * result.size(1), plane = 1;
  for (int64_t size : pooling.spatial)
    plane *= size;
  Dims shape(result.dim(), 1);
  shape[0] = result.size(0), shape[1] = result.size(1);
  return result.add_(at::arange(planes, result.options()).view(shape), plane);
}

/// Sums over windows, in float for 16-bit types.
at::Tensor windowSums(const DevicePooling &pooling, const at::Tensor &x) {
  size_t rank = pooling.window.rank();
  Dims step(rank, 0), kernel = pooling.window.kernel;
  at::Tensor sums;
  while (true) {
    at::Tensor slice = x;
    for (size_t i = 0; i < rank; ++i) {
      int64_t first = step[i] * pooling.window.dilations[i];
      int64_t span = (pooling.positions[i] - 1) * pooling.window.strides[i];
      slice = slice.slice(static_cast<int64_t>(i) + 2, first, first + span + 1,
                          pooling.window.strides[i]);
    }
    sums = sums.defined() ? sums.add_(slice) : slice.clone();
    size_t i = rank;
    while (i > 0 && ++step[i - 1] == kernel[i - 1])
      step[--i] = 0;
    if (i == 0)
      return sums;
  }
}

/// For each position along dimension `i`, elements of the window that lie on
/// the input, or on it and its pads.
Dims countsAlong(const DevicePooling &pooling, size_t i, bool withPads) {
  const Window &w = pooling.window;
  int64_t least = withPads ? -w.padsBegin[i] : 0;
  int64_t most = pooling.spatial[i] + (withPads ? w.padsEnd[i] : 0);
  Dims counts;
  for (int64_t p = 0; p < pooling.positions[i]; ++p) {
    int64_t count = 0;
    for (int64_t k = 0; k < w.kernel[i]; ++k) {
      int64_t at = p * w.strides[i] - w.padsBegin[i] + k * w.dilations[i];
      count += at >= least && at < most;
    }
    counts.push_back(count);
  }
  return counts;
}

/// While one lives, cuDNN takes only those of its algorithms whose workspace is
/// planned. `outputBytes`: of an output that is in no scratch.
class WorkspaceLimit {
public:
  WorkspaceLimit(const KernelContext &context, int64_t outputBytes)
      : frame(AllocationFrame::ofThread(!context.place().onHost())) {
    if (frame && context.plannedScratchBytes() >= 0)
      frame->limit(context.plannedScratchBytes() + alignUp(outputBytes));
  }
  WorkspaceLimit(const WorkspaceLimit &) = delete;
  WorkspaceLimit &operator=(const WorkspaceLimit &) = delete;
  ~WorkspaceLimit() {
    if (frame)
      frame->limit(AllocationFrame::kNoLimit);
  }

private:
  AllocationFrame *frame;
};

struct ConvolutionCall {
  const at::Tensor &x, &weight;
  std::optional<at::Tensor> bias;
  const Window &window;
  const Dims &pads;
  bool isTransposed = false;
  int64_t outputBytes = 0; // see WorkspaceLimit
};

at::Tensor convolve(const KernelContext &context, const ConvolutionCall &call) {
  WorkspaceLimit limit(context, call.outputBytes);
  Dims none(call.window.rank(), 0);
  bool benchmark = !context.deterministic(), useCuDNN = true, useTF32 = false;
  return at::_convolution(call.x, call.weight, call.bias, call.window.strides,
                          call.pads, call.window.dilations, call.isTransposed,
                          none, context.intAttr("group", 1), benchmark,
                          context.deterministic(), useCuDNN, useTF32);
}

/// Bytes of [N, channels, sizes...] in the type of `x`.
int64_t imageBytes(const at::Tensor &x, int64_t channels, const Dims &sizes) {
  return x.size(0) * channels * product(sizes, 0, sizes.size()) *
         static_cast<int64_t>(x.element_size());
}

} // namespace

OFFLOAD_DEVICE_KERNEL(Conv) {
  at::Tensor x = context.contiguous(0), weight = context.contiguous(1);
  at::IntArrayRef spatial = x.sizes().slice(2);
  int64_t groups = context.intAttr("group", 1);
  Window window = windowOf(context, spatial, weight.sizes().slice(2));
  Dims positions = windowPositions(window, spatial, false);
  if (x.size(1) != weight.size(1) * groups)
    throw Error("the weight is for " + std::to_string(weight.size(1)) +
                " channels a group, the input has " +
                std::to_string(x.size(1)) + " in " + std::to_string(groups) +
                " groups");
  Dims pads = window.padsBegin;
  if (window.padsBegin != window.padsEnd) {
    x = padded(x, window.padsBegin, window.padsEnd, 0);
    pads.assign(window.rank(), 0);
  }
  at::Tensor bias = context.optionalOperand(2);
  return {convolve(context,
                   {x, weight,
                    bias.defined() ? std::optional(bias) : std::nullopt, window,
                    pads, false, imageBytes(x, weight.size(0), positions)})};
}

OFFLOAD_DEVICE_KERNEL(ConvTranspose) {
  at::Tensor x = context.contiguous(0), weight = context.contiguous(1);
  at::IntArrayRef spatial = x.sizes().slice(2);
  Window window = windowOf(context, spatial, weight.sizes().slice(2));
  Dims sizes = transposedSizes(context, window, spatial);
  Dims none(window.rank(), 0);
  if (weight.size(0) != x.size(1))
    throw Error("the weight is for " + std::to_string(weight.size(0)) +
                " channels, the input has " + std::to_string(x.size(1)));
  at::Tensor bias = context.optionalOperand(2);
  // Without pads, then cut or extended: pads and output sizes of every kind.
  at::Tensor full =
      convolve(context, {x, weight, std::nullopt, window, none, true, 0});
  Dims begin(window.rank()), end(window.rank());
  for (size_t i = 0; i < window.rank(); ++i) {
    begin[i] = -window.padsBegin[i];
    end[i] =
        sizes[i] + window.padsBegin[i] - full.size(static_cast<int64_t>(i) + 2);
  }
  at::Tensor out = padded(full, begin, end, 0);
  if (bias.defined()) {
    Dims shape(out.dim(), 1);
    shape[1] = bias.numel();
    out = out.add_(bias.view(shape));
  }
  return {out};
}

OFFLOAD_DEVICE_KERNEL(MaxPool) {
  DevicePooling pooling = poolingOf(context);
  const Window &w = pooling.window;
  at::Tensor x = padded(pooling.input, w.padsBegin,
                        neededEnd(w, pooling.spatial, pooling.positions),
                        -std::numeric_limits<double>::infinity());
  Dims sizes = x.sizes().slice(2).vec();
  if (pooling.spatial.size() == 1)
    x = x.unsqueeze(2);
  Dims kernel = withOneInFront(w.kernel, 1);
  Dims strides = withOneInFront(w.strides, 1), none(kernel.size(), 0);
  Dims dilations = withOneInFront(w.dilations, 1);
  auto [values, indices] =
      kernel.size() == 2
          ? at::max_pool2d_with_indices(x, kernel, strides, none, dilations)
          : at::max_pool3d_with_indices(x, kernel, strides, none, dilations);
  Dims dims = pooling.outputDims();
  KernelOutputs outputs = {values.view(dims)};
  if (context.numOutputs() > 1)
    outputs.push_back(unpaddedIndices(pooling, indices.view(dims), sizes,
                                      context.intAttr("storage_order", 0)));
  return outputs;
}

OFFLOAD_DEVICE_KERNEL(AveragePool) {
  DevicePooling pooling = poolingOf(context);
  const Window &w = pooling.window;
  bool withPads = context.intAttr("count_include_pad", 0) != 0;
  at::ScalarType type = pooling.input.scalar_type();
  at::Tensor out = makeEmpty(pooling.outputDims(), type);
  at::Tensor x = pooling.input;
  if (type == at::kHalf || type == at::kBFloat16)
    x = x.to(at::kFloat);
  x = padded(x, w.padsBegin, neededEnd(w, pooling.spatial, pooling.positions),
             0);
  at::Tensor sums = windowSums(pooling, x);
  for (size_t i = 0; i < w.rank(); ++i) {
    Dims shape(sums.dim(), 1);
    shape[i + 2] = pooling.positions[i];
    sums.div_(tableOnDevice(countsAlong(pooling, i, withPads))
                  .clamp_min_(1)
                  .view(shape));
  }
  return {out.copy_(sums)};
}

} // namespace offload::rt
