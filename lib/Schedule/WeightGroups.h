// Which constants travel in one copy: a weight with its bias, all parts of a
// quantized weight. Private to lib/Schedule.

#ifndef OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H
#define OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H

#include "offload/Schedule/StepModel.h"

#include "llvm/ADT/MapVector.h"

#include <map>

namespace offload {

using NodePositions = llvm::DenseMap<const Node *, int32_t>;

/// How compute nodes read one constant, through views or not.
struct ConstantReads {
  struct Reading {
    const Node *node;
    unsigned operand;
    bool direct; // names the constant itself, no view of it
  };
  std::vector<Reading> readings; // in node order
  /// Position at which the constant is named -> last read through that name.
  std::map<int32_t, int32_t> spans;
};

using ConstantReadsMap = llvm::MapVector<const Value *, ConstantReads>;

/// Joins constants into weights, ordered by first read.
std::vector<StepModel::Weight> groupWeights(const ConstantReadsMap &constants,
                                            const Graph &graph,
                                            const NodePositions &positions);

} // namespace offload

#endif // OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H
