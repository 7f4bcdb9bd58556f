// Checks of CUDA calls, and the guard of the current device.
//
// In:  codes of runtime calls.
// Out: Error with one line.
// Not: what to do after an error (CudaDevice).

#include "CudaCheck.h"

#include "offload/Runtime/Tensor.h"

#include <string>

namespace offload::rt {

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
  if (before >= 0)
    cudaSetDevice(before);
}

} // namespace offload::rt
