// The window of a convolution or a pooling over the spatial dimensions.

#ifndef OFFLOAD_RUNTIME_KERNELS_WINDOW_H
#define OFFLOAD_RUNTIME_KERNELS_WINDOW_H

#include "Kernel.h"

namespace offload::rt {

/// One entry for each spatial dimension.
struct Window {
  Dims kernel, strides, dilations, padsBegin, padsEnd;

  size_t rank() const { return kernel.size(); }
  bool isSymmetric() const { return padsBegin == padsEnd; }
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

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_WINDOW_H
