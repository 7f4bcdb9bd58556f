// Lays out host memory and the arena, and fills them once.
//
// In:  a program and its sizes at the bound.
// Out: one address for each value, for the life of the session.
// Not: feeds and outputs, which belong to the caller.
// How: what travels in one copy lies in one block of pinned memory, each part
//      at the next multiple of 512 bytes, as in the arena; so copies of groups
//      are laid out first. Contents that only host nodes read stay in the
//      mapped file; constants that are copied are ConstantMemory's.

#include "Storage.h"

#include "DataFiles.h"

#include "offload/Runtime/ParallelRanges.h"

#include <algorithm>
#include <cstring>

namespace offload::rt {

Storage::Storage(const Program &program, const Binding &bound, Device &device,
                 std::unique_ptr<ConstantMemory> loaded,
                 std::unique_ptr<Memory> given, bool poison)
    : program(program), device(device), constants(std::move(loaded)),
      arenaMemory(std::move(given)) {
  findBuffers(bound);
  layOutGroups();
  for (uint32_t i = 0; i < program.values.size(); ++i)
    if (hasBuffer[i])
      place(i);
  if (!arenaMemory)
    arenaMemory = device.allocateDevice(program.peakBytes);
  pinned = device.allocateHost(pinnedEnd, true);
  plain = device.allocateHost(plainEnd, false);
  if (poison)
    device.fill(Queue::H2D, arenaMemory->data(), 0xff, program.peakBytes);
  load();
  loadResidents();
  program.files->forgetPages();
}

/// A state's next value has the state's buffer.
uint32_t Storage::ownerOf(uint32_t value) const {
  uint32_t root = program.values[value].root;
  uint32_t state = program.values[root].stateOf;
  return state == kNone ? root : state;
}

void Storage::addBuffer(uint32_t value, int64_t bytes, bool isCopied) {
  uint32_t owner = ownerOf(value);
  Buffer &buffer = buffers[owner];
  hasBuffer[owner] = true;
  buffer.bytes = std::max(buffer.bytes, bytes);
  buffer.isPinned |= isCopied;
}

/// What the host must hold, how much of it, and whether copies touch it.
void Storage::findBuffers(const Binding &bound) {
  buffers.resize(program.values.size());
  hasBuffer.assign(program.values.size(), false);
  auto isHeld = [&](uint32_t number) {
    const ProgramValue &value = program.values[number];
    // An output that a node makes is the caller's; a constant that is an output
    // stays here, and the caller gets a copy.
    bool isCallers = value.isResult() && value.maker != kNone;
    return value.home == Home::Host && !value.resident && !isCallers &&
           (!value.isFeed() || value.hasContents);
  };
  for (const ProgramNode &node : program.nodes) {
    bool isStage = node.is(Op::Offload_Stage);
    for (unsigned i = 0; node.isCopy() && i < node.numParts(); ++i) {
      uint32_t onHost = isStage ? node.operands[i] : node.outputs[i];
      uint32_t onDevice = isStage ? node.outputs[i] : node.operands[i];
      uint32_t place = program.values[onDevice].root;
      if (isHeld(onHost))
        addBuffer(onHost,
                  std::max(bound.values[onHost].bytes,
                           program.values[place].plannedBytes),
                  true);
    }
    if (node.queue != Queue::Host)
      continue;
    for (unsigned i = 0; i < node.operands.size(); ++i) {
      uint32_t operand = node.operands[i];
      if (operand != kNone && !node.isLaunchOperand(i) && isHeld(operand))
        addBuffer(operand, bound.values[operand].bytes, false);
    }
    for (uint32_t output : node.outputs)
      if (output != kNone && isHeld(output))
        addBuffer(output, bound.values[output].bytes, false);
  }
  for (uint32_t input : program.inputs) {
    const ProgramValue &value = program.values[input];
    if (value.isState() && isHeld(input))
      addBuffer(input, bound.values[input].bytes, false);
  }
  for (uint32_t i = 0; i < program.values.size(); ++i) {
    const ProgramValue &value = program.values[i];
    auto address = reinterpret_cast<uintptr_t>(value.contents.data());
    unsigned elementBytes = std::max(1u, elementBits(value.type) / 8);
    buffers[i].isBorrowed = hasBuffer[i] && value.isConstant() &&
                            !buffers[i].isPinned && address % elementBytes == 0;
  }
}

void Storage::place(uint32_t owner) {
  Buffer &buffer = buffers[owner];
  if (buffer.isPlaced)
    return;
  buffer.isPlaced = true;
  if (constants->address(owner))
    return;
  if (buffer.isBorrowed) {
    borrowedBytes += buffer.bytes;
    return;
  }
  int64_t &end = buffer.isPinned ? pinnedEnd : plainEnd;
  buffer.offset = end;
  end += alignUp(buffer.bytes);
}

/// Parts of one copy, one behind the other. Where a part belongs to two groups,
/// the first one has it, and the other is copied in pieces.
void Storage::layOutGroups() {
  for (const ProgramNode &node : program.nodes) {
    if (!node.isCopy() || node.numParts() < 2)
      continue;
    const std::vector<uint32_t> &parts =
        node.is(Op::Offload_Stage) ? node.operands : node.outputs;
    for (unsigned i = 0; i < node.numParts(); ++i)
      if (uint32_t owner = ownerOf(parts[i]); hasBuffer[owner])
        place(owner);
  }
}

std::byte *Storage::bufferAddress(uint32_t owner) const {
  const Buffer &buffer = buffers[owner];
  if (!hasBuffer[owner])
    return nullptr;
  if (auto found = own.find(owner); found != own.end())
    return found->second->data();
  if (std::byte *constant = constants->address(owner))
    return constant;
  if (buffer.isBorrowed) // only read
    return const_cast<std::byte *>(program.values[owner].contents.data());
  return (buffer.isPinned ? pinned : plain)->data() + buffer.offset;
}

std::byte *Storage::hostAddress(uint32_t value) const {
  return bufferAddress(ownerOf(value));
}

int64_t Storage::hostCapacity(uint32_t value) const {
  return buffers[ownerOf(value)].bytes;
}

std::byte *Storage::deviceAddress(uint32_t value) const {
  const ProgramValue &root = program.values[program.values[value].root];
  return root.offset < 0 ? nullptr : arenaMemory->data() + root.offset;
}

int64_t Storage::carriedBytes() const {
  int64_t end = 0;
  for (const ProgramValue &value : program.values)
    if (value.resident)
      end = std::max(end, alignUp(value.offset + value.plannedBytes));
  return std::min(end, arenaMemory->sizeBytes());
}

void Storage::load() {
  for (uint32_t i = 0; i < program.values.size(); ++i) {
    const ProgramValue &value = program.values[i];
    if (hasBuffer[i] && value.hasContents && !buffers[i].isBorrowed &&
        !constants->address(i))
      forRanges(static_cast<int64_t>(value.contents.size()), [&](int64_t first,
                                                                 int64_t last) {
        std::memcpy(bufferAddress(i) + first, value.contents.data() + first,
                    static_cast<size_t>(last - first));
      });
  }
}

/// What a caller gets as an output is read on the host, so a resident that is
/// one is kept there too, once it is another than the file's.
void Storage::replace(uint32_t constant, std::span<const std::byte> contents) {
  const ProgramValue &value = program.values[constant];
  auto bytes = static_cast<int64_t>(contents.size());
  if (bytes == 0)
    return;
  if (value.resident) {
    device.copy(Queue::H2D, deviceAddress(constant), contents.data(), bytes);
    device.drain();
    if (device.error())
      std::rethrow_exception(device.error());
  }
  Buffer &buffer = buffers[constant];
  bool isBuffered = hasBuffer[constant] && !buffer.isBorrowed;
  if (!isBuffered && (!value.resident || value.isResult()) &&
      !own.contains(constant)) {
    own[constant] = device.allocateHost(bytes, false);
    ownBytes += own[constant]->sizeBytes();
    if (buffer.isBorrowed)
      borrowedBytes -= buffer.bytes;
  }
  if (std::byte *to = isBuffered               ? bufferAddress(constant)
                      : own.contains(constant) ? own[constant]->data()
                                               : nullptr)
    forRanges(bytes, [&](int64_t first, int64_t last) {
      std::memcpy(to + first, contents.data() + first,
                  static_cast<size_t>(last - first));
    });
  replaced.insert(constant);
}

const std::byte *Storage::contents(uint32_t constant) const {
  const ProgramValue &value = program.values[constant];
  if (auto found = own.find(constant); found != own.end())
    return found->second->data();
  if (!replaced.contains(constant))
    return value.contents.data();
  return hasBuffer[constant] ? bufferAddress(constant) : nullptr;
}

void Storage::loadResidents() {
  for (uint32_t i = 0; i < program.values.size(); ++i) {
    const ProgramValue &value = program.values[i];
    if (!value.resident)
      continue;
    if (value.hasContents)
      device.copy(Queue::H2D, deviceAddress(i), value.contents.data(),
                  static_cast<int64_t>(value.contents.size()));
    else
      device.fill(Queue::H2D, deviceAddress(i), 0, value.plannedBytes);
  }
  device.drain();
  if (device.error())
    std::rethrow_exception(device.error());
}

} // namespace offload::rt
