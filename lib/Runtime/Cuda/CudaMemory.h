// Memory of a CUDA device, and host memory that it copies from at full speed.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_CUDAMEMORY_H
#define OFFLOAD_LIB_RUNTIME_CUDA_CUDAMEMORY_H

#include "offload/Runtime/Device.h"

#include <memory>
#include <string>

namespace offload::rt {

/// One cudaMalloc. Throws Error with what was asked for and what is free.
std::unique_ptr<Memory> allocateOnCard(int index, int64_t bytes);

/// Whole pages, filled (or only touched) and registered by several threads; not
/// `pinned`: not registered. Where registering fails the memory is good but
/// slow, and `warning` says so.
std::unique_ptr<Memory> allocateOnHost(int index, int64_t bytes, bool pinned,
                                       const HostContents &contents,
                                       std::string &warning);

/// Registered host memory that kernels write to directly; zeros at first.
std::unique_ptr<Memory> allocateMapped(int index, int64_t bytes);

/// Free bytes of the card; -1 where nobody can say. Asks the process's context
/// there, or else the driver's management library, which makes none but takes
/// 15 ms to open.
int64_t freeBytesOfCard(int index, bool byContext);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_CUDAMEMORY_H
