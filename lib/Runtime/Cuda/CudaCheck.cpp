// Checks of CUDA calls, and the guard of the current device.
//
// In:  codes of runtime calls.
// Out: Error with one line.
// Not: what to do after an error (CudaDevice).
// How: since CUDA 12 cudaSetDevice makes a context, of some hundred MiB, on a
//      card that has none. A thread that never chose a card is on the first
//      one; going back there would take memory of a card that nobody uses, so a
//      guard goes back only where the process has a context. LibTorch's guards
//      do the same.

#include "CudaCheck.h"

#include "offload/Runtime/Tensor.h"

#include <string>

#include <cuda.h>

namespace offload::rt {

namespace {

/// Through CUDA's runtime, so that nothing links the driver; null where the
/// driver has no such function.
void *findInDriver(const char *name, unsigned version) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault,
                                       &result) == cudaSuccess &&
      result == cudaDriverEntryPointSuccess)
    return found;
  cudaGetLastError();
  return nullptr;
}

} // namespace

void checkCuda(cudaError_t code, int index, const char *what) {
  if (code == cudaSuccess)
    return;
  cudaGetLastError();
  std::string text = "cuda:" + std::to_string(index) + ": " + what + ": " +
                     cudaGetErrorString(code);
  if (isSticky(code))
    text += "; this process cannot use the device any more";
  throw Error(text);
}

bool isSticky(cudaError_t code) {
  switch (code) {
  case cudaErrorIllegalAddress:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorHardwareStackError:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorECCUncorrectable:
    return true;
  default:
    return false;
  }
}

DeviceGuard::DeviceGuard(int index) {
  int current = -1;
  checkCuda(cudaGetDevice(&current), index, "asking for the current device");
  if (current == index)
    return;
  checkCuda(cudaSetDevice(index), index, "making the device current");
  before = current;
}

DeviceGuard::~DeviceGuard() {
  if (before >= 0 && hasContextOnCard(before))
    cudaSetDevice(before);
}

bool hasContextOnCard(int index) {
  static const auto getDevice = reinterpret_cast<decltype(&cuDeviceGet)>(
      findInDriver("cuDeviceGet", 2000));
  static const auto getState =
      reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(
          findInDriver("cuDevicePrimaryCtxGetState", 7000));
  CUdevice device = 0;
  unsigned flags = 0;
  int isActive = 0;
  return getDevice && getState && getDevice(&device, index) == CUDA_SUCCESS &&
         getState(device, &flags, &isActive) == CUDA_SUCCESS && isActive != 0;
}

} // namespace offload::rt
