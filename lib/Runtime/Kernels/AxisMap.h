// Copies elements whose source index along each axis is a table.

#ifndef OFFLOAD_RUNTIME_KERNELS_AXISMAP_H
#define OFFLOAD_RUNTIME_KERNELS_AXISMAP_H

#include "Kernel.h"

namespace offload::rt {

/// For each axis of the result, the source index of each of its positions, or
/// -1 where the result has the fill.
using AxisMap = std::vector<Dims>;

/// The identity along every axis of `x`.
AxisMap identityMap(const at::Tensor &x);

/// A new contiguous tensor of the map's sizes. `x` may have any strides;
/// `fill` points at one element, or is null where no entry is -1.
at::Tensor takeByAxis(const at::Tensor &x, const AxisMap &map,
                      const void *fill = nullptr);

/// A table where the kernel of this thread runs. The copy is issued without
/// waiting for it.
at::Tensor tableOnDevice(const Dims &table);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_AXISMAP_H
