// Issues operations in node order from one thread.
//
// In:  a launch list, memory, and one step's shapes and feeds.
// Out: work in the device's queues; what was counted while it was issued.
// Not: which order is right (proved before), which feeds are (Feeds).
// How: each operation is its waits, its work and, only where something waits
//      for it, a record. The events of a step are those of the step before:
//      a wait for the last step is issued before its event is recorded anew,
//      or stands for a later point of the same queue.

#include "Executor.h"

#include "ProgramRules.h"
#include "TsanRanges.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace offload::rt {

Executor::Executor(const Program &program, const LaunchList &list,
                   Storage &storage, const Shapes &shapes, Device &device,
                   const SessionOptions &options, const std::atomic<bool> &stop)
    : program(program), list(list), storage(storage), shapes(shapes),
      device(device), options(options), stop(stop),
      events(list.timeline.ops.size()), places(findPlaceUses(program, list)),
      problems(device.allocateShared(
          static_cast<int64_t>(program.nodes.size() * sizeof(int32_t)))) {
  auto need = [&](uint32_t op) {
    if (!events[op])
      events[op] = device.makeEvent();
  };
  for (const TimelineOp &op : list.timeline.ops)
    for (const WaitPoint &wait : op.waits)
      need(wait.op);
  for (uint32_t op : list.returnOps)
    need(op);
  for (const ProgramValue &value : program.values)
    if (value.resident) {
      residentBytes += value.plannedBytes;
      residentEnd = std::max(residentEnd, value.offset + value.plannedBytes);
    }
  for (const QueueDelay &delay : options.delays)
    pauses.push_back({delay.queue, delay.milliseconds * 1e6, delay.seed != 0,
                      std::mt19937_64(delay.seed)});
}

Executor::~Executor() { device.drain(); }

unsigned Executor::numEvents() const {
  return static_cast<unsigned>(
      std::count_if(events.begin(), events.end(),
                    [](const auto &event) { return event != nullptr; }));
}

StepCounts Executor::run(const std::shared_ptr<StepRun> &step) {
  StepCounts counts;
  counts.peakDeviceBytes = alignUp(residentEnd);
  counts.liveBytes.reserve(list.nodes.size());
  liveBytes = residentBytes;
  try {
    shareCalls(*step);
    device.beginStep();
    if (times)
      times->begin(step->number, step->startNs);
    issueAll(step, counts);
    device.label(Device::kNoLabel);
    if (times)
      times->launched();
    for (uint32_t op : list.returnOps)
      device.synchronize(*events[op]);
    if (std::exception_ptr error = device.error())
      std::rethrow_exception(error);
    throwProblems();
    if (times)
      times->landed();
  } catch (...) {
    device.label(Device::kNoLabel);
    device.recover();
    throw;
  }
  return counts;
}

void Executor::issueAll(const std::shared_ptr<StepRun> &step,
                        StepCounts &counts) {
  for (uint32_t op = 0; op < list.timeline.ops.size(); ++op) {
    if (stop)
      throw Interrupted("stopped");
    if (times)
      times->issuing(op);
    device.label(op);
    issue(op, step, counts);
  }
}

void Executor::keepTimes(StepTimes *noted) {
  times = noted;
  device.keepTimes(times ? times->numRuns() : 0,
                   times ? mostSpans() : Device::SpanCounts{});
}

/// What issue() gives each queue in a step, at most.
Device::SpanCounts Executor::mostSpans() const {
  Device::SpanCounts counts{};
  for (uint32_t op = 0; op < list.nodes.size(); ++op) {
    const ProgramNode &node = program.nodes[list.nodes[op]];
    size_t &spans = counts[static_cast<unsigned>(node.queue)];
    spans += list.timeline.ops[op].waits.size();
    for (const Pause &pause : pauses)
      spans += pause.queue == node.queue;
    spans += options.beforeNode != nullptr;
    spans += node.isCopy() ? node.numParts() : node.isKernel();
    if (options.poison)
      spans += places[op].taken.size() + places[op].leftByCompute.size();
  }
  return counts;
}

/// What kernels on the device found wrong with their operands. Those of this
/// step that a result or a later step depends on have run.
void Executor::throwProblems() {
  auto *found = reinterpret_cast<int32_t *>(problems->data());
  for (uint32_t node = 0; node < program.nodes.size(); ++node) {
    if (!std::exchange(found[node], 0))
      continue;
    device.drain(); // so that none is set behind this
    std::memset(found, 0, static_cast<size_t>(problems->sizeBytes()));
    throw Error(program.describe(node) +
                ": an index is out of range; check the inputs it comes from");
  }
}

