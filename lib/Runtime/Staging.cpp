// Pinned memory for what one run brings and takes away.
//
// In:  sizes and contents of feeds, sizes of results.
// Out: places in one block.
// How: a bump pointer. The block grows to the largest run and then stays.

#include "Staging.h"

#include <cstring>

namespace offload::rt {

int64_t Staging::needed(int64_t bytes, size_t parts) {
  return alignUp(bytes) + static_cast<int64_t>(parts) * kAlignBytes;
}

bool Staging::holds(int64_t bytes, size_t parts) const {
  return block && block->sizeBytes() >= needed(bytes, parts);
}

void Staging::begin(int64_t bytes, size_t parts) {
  if (!holds(bytes, parts)) {
    block.reset();
    block = device.allocateHost(needed(bytes, parts), true);
  }
  end = 0;
}

std::byte *Staging::room(int64_t bytes) {
  std::byte *place = block->data() + end;
  end += alignUp(bytes);
  if (end > block->sizeBytes())
    throw Error("a run brings more than was counted");
  return place;
}

const std::byte *Staging::put(const std::byte *data, int64_t bytes) {
  std::byte *place = room(bytes);
  if (bytes)
    std::memcpy(place, data, static_cast<size_t>(bytes));
  return place;
}

} // namespace offload::rt
