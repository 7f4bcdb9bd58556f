// LibTorch on a CUDA device: allocator, stream, handles.

#ifndef OFFLOAD_RUNTIME_KERNELS_CUDAKERNELS_H
#define OFFLOAD_RUNTIME_KERNELS_CUDAKERNELS_H

#include "offload/Runtime/KernelPlace.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace offload::rt {

at::Device deviceOf(const KernelPlace &place);

/// LibTorch's current device and stream are the place's while one is alive.
class StreamScope {
public:
  virtual ~StreamScope() = default;
};

/// Null on the host. The first one of a thread and stream makes handles and
/// workspaces; the first one of the process installs the allocator.
std::unique_ptr<StreamScope> makeStreamScope(const KernelPlace &place);

/// Memory of the driver's: of a dry run that its place's memory does not hold.
/// Null where there is none.
void *takeFromCard(const KernelPlace &place, int64_t bytes);
void giveToCard(const KernelPlace &place, void *data);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_CUDAKERNELS_H
