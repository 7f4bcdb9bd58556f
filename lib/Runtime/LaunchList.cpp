// Flattens a program into operations on queues with the waits between them.
//
// In:  a program that keeps the rules of the format.
// Out: a Timeline: one operation a node that runs on a queue, its bytes, and
//      one wait for each operand that another queue makes.
// Not: the proof itself (OffFormat/HappensBefore), issuing (Executor).
// How: a node waits for the makers of its operands; a Join stands for both of
//      its operands; a state's input is made by the maker of its next value in
//      the step before.

#include "LaunchList.h"

#include <algorithm>
#include <array>

namespace offload::rt {

namespace {

class ListBuilder {
public:
  explicit ListBuilder(const Program &program) : program(program) {}

  LaunchList run() {
    opOfNode.assign(program.nodes.size(), kNone);
    for (uint32_t i = 0; i < program.values.size(); ++i)
      addValue(i);
    for (uint32_t i = 0; i < program.nodes.size(); ++i) {
      Queue queue = program.nodes[i].queue;
      if (queue == Queue::Launch || queue == Queue::None)
        continue;
      opOfNode[i] = static_cast<uint32_t>(list.nodes.size());
      list.nodes.push_back(i);
    }
    for (uint32_t node : list.nodes)
      addOp(node);
    return std::move(list);
  }

private:
  void addValue(uint32_t number);
  void addOp(uint32_t number);
  void addAccesses(const ProgramNode &node, TimelineOp &op);
  void addScratch(const ProgramNode &node, TimelineOp &op);
  void addWaits(uint32_t value, Queue queue, bool previousStep,
                std::vector<WaitPoint> &waits) const;

  const Program &program;
  LaunchList list;
  std::vector<uint32_t> opOfNode;
};

void ListBuilder::addValue(uint32_t number) {
  const ProgramValue &value = program.values[number];
  TimelineValue &entry = list.timeline.values.emplace_back();
  entry.name = value.name;
  if (value.root != number || value.home == Home::Token)
    return;
  entry.inPlaceOf = value.inPlaceOf;
  if (value.offset >= 0) {
    entry.range = {ByteRange::kArena, value.offset,
                   value.offset + value.plannedBytes};
  } else if (value.home == Home::Host && !value.isFeed() && !value.isResult()) {
    // Sizes do not matter: a buffer of its own is met whole or not at all.
    uint32_t owner = value.stateOf == kNone ? number : value.stateOf;
    entry.range = {owner + 1, 0, 1};
    if (value.stateOf != kNone)
      entry.inPlaceOf = value.stateOf;
  }
  if (value.isState() && value.home != Home::Launch)
    entry.carriedFrom = program.values[value.next].root;
  else if (value.isConstant())
    entry.carriedFrom = number;
  // The launching thread writes launch values between two runs as a caller
  // writes feeds, and an output is the caller's from the return on.
  entry.feed = value.isFeed() || value.home == Home::Launch;
}

/// Only bytes count: tokens, views and launch operands have none.
void ListBuilder::addAccesses(const ProgramNode &node, TimelineOp &op) {
  if (!node.isCopy() && !node.isKernel())
    return;
  size_t data = node.isCopy() ? node.numParts() : node.operands.size();
  for (unsigned i = 0; i < data; ++i) {
    uint32_t operand = node.operands[i];
    if (operand == kNone || (!node.isCopy() && node.isLaunchOperand(i)))
      continue;
    uint32_t root = program.values[operand].root;
    if (std::find(op.reads.begin(), op.reads.end(), root) == op.reads.end())
      op.reads.push_back(root);
    op.landsOutput |= program.values[root].isResult();
  }
  for (uint32_t output : node.outputs) {
    if (output == kNone)
      continue;
    op.landsOutput |= program.values[output].isResult();
    op.writes.push_back(output);
  }
}

void ListBuilder::addScratch(const ProgramNode &node, TimelineOp &op) {
  if (!node.isKernel() || node.queue != Queue::Compute ||
      node.scratchBytes == 0)
    return;
  TimelineValue scratch;
  scratch.name = "scratch of " + node.name;
  scratch.range = {ByteRange::kArena, program.scratchOffset,
                   program.scratchOffset + node.scratchBytes};
  op.writes.push_back(static_cast<uint32_t>(list.timeline.values.size()));
  list.timeline.values.push_back(std::move(scratch));
}

void ListBuilder::addWaits(uint32_t value, Queue queue, bool previousStep,
                           std::vector<WaitPoint> &waits) const {
  const ProgramValue &read = program.values[value];
  if (read.isState()) {
    // A step back is as far as it goes: in the second one, what a state's
    // maker waited for has ended.
    if (!previousStep)
      addWaits(read.next, queue, true, waits);
    return;
  }
  if (read.maker == kNone)
    return;
  const ProgramNode &maker = program.nodes[read.maker];
  if (maker.queue == Queue::None) {
    for (uint32_t operand : maker.operands)
      if (operand != kNone)
        addWaits(operand, queue, previousStep, waits);
    return;
  }
  if (maker.queue == Queue::Launch || maker.queue == queue)
    return;
  WaitPoint point{opOfNode[read.maker], previousStep};
  if (std::find(waits.begin(), waits.end(), point) == waits.end())
    waits.push_back(point);
}

void ListBuilder::addOp(uint32_t number) {
  const ProgramNode &node = program.nodes[number];
  TimelineOp op;
  op.name = node.name;
  op.queue = node.queue;
  addAccesses(node, op);
  addScratch(node, op);
  for (uint32_t operand : node.operands)
    if (operand != kNone)
      addWaits(operand, node.queue, false, op.waits);
  list.timeline.ops.push_back(std::move(op));
}

} // namespace

void LaunchList::refresh() {
  waits = 0;
  std::array<uint32_t, kNumQueues> last;
  last.fill(kNone);
  for (uint32_t i = 0; i < timeline.ops.size(); ++i) {
    const TimelineOp &op = timeline.ops[i];
    waits += static_cast<unsigned>(op.waits.size());
    bool holdsReturn =
        op.landsOutput ||
        std::any_of(op.reads.begin(), op.reads.end(), [&](uint32_t value) {
          return timeline.values[value].feed;
        });
    if (holdsReturn)
      last[static_cast<unsigned>(op.queue)] = i;
  }
  returnOps.clear();
  for (uint32_t op : last)
    if (op != kNone)
      returnOps.push_back(op);
}

LaunchList makeLaunchList(const Program &program) {
  LaunchList list = ListBuilder(program).run();
  list.droppedWaits = dropRedundantWaits(list.timeline);
  list.refresh();
  return list;
}

void proveLaunchList(const LaunchList &list, const Program &program) {
  std::vector<Violation> violations = checkTimeline(list.timeline, 1);
  if (violations.empty())
    return;
  const Violation &first = violations.front();
  throw Error("'" + program.path + "' is refused: " + first.message +
              (first.note.empty() ? "" : " (" + first.note + ")"));
}

} // namespace offload::rt
