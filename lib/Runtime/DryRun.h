// Learns from one run of a kernel where its outputs are made, which shapes they
// have and how much scratch it takes.

#ifndef OFFLOAD_LIB_RUNTIME_DRYRUN_H
#define OFFLOAD_LIB_RUNTIME_DRYRUN_H

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Kernels.h"

#include <map>
#include <memory>
#include <string>

namespace offload::rt {

class DryRun {
public:
  explicit DryRun(Device &device) : device(device) {}

  /// Memory of the device that dry runs may overwrite; nothing is taken besides
  /// unless it is too small. The device is drained first.
  void useMemory(std::byte *start, int64_t bytes) {
    memory = start;
    memoryBytes = bytes;
  }

  /// Runs `call` on the thread of `queue`, on zeros for operands that have no
  /// data pointer; calls that differ only in their memory share one profile.
  /// Throws what the kernel throws, without the node's name.
  std::shared_ptr<const KernelProfile> profile(Queue queue,
                                               const KernelCall &call);

  unsigned numProfiles() const { return static_cast<unsigned>(known.size()); }

private:
  std::shared_ptr<const KernelProfile> runOn(Queue queue, KernelCall call);
  std::unique_ptr<Memory> zerosOnDevice(KernelCall &call, int64_t bytes);

  Device &device;
  std::byte *memory = nullptr;
  int64_t memoryBytes = 0;
  std::unique_ptr<Event> done = device.makeEvent();
  /// Dynamic shapes may bring ever new signatures; then the old ones go.
  static constexpr size_t kMostProfiles = 1 << 16;
  std::map<std::string, std::shared_ptr<const KernelProfile>> known;
};

/// Whether values of launch operands have a say in shapes or requests; false
/// for scalars of updates, which change from step to step.
bool launchValuesMatter(Op op);

/// Bytes from the first to the last element that a view reaches.
int64_t spannedBytes(const TensorView &view);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_DRYRUN_H
