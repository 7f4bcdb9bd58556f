// Every CUDA call is checked, and runs under the guard of its device.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H
#define OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H

#include <cuda_runtime_api.h>

namespace offload::rt {

/// Throws Error "cuda:N: WHAT: the driver's text". The error is taken off the
/// thread, so that the next call does not see it again.
void checkCuda(cudaError_t code, int index, const char *what);

/// Whether the process's context on the device is lost: all later calls fail.
bool isSticky(cudaError_t code);

/// Makes a device current on this thread for its own lifetime.
class DeviceGuard {
public:
  explicit DeviceGuard(int index);
  DeviceGuard(const DeviceGuard &) = delete;
  DeviceGuard &operator=(const DeviceGuard &) = delete;
  ~DeviceGuard();

private:
  int before = -1; // -1: nothing to restore
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H
