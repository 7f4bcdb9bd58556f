// Why a weight is where it is.

#ifndef OFFLOAD_SCHEDULE_EXPLAINWEIGHT_H
#define OFFLOAD_SCHEDULE_EXPLAINWEIGHT_H

#include "offload/Schedule/Planner.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace offload {

struct WeightDecision {
  /// "resident": on the device; "streamed": copied in every step; "host": its
  /// rows are looked up on the host; "unused": no node on the device reads it.
  std::string decision;
  std::string reason; // one phrase
};

/// About the constant of that name, by itself or as part of a weight. A plan
/// without a budget counts as one that holds everything.
WeightDecision explainWeight(const PlanModel &model, const Plan &plan,
                             llvm::StringRef constant);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_EXPLAINWEIGHT_H
