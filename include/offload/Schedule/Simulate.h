// Replays a schedule in modelled time on the queues of a target.

#ifndef OFFLOAD_SCHEDULE_SIMULATE_H
#define OFFLOAD_SCHEDULE_SIMULATE_H

#include "offload/Schedule/Schedule.h"
#include "offload/Schedule/Target.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

struct Stall {
  /// Link: the copy was on its way as early as the link allowed. Memory: it
  /// waited for a place. Host: it waited for a lookup on the host.
  enum class Cause { Link, Memory, Host };
  std::string node; // that compute stood before
  int64_t ns = 0;
  Cause cause = Cause::Link;
};

llvm::StringRef stallCauseName(Stall::Cause cause);

struct Simulation {
  int64_t stepNs = 0; // from the start of a step to the next one's
  int64_t computeNs = 0, h2dNs = 0, d2hNs = 0, hostNs = 0; // busy
  /// The largest of the queues' busy times: no schedule is faster.
  int64_t boundNs = 0;
  int64_t peakBytes = 0;
  std::vector<int64_t> liveBytes; // at each position, without scratch
  std::vector<int64_t> startNs;   // of each compute node
  std::vector<Stall> stalls;      // in node order; none of 0 ns
};

/// Deterministic; takes time linear in nodes and copies.
Simulation simulate(const StepModel &step, const Schedule &schedule,
                    const Target &target);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_SIMULATE_H
