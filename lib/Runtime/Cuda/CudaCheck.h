// Every CUDA call is checked, and runs under the guard of its device.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H
#define OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H

#include "offload/Runtime/Tensor.h"

#include <cuda_runtime_api.h>

namespace offload::rt {

/// Throws Error "cuda:N: WHAT: the driver's text". The error is taken off the
/// thread, so that the next call does not see it again.
void checkCuda(cudaError_t code, int index, const char *what);

/// Whether the process's context on the device is lost: all later calls fail.
bool isSticky(cudaError_t code);

/// Whether this process has a context on the card already, of CUDA's runtime or
/// of LibTorch. Makes none; false where the driver cannot say.
bool hasContextOnCard(int index);

/// Makes a device current on this thread for its own lifetime. Then the one
/// before is current again, if the process has a context there: a thread that
/// never used a card may stay with this one. Throws Error where the device
/// cannot be used.
class DeviceGuard {
public:
  explicit DeviceGuard(int index);
  DeviceGuard(const DeviceGuard &) = delete;
  DeviceGuard &operator=(const DeviceGuard &) = delete;
  ~DeviceGuard();

private:
  int before = -1; // -1: nothing to restore
};

/// For destructors: gives back what is on the device. Where its context is lost
/// nothing is left to give back.
template <typename Release>
void releaseOn(int index, const Release &release) noexcept {
  try {
    DeviceGuard guard(index);
    release();
  } catch (const Error &) {
  }
}

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_CUDACHECK_H
