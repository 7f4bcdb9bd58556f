// Sums over any axes without a copy of the operand.

#ifndef OFFLOAD_RUNTIME_KERNELS_REDUCTION_H
#define OFFLOAD_RUNTIME_KERNELS_REDUCTION_H

#include "Kernel.h"

namespace offload::rt {

/// The mean over `axes` (counted from the front), or the sum. ATen's for float
/// and double; 16-bit types, which ATen would copy into float whole, are added
/// up here in double on the host.
at::Tensor sumOver(const at::Tensor &x, at::IntArrayRef axes, bool keepDims,
                   bool mean);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_REDUCTION_H