/// Adds the node's name to whatever `body` throws.
template <typename Body>
void Executor::guarded(uint32_t node, const Body &body) const {
  try {
    if (stop)
      throw Interrupted("stopped");
    body();
  } catch (const Interrupted &) {
    throw;
  } catch (const std::exception &error) {
    throw Error(program.describe(node) + ": " + error.what());
  } catch (...) {
    throw Error(program.describe(node) + ": failed");
  }
}

void Executor::issue(uint32_t op, const std::shared_ptr<StepRun> &step,
                     StepCounts &counts) {
  const TimelineOp &issued = list.timeline.ops[op];
  uint32_t number = list.nodes[op];
  const ProgramNode &node = program.nodes[number];
  for (const WaitPoint &wait : issued.waits)
    device.wait(issued.queue, *events[wait.op]);
  issuePause(issued.queue);
  issueBefore(number, issued.queue);
  auto poison = [&](uint32_t place) {
    device.fill(issued.queue, storage.deviceAddress(place), 0xff,
                program.values[place].plannedBytes);
  };
  if (options.poison)
    for (uint32_t place : places[op].taken)
      poison(place);
  count(op, *step, counts);
  if (node.isCopy())
    issueCopy(op, *step, counts);
  else if (node.isKernel())
    issueKernel(number, step);
  if (options.poison)
    for (uint32_t place : places[op].leftByCompute)
      poison(place);
  if (events[op])
    device.record(issued.queue, *events[op]);
}

void Executor::issuePause(Queue queue) {
  for (Pause &pause : pauses) {
    if (pause.queue != queue)
      continue;
    double ns = pause.maxNs;
    if (pause.isRandom)
      ns *= std::uniform_real_distribution<double>(0, 1)(pause.random);
    device.delay(queue, static_cast<int64_t>(ns));
  }
}

void Executor::issueBefore(uint32_t node, Queue queue) {
  if (options.beforeNode)
    device.launch(queue, [this, node] {
      guarded(node, [&] { options.beforeNode(program.nodes[node].name); });
    });
}

/// Bytes of values that this operation makes are in use from now on; of those
/// that it is the last to use, until it ends.
void Executor::count(uint32_t op, const StepRun &step, StepCounts &counts) {
  auto bytesOf = [&](uint32_t place) {
    return step.binding->values[place].bytes;
  };
  for (uint32_t place : places[op].taken) {
    liveBytes += bytesOf(place);
    counts.peakDeviceBytes =
        std::max(counts.peakDeviceBytes,
                 alignUp(program.values[place].offset + bytesOf(place)));
  }
  counts.liveBytes.push_back(liveBytes);
  for (uint32_t place : places[op].left)
    liveBytes -= bytesOf(place);
  uint32_t node = list.nodes[op];
  const auto &profile = step.binding->profiles[node];
  if (!profile || program.nodes[node].queue != Queue::Compute ||
      program.nodes[node].scratchBytes == 0)
    return;
  // The kernel is given all of its scratch, and may use less of it.
  counts.scratchBytes = std::max(counts.scratchBytes, profile->scratchBytes);
  counts.peakDeviceBytes = std::max(
      counts.peakDeviceBytes,
      alignUp(program.scratchOffset + program.nodes[node].scratchBytes));
}

std::byte *Executor::hostAddress(uint32_t value, const StepRun &step) const {
  uint32_t root = program.values[value].root;
  if (auto fed = step.feeds.find(root); fed != step.feeds.end())
    return const_cast<std::byte *>(fed->second); // only read
  if (auto place = step.landing.find(root); place != step.landing.end())
    return place->second;
  if (auto result = step.results.find(root); result != step.results.end())
    return result->second.bytes.get();
  if (auto made = step.launched.find(root); made != step.launched.end())
    return reinterpret_cast<std::byte *>(
        const_cast<uint8_t *>(made->second.data()));
  return storage.hostAddress(root);
}

std::byte *Executor::addressOf(uint32_t value, Queue queue,
                               const StepRun &step) const {
  return queue == Queue::Host ? hostAddress(value, step)
                              : storage.deviceAddress(value) +
                                    step.binding->values[value].offsetBytes;
}

