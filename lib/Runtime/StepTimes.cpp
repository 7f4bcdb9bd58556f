// Puts together what the launching thread noted and what the device measured.
//
// In:  notes of the launching thread; spans, labelled by operation.
// Out: runs as operations with their times.
// Not: measuring on queues (Device), a format for them (ChromeTrace).
// How: an operation's waits have their spans in the order in which they were
//      issued, so the n-th one is that of its n-th wait. What it was given
//      besides runs from its first span to its last one; pauses and fills are
//      tests' and stand apart.

#include "StepTimes.h"

#include <algorithm>
#include <chrono>

namespace offload::rt {

int64_t steadyNs() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StepTimes::StepTimes(unsigned numRuns, size_t numOperations) : runs(numRuns) {
  for (Run &run : runs) {
    run.launchNs.resize(numOperations);
    run.bytes.resize(numOperations);
  }
}

void StepTimes::begin(uint64_t number, int64_t startNs) {
  current = (current + 1) % runs.size();
  Run &run = runs[current];
  run.number = number;
  run.startNs = startNs;
  run.launchedNs = run.landedNs = 0;
  std::fill(run.bytes.begin(), run.bytes.end(), 0);
}

std::vector<TimedRun>
StepTimes::tell(const Program &program, const LaunchList &list,
                const std::vector<std::vector<Span>> &spans) const {
  std::vector<TimedRun> told;
  for (size_t i = 0; i < spans.size(); ++i) {
    size_t stepsBack = spans.size() - 1 - i;
    const Run &run = runs[(current + runs.size() - stepsBack) % runs.size()];
    if (run.landedNs)
      told.push_back(tellRun(run, program, list, spans[i]));
  }
  return told;
}

TimedRun StepTimes::tellRun(const Run &run, const Program &program,
                            const LaunchList &list,
                            const std::vector<Span> &spans) const {
  TimedRun told{run.number, run.startNs, run.launchedNs, run.landedNs, {}};
  const std::vector<TimelineOp> &ops = list.timeline.ops;
  for (uint32_t op = 0; op < ops.size(); ++op) {
    const ProgramNode &node = program.nodes[list.nodes[op]];
    TimedOperation &timed = told.operations.emplace_back();
    timed.node = node.name;
    timed.op = node.op->name;
    timed.queue = ops[op].queue;
    timed.launchNs = run.launchNs[op];
    timed.bytes = run.bytes[op];
  }
  std::vector<size_t> waitsSeen(ops.size());
  for (const Span &span : spans) {
    TimedOperation &timed = told.operations[span.label];
    if (span.kind == Span::Kind::Wait) {
      const WaitPoint &wait = ops[span.label].waits[waitsSeen[span.label]++];
      timed.pauses.push_back({program.nodes[list.nodes[wait.op]].name,
                              wait.previousStep, span.startNs, span.endNs});
    } else if (span.kind == Span::Kind::Fill ||
               span.kind == Span::Kind::Pause) {
      timed.pauses.push_back({"", false, span.startNs, span.endNs});
    } else {
      if (timed.startNs < 0)
        timed.startNs = span.startNs;
      timed.endNs = span.endNs;
    }
  }
  return told;
}

} // namespace offload::rt
