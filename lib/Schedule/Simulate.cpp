// Replays a schedule in modelled time.
//
// In:  a step, its schedule, a target's figures.
// Out: time of a step, when each node starts, what compute waits for.
// Not: contention of copies that run both ways, power, or noise; a model that
//      ranks plans, not a promise.
// How: queues are first in, first out, so one walk in issue order gives every
//      start: the latest of the end of the node before on its queue and the
//      ends of what it waits for. A step begins when the one before has ended
//      on compute and d2h, as the border token and the return demand.

#include "offload/Schedule/Simulate.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace offload {
namespace {

/// Near three hours: no step has so many operations that their sum overflows.
constexpr double kMostNs = 1e13;

int64_t toNs(double seconds) {
  return static_cast<int64_t>(std::llround(std::min(seconds * 1e9, kMostNs)));
}

class Replay {
public:
  Replay(const StepModel &step, const Schedule &schedule, const Target &target)
      : step(step), schedule(schedule), target(target) {}

  Simulation run() {
    result.peakBytes = schedule.peakBytes;
    result.liveBytes = liveBytes(step, schedule);
    runLookups();
    for (const StepModel::Staged &staged : step.staged)
      copyIn(staged.bytes,
             staged.source == StepModel::Staged::Source::Rows ? hostEnd : 0);
    const size_t stagedCopies = copies.size();
    for (int32_t at = 0; at < step.end(); ++at) {
      issueUses(at);
      waitFor(at, stagedCopies);
      compute(at);
      copyOut(at);
    }
    finish();
    return std::move(result);
  }

private:
  struct Copy {
    int64_t start = 0, end = 0;
    Stall::Cause cause = Stall::Cause::Link;
  };

  int64_t copyNs(int64_t bytes, double bytesPerSecond) const {
    return toNs(target.copyLatencySeconds +
                static_cast<double>(bytes) / bytesPerSecond);
  }

  void runLookups() {
    for (const StepModel::Lookup &lookup : step.lookups) {
      if (lookup.staged == StepModel::Lookup::kNotStaged)
        continue;
      int64_t ns =
          toNs(target.launchSeconds + 2.0 * step.staged[lookup.staged].bytes /
                                          target.hostBytesPerSecond);
      hostEnd += ns;
      result.hostNs += ns;
    }
  }

  /// A copy that may start at `ready`.
  void copyIn(int64_t bytes, int64_t ready, bool needsPlace = false) {
    Copy copy;
    const int64_t ns = copyNs(bytes, target.h2dBytesPerSecond);
    copy.start = std::max(h2dEnd, ready);
    copy.end = copy.start + ns;
    if (ready > h2dEnd)
      copy.cause = needsPlace ? Stall::Cause::Memory : Stall::Cause::Host;
    h2dEnd = copy.end;
    result.h2dNs += ns;
    copies.push_back(copy);
  }

  /// Copies that need no node at or after `at` to be done.
  void issueUses(int32_t at) {
    for (; nextUse < schedule.uses.size(); ++nextUse) {
      const StagedUse &use = schedule.uses[nextUse];
      if (use.after >= at)
        return;
      int64_t bytes = 0;
      for (const StepModel::Part &part : step.weights[use.weight].parts)
        bytes += part.bytes;
      copyIn(bytes,
             use.after == StagedUse::kAtOnce ? 0 : computeEnds[use.after],
             /*needsPlace=*/true);
    }
  }

  /// Compute waits once for each copy, at its first reader; the first copy of
  /// a step is waited for by the first node.
  void waitFor(int32_t at, size_t stagedCopies) {
    const Copy *last = nullptr;
    auto consider = [&](const Copy &copy) {
      if (!last || copy.end > last->end)
        last = &copy;
    };
    for (size_t i = 0; i < stagedCopies; ++i)
      if (step.staged[i].first == at || (at == 0 && i == 0))
        consider(copies[i]);
    for (;
         nextWait < schedule.uses.size() && schedule.uses[nextWait].first == at;
         ++nextWait)
      consider(copies[stagedCopies + nextWait]);
    if (!last || last->end <= computeEnd)
      return;
    result.stalls.push_back(
        {step.nodes[at].name, last->end - computeEnd, last->cause});
    computeEnd = last->end;
  }

  void compute(int32_t at) {
    const StepModel::ComputeNode &node = step.nodes[at];
    int64_t ns = 0;
    if (!node.isView) {
      const double rate = node.halfPrecision ? target.float16FlopsPerSecond
                                             : target.float32FlopsPerSecond;
      ns = toNs(std::max({target.launchSeconds, node.flops / rate,
                          static_cast<double>(node.touchedBytes) /
                              target.deviceBytesPerSecond}));
    }
    result.startNs.push_back(computeEnd);
    computeEnd += ns;
    result.computeNs += ns;
    computeEnds.push_back(computeEnd);
  }

  void copyOut(int32_t at) {
    for (; nextOutput < step.outputs.size() &&
           step.outputs[nextOutput].madeAt == at;
         ++nextOutput) {
      int64_t ns =
          copyNs(step.outputs[nextOutput].bytes, target.d2hBytesPerSecond);
      d2hEnd = std::max(d2hEnd, computeEnd) + ns;
      result.d2hNs += ns;
    }
  }

  void finish() {
    result.stepNs = std::max({computeEnd, h2dEnd, d2hEnd, hostEnd});
    result.boundNs =
        std::max({result.computeNs, result.h2dNs, result.d2hNs, result.hostNs});
  }

  const StepModel &step;
  const Schedule &schedule;
  const Target &target;
  Simulation result;
  std::vector<Copy> copies; // staged values, then uses
  std::vector<int64_t> computeEnds;
  int64_t computeEnd = 0, h2dEnd = 0, d2hEnd = 0, hostEnd = 0;
  size_t nextUse = 0, nextWait = 0, nextOutput = 0;
};

} // namespace

llvm::StringRef stallCauseName(Stall::Cause cause) {
  switch (cause) {
  case Stall::Cause::Link:
    return "link";
  case Stall::Cause::Memory:
    return "memory";
  case Stall::Cause::Host:
    return "host";
  }
  llvm_unreachable("no such cause");
}

Simulation simulate(const StepModel &step, const Schedule &schedule,
                    const Target &target) {
  return Replay(step, schedule, target).run();
}

} // namespace offload
