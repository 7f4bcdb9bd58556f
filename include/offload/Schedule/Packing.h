// Offsets for byte ranges with known lifetimes (dynamic storage allocation).
//
// Plain data in, plain data out: no graph, no queues.

#ifndef OFFLOAD_SCHEDULE_PACKING_H
#define OFFLOAD_SCHEDULE_PACKING_H

#include <cstdint>
#include <vector>

namespace offload {

/// One range to place. It is in use at the positions first..last, both ends
/// included; two items whose positions meet may not share bytes.
struct PackItem {
  int64_t bytes = 0; // rounded up to kAlignBytes when placed
  int32_t first = 0;
  int32_t last = 0;
};

struct Packing {
  std::vector<int64_t> offsets; // one an item, multiples of kAlignBytes
  int64_t peakBytes = 0;        // largest end of an item
};

/// Largest sum of (rounded) bytes in use at one position: no packing has a
/// lower peak. `atPosition`, if not null, receives the first such position (-1
/// for no items).
int64_t liveBytesBound(const std::vector<PackItem> &items,
                       int32_t *atPosition = nullptr);

/// Places all items from offset 0 up. Exact for at most kExactItems items, else
/// the best of several greedy orders; the first whose peak is at most
/// `enoughBytes` is taken. The same arguments give the same offsets.
Packing pack(const std::vector<PackItem> &items, int64_t enoughBytes = 0);

/// Up to this many items pack() tries every order.
inline constexpr unsigned kExactItems = 6;

/// Whether no two items whose positions meet share bytes, all offsets are
/// multiples of kAlignBytes, and the peak is right.
bool isValidPacking(const std::vector<PackItem> &items, const Packing &packing);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_PACKING_H
