// Indices that a kernel on a device may follow.

#ifndef OFFLOAD_RUNTIME_KERNELS_INDICES_H
#define OFFLOAD_RUNTIME_KERNELS_INDICES_H

#include "Kernel.h"

namespace offload::rt {

/// `indices` (int32 or int64, the type kept) within [0, size); with `fromEnd`
/// those from -size to -1 count from the end. One out of range becomes the
/// nearest, and the call's `problem` is set.
at::Tensor rowsInRange(const KernelContext &context, const at::Tensor &indices,
                       int64_t size, bool fromEnd);

/// The elements that a Gather takes whose index is a launch operand of one
/// element: a view of the operand's memory.
at::Tensor partOf(const KernelContext &context);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_INDICES_H
