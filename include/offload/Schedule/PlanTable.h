// The table of budgets that `--plan` prints, before anything runs.

#ifndef OFFLOAD_SCHEDULE_PLANTABLE_H
#define OFFLOAD_SCHEDULE_PLANTABLE_H

#include "offload/Schedule/Planner.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace offload {

/// What one budget gives. Bytes and time are of one step, at the bound.
struct PlanRow {
  int64_t deviceMemoryBytes = 0; // the budget
  int64_t peakDeviceBytes = 0;   // of the arena
  int64_t h2dBytes = 0, d2hBytes = 0;
  int64_t hostBytes = 0, pinnedBytes = 0;
  int64_t stepNs = 0;
  unsigned depth = 0;   // 0 where nothing streams
  bool isGiven = false; // the row of --device-memory
};

struct PlanTable {
  SmallestBudget smallest;
  std::vector<PlanRow> rows; // by rising budget, the given one in its place
};

/// Rows for the smallest budget, three between and all resident; with a given
/// budget also for that. Budgets that would give equal rows appear once. Error:
/// the given budget is too small.
llvm::Expected<PlanTable> makePlanTable(const PlanModel &model,
                                        const PlanRequest &request);

/// For people. `freeBytes` is what the card here has free, if there is one:
/// rows that fit are marked.
std::string printPlanTable(const PlanTable &table,
                           std::optional<int64_t> freeBytes);

/// One JSON object: `smallest_device_memory_bytes`, `smallest_set_by`, `rows`;
/// `free_device_bytes` too where known (docs/planning.md).
std::string planTableJson(const PlanTable &table,
                          std::optional<int64_t> freeBytes);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_PLANTABLE_H
