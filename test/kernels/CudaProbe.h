// Runs a call whose operands lie on the host on the first card of the machine.

#ifndef OFFLOAD_TEST_KERNELS_CUDAPROBE_H
#define OFFLOAD_TEST_KERNELS_CUDAPROBE_H

#include "offload/Runtime/Kernels.h"

#include <cstddef>
#include <vector>

namespace offload::rt {

struct CudaProbe {
  KernelProfile profile;
  std::vector<std::vector<std::byte>> outputs;
};

/// Dry run and two real runs, which must give the same bits. Throws Error.
CudaProbe probeOnCuda(KernelCall call);

} // namespace offload::rt

#endif // OFFLOAD_TEST_KERNELS_CUDAPROBE_H
