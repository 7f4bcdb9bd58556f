// Where every value lies: the arena, and host memory laid out for the copies.

#ifndef OFFLOAD_LIB_RUNTIME_STORAGE_H
#define OFFLOAD_LIB_RUNTIME_STORAGE_H

#include "ConstantMemory.h"
#include "Shapes.h"

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Program.h"

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

namespace offload::rt {

class Storage {
public:
  /// Allocates all other memory of the session and loads residents, defaults
  /// and first values of states. `bound`: sizes at the bound. With `poison` the
  /// arena holds NaN where nothing is loaded. Blocks until all is there.
  /// `arena` may be null; then it is allocated here.
  Storage(const Program &program, const Binding &bound, Device &device,
          std::unique_ptr<ConstantMemory> constants,
          std::unique_ptr<Memory> arena, bool poison);

  /// In the arena; null where the value has no place there.
  std::byte *deviceAddress(uint32_t value) const;
  /// Where memory begins that no value keeps from step to step.
  int64_t carriedBytes() const;
  std::byte *scratch() const {
    return arenaMemory->data() + program.scratchOffset;
  }
  /// On the host; null for a feed without a default, and for what a run
  /// returns. A state and its next value have one address.
  std::byte *hostAddress(uint32_t value) const;
  /// Bytes that the value's host buffer holds.
  int64_t hostCapacity(uint32_t value) const;

  /// Gives a constant other contents, as many bytes, wherever it lies. Never
  /// writes to the mapped file. The queues must be empty.
  void replace(uint32_t constant, std::span<const std::byte> contents);
  /// A constant's contents now, on the host; null where only the device has
  /// them.
  const std::byte *contents(uint32_t constant) const;

  std::byte *arena() const { return arenaMemory->data(); }
  int64_t arenaBytes() const { return arenaMemory->sizeBytes(); }
  int64_t pinnedBytes() const {
    return constants->sizeBytes() + pinned->sizeBytes();
  }
  int64_t plainBytes() const { return plain->sizeBytes() + ownBytes; }
  /// Contents that host nodes read where they are: in the mapped file.
  int64_t mappedBytes() const { return borrowedBytes; }

private:
  /// One buffer on the host.
  struct Buffer {
    bool isPlaced = false, isPinned = false, isBorrowed = false;
    int64_t offset = 0, bytes = 0; // offset: of one that is placed here
  };

  uint32_t ownerOf(uint32_t value) const;
  void findBuffers(const Binding &bound);
  void addBuffer(uint32_t value, int64_t bytes, bool isCopied);
  void layOutGroups();
  void place(uint32_t owner);
  void load();
  void loadResidents();
  std::byte *bufferAddress(uint32_t owner) const;

  const Program &program;
  Device &device;
  std::vector<Buffer> buffers; // by value; bytes < 0: none
  std::vector<bool> hasBuffer;
  int64_t pinnedEnd = 0, plainEnd = 0, borrowedBytes = 0, ownBytes = 0;
  std::unique_ptr<ConstantMemory> constants;
  std::unique_ptr<Memory> arenaMemory, pinned, plain;
  /// Replaced constants: what lay in the mapped file, or has no buffer.
  std::map<uint32_t, std::unique_ptr<Memory>> own;
  std::set<uint32_t> replaced;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_STORAGE_H
