// Chooses what is resident and how deep copies run ahead, for one budget.

#ifndef OFFLOAD_SCHEDULE_PLANNER_H
#define OFFLOAD_SCHEDULE_PLANNER_H

#include "offload/Schedule/Schedule.h"
#include "offload/Schedule/Simulate.h"
#include "offload/Schedule/Target.h"

#include "llvm/Support/Error.h"

#include <optional>

namespace offload {

/// One graph as the planner needs it: with large tables on the device, and with
/// their rows looked up on the host. Built once, planned for many budgets.
struct PlanModel {
  StepModel onDevice, lookupsOnHost;
};

struct PlanRequest {
  Target target;
  /// Everything the process may take from the device; nothing: all resident.
  std::optional<int64_t> deviceMemoryBytes;
  unsigned depth = 0; // 0: the planner chooses
};

struct Plan {
  /// Which of the model's two steps the schedule is for.
  bool lookupsOnHost = false;
  Schedule schedule;
  Simulation simulation;
  /// Peak of the arena and what the target reserves.
  int64_t deviceMemoryBytes = 0;

  const StepModel &step(const PlanModel &model) const {
    return lookupsOnHost ? model.lookupsOnHost : model.onDevice;
  }
};

struct SmallestBudget {
  int64_t deviceMemoryBytes = 0;
  std::string node; // at which most bytes are live
};

/// Reads a graph whose launch nodes are marked (prepareForPlan). Errors as
/// readStep.
llvm::Expected<PlanModel> readPlanModel(const Graph &graph,
                                        bool onCard = false);

/// Weights with every one resident that may be, or only those that must be.
std::vector<bool> allResident(const StepModel &step);
std::vector<bool> fewestResident(const StepModel &step);

/// The residents that fit `arenaBytes` at this depth: a share of the bytes,
/// spread evenly over the order of use so that copies do not bunch. Nothing
/// where not even the fewest fit.
std::optional<Schedule> chooseResidents(const StepModel &step, unsigned depth,
                                        int64_t arenaBytes);

/// The smallest device memory for which makePlan succeeds with this depth (0:
/// any).
SmallestBudget smallestBudget(const PlanModel &model, const Target &target,
                              unsigned depth);

/// The plan for one budget. Error: nothing fits; it names the smallest budget
/// that works and the node that sets it.
llvm::Expected<Plan> makePlan(const PlanModel &model,
                              const PlanRequest &request);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_PLANNER_H
