// Where a kernel runs and where it takes memory from.
//
// Nothing of LibTorch: the device that owns a queue fills it in, kernels read
// it.

#ifndef OFFLOAD_RUNTIME_KERNELPLACE_H
#define OFFLOAD_RUNTIME_KERNELPLACE_H

#include "offload/OffFormat/DataType.h"

#include <cstddef>
#include <cstdint>

namespace offload::rt {

/// What a program wants of kernels' libraries; each takes long to make.
struct KernelLibraries {
  /// A type of its products: kernels of other types are not brought for
  /// nothing.
  DataType products = DataType::Float;
  bool convolutions = false;
};

struct KernelPlace {
  /// CUDA device, or -1: the host.
  int cudaIndex = -1;
  /// The cudaStream_t that the kernel launches on.
  void *stream = nullptr;
  /// Take the forms that hold for any device although this is the host. For
  /// tests that judge them where there is no GPU.
  bool deviceForms = false;
  /// Memory of a dry run on a device; what it lacks comes from the driver.
  std::byte *profileMemory = nullptr;
  int64_t profileBytes = 0;

  bool onHost() const { return cudaIndex < 0; }
  bool usesDeviceForms() const { return !onHost() || deviceForms; }
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELPLACE_H