/// Parts that lie one behind the other on both sides travel in one copy. What
/// is counted is what the parts hold, without the gaps between them.
void Executor::issueCopy(uint32_t op, const StepRun &step, StepCounts &counts) {
  const ProgramNode &node = program.nodes[list.nodes[op]];
  int64_t moved = 0;
  bool isStage = node.is(Op::Offload_Stage);
  auto issueSpan = [&](const auto &span) {
    device.copy(node.queue, span.to, span.from, span.bytes);
    ++counts.copies;
  };
  struct Span {
    std::byte *to = nullptr;
    const std::byte *from = nullptr;
    int64_t bytes = 0;
    bool isStored = false; // on the host in the session's own memory
  } span;
  for (unsigned i = 0; i < node.numParts(); ++i) {
    int64_t bytes = step.binding->values[node.outputs[i]].bytes;
    Span part;
    part.bytes = bytes;
    part.to = isStage ? storage.deviceAddress(node.outputs[i])
                      : hostAddress(node.outputs[i], step);
    part.from = addressOf(node.operands[i],
                          isStage ? Queue::Host : Queue::Compute, step);
    std::byte *stored =
        storage.hostAddress(isStage ? node.operands[i] : node.outputs[i]);
    part.isStored = stored && stored == (isStage ? part.from : part.to);
    moved += bytes;
    int64_t gap = alignUp(span.bytes);
    bool isNext = span.isStored && part.isStored && part.to == span.to + gap &&
                  part.from == span.from + gap;
    if (isNext) {
      span.bytes = gap + bytes;
      continue;
    }
    if (i)
      issueSpan(span);
    span = part;
  }
  issueSpan(span);
  (isStage ? counts.h2dBytes : counts.d2hBytes) += moved;
  if (times)
    times->moves(op, moved);
}

void Executor::issueKernel(uint32_t node,
                           const std::shared_ptr<StepRun> &step) {
  device.launch(program.nodes[node].queue, [this, node, step] {
    guarded(node, [&] { runNode(node, *step); });
  });
}

/// The call but for launch values, which may differ from run to run.
NodeCall Executor::callOf(uint32_t number, const StepRun &step) const {
  const ProgramNode &node = program.nodes[number];
  NodeCall made{step.binding->calls[number], {}};
  for (unsigned i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] != kNone && !node.isLaunchOperand(i))
      made.call.operands[i].data =
          addressOf(node.operands[i], node.queue, step);
  for (uint32_t output : node.outputs)
    made.outputs.push_back(
        output == kNone ? nullptr : addressOf(output, node.queue, step));
  made.call.place = device.kernelPlace(node.queue);
  made.call.problem = reinterpret_cast<int32_t *>(problems->data()) + number;
  return made;
}

/// Places on the device stay where they are, so the compute queue's calls are
/// made once for a binding.
void Executor::shareCalls(StepRun &step) {
  if (sharedBinding != step.binding) {
    auto made = std::make_shared<NodeCalls>(program.nodes.size());
    for (uint32_t node : list.nodes)
      if (program.nodes[node].isKernel() &&
          program.nodes[node].queue == Queue::Compute)
        (*made)[node] = callOf(node, step);
    sharedCalls = std::move(made);
    sharedBinding = step.binding;
  }
  step.calls = sharedCalls;
}

namespace {

/// Whether an update is to leave everything as it was.
bool isLeftOut(const ProgramNode &node, const KernelCall &call) {
  unsigned apply = node.is(Op::Offload_SGD)     ? 3
                   : node.is(Op::Offload_AdamW) ? 10
                                                : ~0u;
  return apply != ~0u && call.launch[apply] &&
         call.launch[apply]->ints == std::vector<int64_t>{0};
}

void tellKernel([[maybe_unused]] const NodeCall &made,
                [[maybe_unused]] const KernelProfile &profile) {
#ifdef OFFLOAD_HAS_TSAN
  const auto &[call, outputs] = made;
  for (const TensorView &view : call.operands)
    if (view.data)
      tellRead(view.data, spannedBytes(view));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i])
      tellWrite(outputs[i], contiguousValue(profile.outputs[i].type,
                                            profile.outputs[i].dims)
                                .bytes);
#endif
}

} // namespace

void Executor::runNode(uint32_t number, const StepRun &step) const {
  if (program.nodes[number].queue == Queue::Compute)
    return runCall(number, step, (*step.calls)[number]);
  NodeCall made = callOf(number, step);
  runCall(number, step, made);
}

void Executor::runCall(uint32_t number, const StepRun &step,
                       NodeCall &made) const {
  const ProgramNode &node = program.nodes[number];
  const KernelProfile &profile = *step.binding->profiles[number];
  auto &[call, outputs] = made;
  for (unsigned i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] != kNone && node.isLaunchOperand(i))
      call.launch[i] =
          shapes.launchValue(*step.binding, step.fed, node.operands[i]);
  if (isLeftOut(node, call)) {
    bool inPlace = true;
    for (unsigned i = 0; i < outputs.size(); ++i) {
      int taken = inPlaceOperand(node, i);
      inPlace &= taken >= 0 && outputs[i] == call.operands[taken].data;
    }
    if (inPlace)
      return;
  }
  bool onHost = node.queue == Queue::Host;
  tellKernel(made, profile);
  runKernel(call, profile, outputs,
            onHost ? step.hostScratch->data() : storage.scratch(),
            onHost ? step.binding->hostScratchBytes : node.scratchBytes);
  tellKernel(made, profile);
}

} // namespace offload::rt
