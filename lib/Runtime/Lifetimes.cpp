// Finds first writes and last uses of places.
//
// In:  a program and its launch list.
// Out: for each operation the places that it takes and leaves; planned bytes in
//      use.
// Not: whether the order of queues keeps these places apart (the checker).
// How: places are followed in issue order, through values made in place.

#include "Lifetimes.h"

#include <algorithm>

namespace offload::rt {

namespace {

/// The first value that holds the bytes that `value` holds.
uint32_t placeOf(const Program &program, uint32_t value) {
  value = program.values[value].root;
  while (program.values[value].inPlaceOf != kNone)
    value = program.values[value].inPlaceOf;
  return value;
}

bool isCarried(const Program &program, uint32_t place) {
  return program.values[place].resident;
}

struct Life {
  uint32_t first = kNone, last = kNone; // operations
  bool onlyCompute = true;              // reads it, and writes it in place
};

std::vector<Life> findLives(const Program &program, const LaunchList &list) {
  std::vector<Life> lives(program.values.size());
  for (uint32_t i = 0; i < list.timeline.ops.size(); ++i) {
    const TimelineOp &op = list.timeline.ops[i];
    auto touch = [&](uint32_t value, bool isRead) {
      if (value >= program.values.size())
        return; // scratch
      uint32_t place = placeOf(program, value);
      if (program.values[place].offset < 0 || isCarried(program, place))
        return;
      Life &life = lives[place];
      life.onlyCompute &=
          op.queue == Queue::Compute || (!isRead && life.first == kNone);
      life.first = std::min(life.first, i);
      life.last = i;
    };
    for (uint32_t value : op.reads)
      touch(value, true);
    for (uint32_t value : op.writes)
      touch(value, false);
  }
  return lives;
}

} // namespace

std::vector<PlaceUse> findPlaceUses(const Program &program,
                                    const LaunchList &list) {
  std::vector<PlaceUse> uses(list.timeline.ops.size());
  std::vector<Life> lives = findLives(program, list);
  for (uint32_t place = 0; place < lives.size(); ++place) {
    const Life &life = lives[place];
    if (life.first == kNone)
      continue;
    uses[life.first].taken.push_back(place);
    uses[life.last].left.push_back(place);
    if (life.onlyCompute &&
        list.timeline.ops[life.last].queue == Queue::Compute)
      uses[life.last].leftByCompute.push_back(place);
  }
  return uses;
}

std::vector<int64_t> predictLiveBytes(const Program &program,
                                      const LaunchList &list) {
  std::vector<int64_t> bytes(list.timeline.ops.size(), 0);
  for (const ProgramValue &value : program.values)
    for (int64_t &live : bytes)
      live += value.resident ? value.plannedBytes : 0;
  std::vector<Life> lives = findLives(program, list);
  for (uint32_t place = 0; place < lives.size(); ++place)
    if (lives[place].first != kNone)
      for (uint32_t i = lives[place].first; i <= lives[place].last; ++i)
        bytes[i] += program.values[place].plannedBytes;
  return bytes;
}

} // namespace offload::rt
