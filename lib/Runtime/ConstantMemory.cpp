// Brings the constants that copies read from the file into pinned memory.
//
// In:  a program.
// Out: one address for each such constant, its bytes there.
// Not: constants that only host nodes read (Storage leaves them in the file),
//      residents (copied to the device from where they are).
// How: what travels in one copy lies in one block, each part at the next
//      multiple of 512 bytes, as in the arena; so copies of groups are laid out
//      first, and a part of two groups belongs to the first one. Pages are
//      touched by the threads that copy into them and registered afterwards.
//      Sizes of constants are known before any kernel was tried out, so this
//      runs beside all that a device needs.

#include "ConstantMemory.h"

#include <algorithm>
#include <cstring>

namespace offload::rt {

ConstantMemory::ConstantMemory(const Program &program, Device &device)
    : places(program.values.size()) {
  layOut(program, true);
  layOut(program, false);
  load(program, device);
}

void ConstantMemory::layOut(const Program &program, bool groups) {
  for (const ProgramNode &node : program.nodes) {
    if (!node.is(Op::Offload_Stage) || (node.numParts() > 1) != groups)
      continue;
    for (unsigned i = 0; i < node.numParts(); ++i) {
      uint32_t number = program.values[node.operands[i]].root;
      const ProgramValue &value = program.values[number];
      if (!value.isConstant() || value.home != Home::Host || value.resident ||
          value.stateOf != kNone || places[number].offset >= 0)
        continue;
      uint32_t onDevice = program.values[node.outputs[i]].root;
      int64_t bytes = std::max(static_cast<int64_t>(value.contents.size()),
                               program.values[onDevice].plannedBytes);
      places[number] = {end, bytes};
      end += alignUp(bytes);
    }
  }
}

void ConstantMemory::load(const Program &program, Device &device) {
  struct Block {
    int64_t offset;
    std::span<const std::byte> contents;
    int64_t end() const {
      return offset + static_cast<int64_t>(contents.size());
    }
  };
  std::vector<Block> blocks; // by offset
  for (uint32_t i = 0; i < places.size(); ++i)
    if (places[i].offset >= 0)
      blocks.push_back({places[i].offset, program.values[i].contents});
  std::sort(blocks.begin(), blocks.end(),
            [](const Block &a, const Block &b) { return a.offset < b.offset; });
  memory = device.allocateHost(
      end, true, [&](std::byte *start, int64_t first, int64_t last) {
        auto block = std::partition_point(
            blocks.begin(), blocks.end(),
            [&](const Block &each) { return each.end() <= first; });
        for (; block != blocks.end() && block->offset < last; ++block) {
          int64_t from = std::max(first, block->offset);
          int64_t to = std::min(last, block->end());
          if (from < to)
            std::memcpy(start + from,
                        block->contents.data() + (from - block->offset),
                        static_cast<size_t>(to - from));
        }
      });
}

std::byte *ConstantMemory::address(uint32_t value) const {
  const Place &place = places[value];
  return place.offset < 0 ? nullptr : memory->data() + place.offset;
}

} // namespace offload::rt
