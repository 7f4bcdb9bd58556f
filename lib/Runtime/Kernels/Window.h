// The window of a convolution or a pooling over the spatial dimensions.

#ifndef OFFLOAD_RUNTIME_KERNELS_WINDOW_H
#define OFFLOAD_RUNTIME_KERNELS_WINDOW_H

#include "Kernel.h"

#include <array>

namespace offload::rt {

/// One entry for each spatial dimension.
struct Window {
  Dims kernel, strides, dilations, padsBegin, padsEnd;

  size_t rank() const { return kernel.size(); }
  /// Elements that the window spans along dimension `i`.
  int64_t span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

/// Reads strides, dilations, pads and auto_pad for an input whose spatial
/// dimensions are `input`.
Window windowOf(const KernelContext &context, at::IntArrayRef input,
                at::IntArrayRef kernel);

/// Positions of the window along each dimension. With `ceilMode` one that does
/// not fit wholly counts where it starts inside of the input or its front pad.
Dims windowPositions(const Window &window, at::IntArrayRef input,
                     bool ceilMode);

/// Sizes of the result of a transposed convolution; sets the window's pads
/// where they follow from the size that is asked for.
Dims transposedSizes(const KernelContext &context, Window &window,
                     at::IntArrayRef input);

inline constexpr size_t kMaxSpatialRank = 3;
using Coordinates = std::array<int64_t, kMaxSpatialRank>;

/// A window over exactly three dimensions, missing ones of size 1 in front.
struct Geometry {
  Coordinates input, output, kernel, strides, dilations, begin, end;

  int64_t inputElements() const { return input[0] * input[1] * input[2]; }
  int64_t outputElements() const { return output[0] * output[1] * output[2]; }
  int64_t kernelElements() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Where step `step` of the window at `position` falls along dimension `i`.
  int64_t inputAt(size_t i, int64_t position, int64_t step) const {
    return position * strides[i] - begin[i] + step * dilations[i];
  }
};

/// Throws Error for more than three dimensions, or none.
Geometry geometryOf(const Window &window, const Dims &input,
                    const Dims &output);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_WINDOW_H
