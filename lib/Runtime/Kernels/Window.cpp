// The window of a convolution or a pooling over the spatial dimensions.
//
// In:  attributes as ONNX gives them, auto_pad included.
// Out: explicit numbers for each dimension.

#include "Window.h"

#include <algorithm>

namespace offload::rt {

namespace {

Dims intsOr(const KernelContext &context, std::string_view name, size_t count,
            int64_t fallback) {
  const Dims *given = context.intsAttr(name);
  return given ? *given : Dims(count, fallback);
}

/// Pads so that there are ceil(input / stride) positions.
void padToSame(Window &window, at::IntArrayRef input, bool extraAtEnd) {
  for (size_t i = 0; i < window.rank(); ++i) {
    int64_t positions = (input[i] + window.strides[i] - 1) / window.strides[i];
    int64_t needed = (positions - 1) * window.strides[i] + window.span(i);
    int64_t pad = std::max<int64_t>(needed - input[i], 0);
    window.padsBegin[i] = extraAtEnd ? pad / 2 : (pad + 1) / 2;
    window.padsEnd[i] = pad - window.padsBegin[i];
  }
}

Coordinates inThree(const Dims &values, int64_t fill) {
  Coordinates result;
  result.fill(fill);
  std::copy(values.begin(), values.end(), result.end() - values.size());
  return result;
}

} // namespace

Window windowOf(const KernelContext &context, at::IntArrayRef input,
                at::IntArrayRef kernel) {
  size_t rank = kernel.size();
  Window window;
  window.kernel = kernel.vec();
  window.strides = intsOr(context, "strides", rank, 1);
  window.dilations = intsOr(context, "dilations", rank, 1);
  Dims pads = intsOr(context, "pads", 2 * rank, 0);
  if (input.size() != rank || window.strides.size() != rank ||
      window.dilations.size() != rank || pads.size() != 2 * rank)
    throw Error("kernel_shape, strides, dilations, pads and the operand "
                "differ in their number of dimensions");
  window.padsBegin.assign(pads.begin(), pads.begin() + rank);
  window.padsEnd.assign(pads.begin() + rank, pads.end());
  std::string automatic = context.textAttr("auto_pad", "NOTSET");
  if (automatic != "NOTSET") {
    window.padsBegin.assign(rank, 0);
    window.padsEnd.assign(rank, 0);
  }
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    padToSame(window, input, automatic == "SAME_UPPER");
  return window;
}

Dims windowPositions(const Window &window, at::IntArrayRef input,
                     bool ceilMode) {
  Dims positions(window.rank());
  for (size_t i = 0; i < window.rank(); ++i) {
    int64_t stride = window.strides[i];
    int64_t slack =
        input[i] + window.padsBegin[i] + window.padsEnd[i] - window.span(i);
    if (slack < 0)
      throw Error("window of " + std::to_string(window.span(i)) +
                  " does not fit into " + std::to_string(input[i]) +
                  " with its pads");
    positions[i] = (slack + (ceilMode ? stride - 1 : 0)) / stride + 1;
    if (ceilMode &&
        (positions[i] - 1) * stride >= input[i] + window.padsBegin[i])
      --positions[i];
  }
  return positions;
}

Geometry geometryOf(const Window &window, const Dims &input,
                    const Dims &output) {
  if (window.rank() > kMaxSpatialRank || window.rank() == 0)
    throw Error("works over one to three dimensions, not over " +
                std::to_string(window.rank()));
  return {inThree(input, 1),
          inThree(output, 1),
          inThree(window.kernel, 1),
          inThree(window.strides, 1),
          inThree(window.dilations, 1),
          inThree(window.padsBegin, 0),
          inThree(window.padsEnd, 0)};
}

} // namespace offload::rt
