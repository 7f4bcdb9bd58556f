// When each place of the arena is taken and given back, in issue order.

#ifndef OFFLOAD_LIB_RUNTIME_LIFETIMES_H
#define OFFLOAD_LIB_RUNTIME_LIFETIMES_H

#include "LaunchList.h"

#include <cstdint>
#include <vector>

namespace offload::rt {

/// What one operation does to the places of the arena. Values that take over
/// another one's bytes are one place; it is named by the first of them.
struct PlaceUse {
  std::vector<uint32_t> taken; // places that it is the first to write
  std::vector<uint32_t> left;  // places that nothing uses after it
  /// Of `left`: those that only compute has read, so that it may be overwritten
  /// there and then.
  std::vector<uint32_t> leftByCompute;
};

/// One for each operation. Places that are carried from step to step
/// (residents) are never taken nor left.
std::vector<PlaceUse> findPlaceUses(const Program &program,
                                    const LaunchList &list);

/// Planned bytes that are in use while each operation runs, residents
/// included, scratch not: what the run's own count must equal at the bound.
std::vector<int64_t> predictLiveBytes(const Program &program,
                                      const LaunchList &list);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_LIFETIMES_H
