// When the launching thread did what, and what the device's spans mean.

#ifndef OFFLOAD_LIB_RUNTIME_STEPTIMES_H
#define OFFLOAD_LIB_RUNTIME_STEPTIMES_H

#include "LaunchList.h"

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Timeline.h"

#include <cstdint>
#include <vector>

namespace offload::rt {

/// The host's steady clock.
int64_t steadyNs();

/// Of the last runs of one executor, whose operations are the labels of the
/// device's spans. Belongs to the launching thread; takes no memory in a step.
class StepTimes {
public:
  StepTimes(unsigned numRuns, size_t numOperations);

  unsigned numRuns() const { return static_cast<unsigned>(runs.size()); }

  /// With each beginStep() of the device. The oldest run is forgotten.
  void begin(uint64_t number, int64_t startNs);
  void issuing(uint32_t op) { runs[current].launchNs[op] = steadyNs(); }
  void moves(uint32_t op, int64_t bytes) { runs[current].bytes[op] = bytes; }
  void launched() { runs[current].launchedNs = steadyNs(); }
  /// A run that does not get here has failed, and is not told of.
  void landed() { runs[current].landedNs = steadyNs(); }

  /// `spans`: what the device tells of the same steps.
  std::vector<TimedRun> tell(const Program &program, const LaunchList &list,
                             const std::vector<std::vector<Span>> &spans) const;

private:
  struct Run {
    uint64_t number = 0;
    int64_t startNs = 0, launchedNs = 0, landedNs = 0; // 0: did not get there
    std::vector<int64_t> launchNs, bytes;              // by operation
  };
  TimedRun tellRun(const Run &run, const Program &program,
                   const LaunchList &list,
                   const std::vector<Span> &spans) const;

  std::vector<Run> runs; // a ring
  size_t current = 0;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_STEPTIMES_H
