// The rules of a scheduled graph that need no proof of order.

#ifndef OFFLOAD_ANALYSIS_SCHEDULERULES_H
#define OFFLOAD_ANALYSIS_SCHEDULERULES_H

#include "offload/IR/Graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// Every broken rule as one line that names node and value, in node order
/// (docs/format.md, "Where values live", "Memory", "State"). `reservedBytes`:
/// what the target takes from the device's memory besides the arena.
std::vector<std::string> checkScheduleRules(const Graph &graph,
                                            int64_t reservedBytes);

/// The largest end of a range in the arena, scratch included.
int64_t largestEnd(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_SCHEDULERULES_H
