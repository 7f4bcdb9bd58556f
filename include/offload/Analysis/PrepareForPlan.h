// Brings a classified graph into the shape that the planner reads.

#ifndef OFFLOAD_ANALYSIS_PREPAREFORPLAN_H
#define OFFLOAD_ANALYSIS_PREPAREFORPLAN_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

namespace offload {

/// Marks the nodes that the launching thread runs and moves them to the front
/// where no compute node stands before them, and moves nodes that depend
/// on constants alone to right before their first reader, so that what they
/// make lives no longer than it must. Idempotent. Error: a launch operand that
/// depends on the device.
llvm::Error prepareForPlan(Graph &graph);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_PREPAREFORPLAN_H
