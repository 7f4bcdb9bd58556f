// What the queues did in the last runs, as measured.
//
//   SessionOptions options;
//   options.keepTimes = true;
//   options.timedRuns = 16;
//   ...
//   writeChromeTrace("trace.json", session->timeline());
//
// All times are nanoseconds of the host's steady clock. On a card they are read
// from its own clock and may be some microseconds late, never early.

#ifndef OFFLOAD_RUNTIME_TIMELINE_H
#define OFFLOAD_RUNTIME_TIMELINE_H

#include "offload/OffFormat/Queue.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload::rt {

/// A while in which a queue stood before an operation.
struct TimedPause {
  /// The node that was waited for, of the run before where that is set; empty:
  /// a pause or a fill of poison that a test had asked for.
  std::string node;
  bool ofLastRun = false;
  int64_t startNs = 0, endNs = 0;
};

struct TimedOperation {
  std::string node, op; // "fc1", "Gemm"
  Queue queue = Queue::Compute;
  int64_t launchNs = 0; // when the launching thread began to issue it
  /// -1: it had nothing to do on its queue, as nodes that only order have.
  int64_t startNs = -1, endNs = -1;
  int64_t bytes = 0;              // that a copy moves
  std::vector<TimedPause> pauses; // before it, in their order
};

/// The launching thread checked feeds and sizes from `startNs`, issued
/// operations from the first one's `launchNs` to `launchedNs`, and waited for
/// outputs until `landedNs`.
struct TimedRun {
  uint64_t number = 0; // the first run of a session is 1
  int64_t startNs = 0, launchedNs = 0, landedNs = 0;
  std::vector<TimedOperation> operations; // in the order of launch
};

struct MeasuredTimeline {
  std::string model, device;  // "model.off", "cuda:0"
  std::vector<TimedRun> runs; // the oldest first; of runs that returned
};

/// Writes Chrome's trace event format (JSON), which chrome://tracing and
/// Perfetto read: one row for the launching thread and one for each queue. The
/// file appears whole or not at all. Throws Error.
void writeChromeTrace(const std::string &path,
                      const MeasuredTimeline &timeline);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_TIMELINE_H
