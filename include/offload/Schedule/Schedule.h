// A plan for one step as a plain value: what is resident, which copies run
// when, and where every value lies.

#ifndef OFFLOAD_SCHEDULE_SCHEDULE_H
#define OFFLOAD_SCHEDULE_SCHEDULE_H

#include "offload/Schedule/StepModel.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// One copy of a weight into the arena, for the reads from `first` to `last`.
struct StagedUse {
  static constexpr int32_t kAtOnce = -1;
  uint32_t weight = 0; // index in StepModel::weights
  int32_t first = 0, last = 0;
  /// The copy starts once compute has done the node at this position; kAtOnce:
  /// when the step starts. Always below `first`.
  int32_t after = kAtOnce;
  int64_t offset = 0;
};

struct Schedule {
  unsigned depth = 2;
  std::vector<bool> resident;           // one a weight
  std::vector<int64_t> residentOffsets; // one a weight; 0 where it streams
  std::vector<StagedUse> uses;          // in order of their copies
  std::vector<int64_t> stagedOffsets;   // one for each StepModel::staged
  std::vector<int64_t> temporaryOffsets;
  int64_t scratchOffset = 0, scratchBytes = 0;
  int64_t peakBytes = 0;

  bool streams() const { return !uses.empty(); }
  /// One line for each decision; for tests and for reading.
  std::string dump(const StepModel &step) const;
};

/// The staged uses of all weights that are not resident: reads that follow each
/// other closely share one use, so that at most `depth` uses are in use at
/// once, and a copy starts when fewer than `depth` uses are in flight or in
/// use. Where one node reads more than that at once, its copies start right
/// before it. `depth` is at least 2.
std::vector<StagedUse> planUses(const StepModel &step,
                                const std::vector<bool> &resident,
                                unsigned depth);

/// Uses and offsets. `resident` may be true for any weight and must be for
/// those that stay resident. A packing with a peak of at most `enoughBytes` is
/// good enough.
Schedule layOut(const StepModel &step, std::vector<bool> resident,
                unsigned depth, int64_t enoughBytes = 0);

/// No layout with these residents and uses has a lower peak.
int64_t peakBound(const StepModel &step, const std::vector<bool> &resident,
                  unsigned depth);

/// Bytes of residents and of live values, without scratch, at each position.
std::vector<int64_t> liveBytes(const StepModel &step, const Schedule &schedule);

/// Name of the node at which most bytes are live, scratch included; empty where
/// there is no compute node.
std::string peakNode(const StepModel &step, const Schedule &schedule);

/// Bytes that cross the bus in one step, at the bound.
int64_t h2dBytes(const StepModel &step, const Schedule &schedule);
int64_t d2hBytes(const StepModel &step);
/// Host memory that copies start from or end in: streamed weights, feeds,
/// launch values, rows, fetched outputs.
int64_t pinnedBytes(const StepModel &step, const Schedule &schedule);
/// That and what else a step needs on the host: tables looked up there, outputs
/// that never were on the device.
int64_t hostBytes(const StepModel &step, const Schedule &schedule);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_SCHEDULE_H
