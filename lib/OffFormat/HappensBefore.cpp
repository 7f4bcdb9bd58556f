// Vector clocks over two glued steps, and what follows from them alone.
//
// In:  a Timeline.
// Out: what has ended before each operation starts; waits that say nothing new.
// Not: bytes (HappensBeforeCheck).
// How: one walk in issue order. An operation starts after the one before it on
//      its queue and after what it waits for; each of these brings along all
//      that ended before it. A wait is needless where the others together bring
//      its operation along; since that relation is a strict order, dropping all
//      such waits leaves the same closure.

#include "offload/OffFormat/HappensBefore.h"

#include <algorithm>

namespace offload {

namespace {

using Clock = HappensBefore::Clock;

void join(Clock &clock, const Clock &other) {
  for (unsigned q = 0; q < kNumQueues; ++q)
    clock[q] = std::max(clock[q], other[q]);
}

bool readsFeed(const Timeline &timeline, const TimelineOp &op) {
  return std::any_of(op.reads.begin(), op.reads.end(), [&](uint32_t value) {
    return timeline.values[value].feed;
  });
}

/// Index over both steps of the operation that a wait of operation `op` of the
/// second step names.
uint32_t gluedIndex(const Timeline &timeline, const WaitPoint &wait) {
  auto count = static_cast<uint32_t>(timeline.ops.size());
  return wait.previousStep ? wait.op : wait.op + count;
}

} // namespace

HappensBefore::HappensBefore(const Timeline &timeline) : timeline(timeline) {
  auto count = static_cast<uint32_t>(timeline.ops.size());
  starts.resize(2 * count);
  positions.resize(2 * count);
  std::array<Clock, kNumQueues> queueEnds{};
  for (uint32_t glued = 0; glued < 2 * count; ++glued) {
    bool second = glued >= count;
    uint32_t index = second ? glued - count : glued;
    const TimelineOp &op = timeline.ops[index];
    auto queue = static_cast<unsigned>(op.queue);
    bool gated = readsFeed(timeline, op);
    Clock &start = starts[glued] = queueEnds[queue];
    // What waits for a later operation never starts; checkTimeline says so.
    for (const WaitPoint &wait : op.waits) {
      if (wait.previousStep && second)
        join(start, endOf(wait.op));
      else if (!wait.previousStep && wait.op < index)
        join(start, endOf(glued - index + wait.op));
    }
    if (second && gated)
      join(start, returned);
    positions[glued] = queueEnds[queue][queue] + 1;
    queueEnds[queue] = endOf(glued);
    if (!second && (gated || op.landsOutput))
      join(returned, queueEnds[queue]);
  }
}

Queue HappensBefore::queueOf(uint32_t op) const {
  auto count = static_cast<uint32_t>(timeline.ops.size());
  return timeline.ops[op < count ? op : op - count].queue;
}

Clock HappensBefore::endOf(uint32_t op) const {
  Clock end = starts[op];
  end[static_cast<unsigned>(queueOf(op))] = positions[op];
  return end;
}

bool HappensBefore::endsBefore(uint32_t earlier, uint32_t later) const {
  auto queue = static_cast<unsigned>(queueOf(earlier));
  return starts[later][queue] >= positions[earlier];
}

namespace {

/// Whether the end of `point` is in a clock.
bool covers(const HappensBefore &order, const Clock &clock, uint32_t point) {
  auto queue = static_cast<unsigned>(order.queueOf(point));
  return clock[queue] >= order.positionOf(point);
}

/// The waits of one operation that no other thing it waits for implies. All is
/// seen in the second step, where both kinds of waits hold.
std::vector<WaitPoint> neededWaits(const Timeline &timeline,
                                   const HappensBefore &order, uint32_t index,
                                   const Clock &base) {
  std::vector<WaitPoint> needed;
  const std::vector<WaitPoint> &waits = timeline.ops[index].waits;
  auto isLater = [index](const WaitPoint &wait) {
    return !wait.previousStep && wait.op >= index;
  };
  for (const WaitPoint &wait : waits) {
    if (isLater(wait)) {
      needed.push_back(wait);
      continue;
    }
    uint32_t point = gluedIndex(timeline, wait);
    bool implied =
        covers(order, base, point) ||
        std::find(needed.begin(), needed.end(), wait) != needed.end();
    for (const WaitPoint &other : waits)
      implied |= !(other == wait) && !isLater(other) &&
                 covers(order, order.endOf(gluedIndex(timeline, other)), point);
    if (!implied)
      needed.push_back(wait);
  }
  return needed;
}

} // namespace

unsigned dropRedundantWaits(Timeline &timeline) {
  HappensBefore order(timeline);
  auto count = static_cast<uint32_t>(timeline.ops.size());
  unsigned dropped = 0;
  std::array<Clock, kNumQueues> queueEnds{};
  for (uint32_t index = 0; index < count; ++index)
    queueEnds[static_cast<unsigned>(timeline.ops[index].queue)] =
        order.endOf(index);
  for (uint32_t index = 0; index < count; ++index) {
    TimelineOp &op = timeline.ops[index];
    auto queue = static_cast<unsigned>(op.queue);
    Clock base = queueEnds[queue];
    if (readsFeed(timeline, op))
      join(base, order.returnOfFirstStep());
    std::vector<WaitPoint> needed = neededWaits(timeline, order, index, base);
    dropped += op.waits.size() - needed.size();
    op.waits = std::move(needed);
    queueEnds[queue] = order.endOf(count + index);
  }
  return dropped;
}

} // namespace offload
