// Says why a weight is where it is.
//
// In:  a plan and the name of a constant.
// Out: the decision and a phrase for people.
// Not: any decision of its own.

#include "offload/Schedule/ExplainWeight.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {
namespace {

bool holds(const StepModel::Weight &weight, llvm::StringRef constant) {
  return llvm::any_of(weight.parts, [&](const StepModel::Part &part) {
    return part.name == constant;
  });
}

std::string times(unsigned count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

WeightDecision explainResident(const StepModel::Weight &weight,
                               const Plan &plan, bool isRider) {
  if (weight.staysResident)
    return {"resident", "too small to be worth a copy"};
  if (isRider)
    return {"resident", "with '" + weight.name() + "'"};
  if (!plan.schedule.streams())
    return {"resident", "everything fits"};
  return {"resident", "the budget has room for it"};
}

} // namespace

WeightDecision explainWeight(const PlanModel &model, const Plan &plan,
                             llvm::StringRef constant) {
  const StepModel &step = plan.step(model);
  for (size_t i = 0; i < step.weights.size(); ++i) {
    const StepModel::Weight &weight = step.weights[i];
    if (!holds(weight, constant))
      continue;
    const bool isRider = weight.name() != constant;
    if (plan.schedule.resident[i])
      return explainResident(weight, plan, isRider);
    const unsigned uses =
        llvm::count_if(plan.schedule.uses,
                       [&](const StagedUse &use) { return use.weight == i; });
    std::string reason =
        isRider ? "in one copy with '" + weight.name() + "'"
                : "not all weights fit; copied " + times(uses) + " a step";
    return {"streamed", reason};
  }
  for (const StepModel::Lookup &lookup : step.lookups)
    if (lookup.table == constant)
      return {"host", "not all weights fit; only the rows that [" +
                          lookup.node + "] looks up are copied"};
  return {"unused", "no node on the device reads it"};
}

} // namespace offload
