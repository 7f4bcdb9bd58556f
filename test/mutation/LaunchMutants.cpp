// Wrong schedules at the level of the launch list.
//
// In:  the list of a right program, redundant waits dropped.
// Out: edits by the numbers of operations, which hold for this program's list.
// Not: whether an edit does harm.
// How: each wait that was left is dropped by itself, and pairs of operations of
//      a queue change places where nothing then waits for what comes later.

#include "Mutants.h"

#include <algorithm>

namespace offload::mutation {

namespace {

/// Which shape it is to drop a wait of one queue for another one.
Shape shapeOfWait(Queue waiting, Queue awaited) {
  if (waiting == Queue::D2H)
    return Shape::CopyOutEarly;
  bool readsLanded = waiting == Queue::Host || waiting == Queue::H2D;
  return awaited == Queue::D2H && readsLanded ? Shape::ReadLanding
                                              : Shape::DropWait;
}

std::string label(const Timeline &timeline, uint32_t op) {
  return "[" + timeline.ops[op].name + "]";
}

std::vector<Mutant> dropWaits(Shape shape, const Timeline &timeline) {
  std::vector<Mutant> made;
  for (uint32_t i = 0; i < timeline.ops.size(); ++i) {
    const TimelineOp &op = timeline.ops[i];
    for (size_t k = 0; k < op.waits.size(); ++k) {
      const WaitPoint &wait = op.waits[k];
      if (shapeOfWait(op.queue, timeline.ops[wait.op].queue) != shape)
        continue;
      made.push_back({label(timeline, i) + " without waiting for " +
                          label(timeline, wait.op) +
                          (wait.previousStep ? " of the step before" : ""),
                      nullptr, [=](rt::LaunchList &list) {
                        auto &waits = list.timeline.ops[i].waits;
                        waits.erase(waits.begin() +
                                    static_cast<std::ptrdiff_t>(k));
                      }});
    }
  }
  return made;
}

void swapOps(Timeline &timeline, uint32_t a, uint32_t b) {
  std::swap(timeline.ops[a], timeline.ops[b]);
  for (TimelineOp &op : timeline.ops)
    for (WaitPoint &wait : op.waits)
      wait.op = wait.op == a ? b : wait.op == b ? a : wait.op;
}

/// An operation that waits for a later one would never start.
bool canEnd(const Timeline &timeline) {
  for (uint32_t i = 0; i < timeline.ops.size(); ++i)
    for (const WaitPoint &wait : timeline.ops[i].waits)
      if (!wait.previousStep && wait.op >= i)
        return false;
  return true;
}

std::vector<Mutant> swapLaunches(const Timeline &timeline) {
  constexpr uint32_t kReach = 6;
  std::vector<Mutant> made;
  auto count = static_cast<uint32_t>(timeline.ops.size());
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t k = i + 1; k < std::min(count, i + kReach); ++k) {
      if (timeline.ops[i].queue != timeline.ops[k].queue)
        continue;
      Timeline swapped = timeline;
      swapOps(swapped, i, k);
      if (canEnd(swapped))
        made.push_back({label(timeline, i) + " and " + label(timeline, k),
                        nullptr, [=](rt::LaunchList &list) {
                          swapOps(list.timeline, i, k);
                          std::swap(list.nodes[i], list.nodes[k]);
                        }});
    }
  return made;
}

} // namespace

std::vector<Mutant> launchMutants(Shape shape, const rt::LaunchList &list) {
  return shape == Shape::SwapLaunches ? swapLaunches(list.timeline)
                                      : dropWaits(shape, list.timeline);
}

} // namespace offload::mutation
