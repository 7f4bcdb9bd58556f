// Writes a schedule onto the graph that it was made for, as properties.

#ifndef OFFLOAD_SCHEDULE_PLANWRITER_H
#define OFFLOAD_SCHEDULE_PLANWRITER_H

#include "offload/IR/Graph.h"
#include "offload/Schedule/Schedule.h"

#include "llvm/Support/Error.h"

namespace offload {

/// Properties of nodes and values, insert entries and planned values
/// (docs/planning.md). `step` must have been read from `graph` as it is now.
/// Moves lookups on the host to the front, so that their rows can be staged
/// when the step starts. Error: the graph has insert entries already.
llvm::Error writePlan(Graph &graph, const StepModel &step,
                      const Schedule &schedule);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_PLANWRITER_H
