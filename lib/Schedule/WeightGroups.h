// When the weights of a step are read. Private to lib/Schedule.

#ifndef OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H
#define OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H

#include "offload/Schedule/StepModel.h"

#include "llvm/ADT/MapVector.h"

#include <map>

namespace offload {

/// How compute nodes read one constant, through views or not.
struct ConstantReads {
  /// Positions of nodes that name the constant itself, ascending.
  std::vector<int32_t> namedAt;
  /// Position at which the constant is named -> last read through that name.
  std::map<int32_t, int32_t> spans;
};

/// By first read.
using ConstantReadsMap = llvm::MapVector<const Value *, ConstantReads>;

/// Joins the constants that Analysis/Weights says travel together; a constant
/// that is no weight there (an output's alone) is a weight of its own. Ordered
/// by first read. Error: as findWeights.
llvm::Expected<std::vector<StepModel::Weight>>
groupWeights(const Graph &graph, const ConstantReadsMap &constants);

} // namespace offload

#endif // OFFLOAD_LIB_SCHEDULE_WEIGHTGROUPS_H
