// Brings the constants that copies read from the file into pinned memory.
//
// In:  a program.
// Out: one address for each such constant, its bytes there.
// Not: constants that only host nodes read (Storage leaves them in the file),
//      residents (copied to the device from where they are).
// How: what travels in one copy lies in one block, each part at the next
//      multiple of 512 bytes, as in the arena; so copies of groups are laid out
//      first, and a part of two groups belongs to the first one. Pages are
//      touched by the threads that read the file into them, and registered by
//      the same threads in pieces that no copy goes across.
//      Sizes of constants are known before any kernel was tried out, so this
//      runs beside all that a device needs.

#include "ConstantMemory.h"

#include "DataFiles.h"

#include "offload/Runtime/FirstError.h"

#include <algorithm>

namespace offload::rt {

ConstantMemory::ConstantMemory(const Program &program, Device &device)
    : places(program.values.size()) {
  layOut(program, true);
  layOut(program, false);
  findCuts(program);
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

/// Where a copy starts, unless another one goes on from before it.
void ConstantMemory::findCuts(const Program &program) {
  std::vector<std::pair<int64_t, int64_t>> copies; // from, to
  for (const ProgramNode &node : program.nodes) {
    if (!node.is(Op::Offload_Stage))
      continue;
    std::pair<int64_t, int64_t> copy = {end, 0};
    for (unsigned i = 0; i < node.numParts(); ++i) {
      const Place &place = places[program.values[node.operands[i]].root];
      if (place.offset < 0)
        continue;
      copy.first = std::min(copy.first, place.offset);
      copy.second = std::max(copy.second, place.offset + place.bytes);
    }
    if (copy.second)
      copies.push_back(copy);
  }
  std::sort(copies.begin(), copies.end());
  int64_t covered = 0;
  for (const auto &[from, to] : copies) {
    if (from >= covered && from > 0)
      cuts.push_back(from);
    covered = std::max(covered, to);
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
  FirstError failure;
  auto fill = [&](std::byte *start, int64_t first, int64_t last) {
    auto block = std::partition_point(
        blocks.begin(), blocks.end(),
        [&](const Block &each) { return each.end() <= first; });
    for (; block != blocks.end() && block->offset < last; ++block) {
      int64_t from = std::max(first, block->offset);
      int64_t to = std::min(last, block->end());
      if (from >= to || failure.hasFailed())
        continue;
      try {
        program.files->read(
            block->contents.subspan(static_cast<size_t>(from - block->offset),
                                    static_cast<size_t>(to - from)),
            start + from);
      } catch (const Error &) {
        failure.capture(std::current_exception());
      }
    }
  };
  memory = device.allocateHost(end, true, {fill, std::move(cuts)});
  if (failure.hasFailed())
    std::rethrow_exception(failure.error());
}

std::byte *ConstantMemory::address(uint32_t value) const {
  const Place &place = places[value];
  return place.offset < 0 ? nullptr : memory->data() + place.offset;
}

} // namespace offload::rt
