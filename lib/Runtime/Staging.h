// Pinned memory for what one run brings and takes away.

#ifndef OFFLOAD_LIB_RUNTIME_STAGING_H
#define OFFLOAD_LIB_RUNTIME_STAGING_H

#include "offload/Runtime/Device.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace offload::rt {

/// One block, used from the front in each run: when a run has returned, no copy
/// uses it any more.
class Staging {
public:
  explicit Staging(Device &device) : device(device) {}

  /// Whether begin() with the same arguments allocates nothing. The queues must
  /// be empty where it does.
  bool holds(int64_t bytes, size_t parts) const;
  void begin(int64_t bytes, size_t parts);

  /// A part of the block, at a multiple of kAlignBytes.
  std::byte *room(int64_t bytes);
  /// A copy of `bytes` in a part of the block.
  const std::byte *put(const std::byte *data, int64_t bytes);

private:
  static int64_t needed(int64_t bytes, size_t parts);

  Device &device;
  std::unique_ptr<Memory> block;
  int64_t end = 0;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_STAGING_H
