// Chooses residents and depth for one budget.
//
// In:  a step read twice (tables on the device, rows looked up on the host), a
//      budget, a target.
// Out: of the schedules tried that fit, one with the shortest simulated step,
//      or an error with the smallest budget that works.
// Not: spills, recompute, updates: inference only.
// How: what fits whole streams nothing. Else, for each depth, the largest share
//      of weights that fits is resident, found by bisection over shares; once
//      the link is the bound, residency beats depth, and residents spread
//      evenly keep copies from bunching (docs/planning.md). The share's peak is
//      not quite monotone, so the result is good, not best.

#include "offload/Schedule/Planner.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

namespace offload {
namespace {

constexpr unsigned kDepths[] = {2, 3, 4, 6, 8};
constexpr unsigned kSmallestDepth = 2;
constexpr unsigned kShares = 64;
constexpr int64_t kTimeTolerance = 100; // one part of so many
constexpr unsigned kFillTries = 64;

std::vector<unsigned> depthsToTry(unsigned depth) {
  if (depth)
    return {depth};
  return {std::begin(kDepths), std::end(kDepths)};
}

/// Residents for `share` of kShares of the bytes that may stream.
std::vector<bool> residentsAt(const StepModel &step, unsigned share) {
  std::vector<bool> resident = fewestResident(step);
  double wanted = 0, taken = 0;
  for (size_t i = 0; i < step.weights.size(); ++i) {
    if (resident[i] || step.weights[i].staysOnHost)
      continue;
    const double bytes = static_cast<double>(step.weights[i].bytes());
    wanted += bytes * share / kShares;
    if (wanted - taken >= bytes / 2) {
      resident[i] = true;
      taken += bytes;
    }
  }
  return resident;
}

std::optional<Schedule> fit(const StepModel &step, std::vector<bool> resident,
                            unsigned depth, int64_t arenaBytes) {
  if (peakBound(step, resident, depth) > arenaBytes)
    return std::nullopt;
  Schedule schedule = layOut(step, std::move(resident), depth, arenaBytes);
  if (schedule.peakBytes > arenaBytes)
    return std::nullopt;
  return schedule;
}

/// Makes further weights resident where they fit, larger ones first. Of weights
/// of one size the first is tried, and the next only if that fits.
void fillUp(const StepModel &step, Schedule &schedule, int64_t arenaBytes) {
  std::vector<size_t> streamed;
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (!schedule.resident[i] && !step.weights[i].staysOnHost)
      streamed.push_back(i);
  llvm::stable_sort(streamed, [&](size_t a, size_t b) {
    return step.weights[a].bytes() > step.weights[b].bytes();
  });
  int64_t failed = -1; // this size did not fit
  unsigned tries = 0;
  for (size_t i : streamed) {
    if (step.weights[i].bytes() == failed)
      continue;
    if (++tries > kFillTries)
      return;
    std::vector<bool> resident = schedule.resident;
    resident[i] = true;
    if (std::optional<Schedule> more =
            fit(step, std::move(resident), schedule.depth, arenaBytes))
      schedule = std::move(*more);
    else
      failed = step.weights[i].bytes();
  }
}

Plan finishPlan(const StepModel &step, Schedule schedule, bool lookupsOnHost,
                const Target &target) {
  Plan plan;
  plan.lookupsOnHost = lookupsOnHost;
  // Laid out again without a goal: what fits is now made as small as may be.
  plan.schedule = layOut(step, std::move(schedule.resident), schedule.depth);
  plan.simulation = simulate(step, plan.schedule, target);
  plan.deviceMemoryBytes = plan.schedule.peakBytes + target.reservedBytes;
  return plan;
}

/// Of the plans whose time is as good as the best one's, as far as a model of
/// time can tell, the one that moves the fewest bytes; then the smallest peak.
Plan takeBest(std::vector<Plan> plans, const PlanModel &model) {
  assert(!plans.empty());
  int64_t best = INT64_MAX;
  for (const Plan &plan : plans)
    best = std::min(best, plan.simulation.stepNs);
  const Plan *taken = nullptr;
  auto key = [&](const Plan &plan) {
    return std::pair(h2dBytes(plan.step(model), plan.schedule),
                     plan.schedule.peakBytes);
  };
  for (const Plan &plan : plans)
    if (plan.simulation.stepNs <= best + best / kTimeTolerance &&
        (!taken || key(plan) < key(*taken)))
      taken = &plan;
  return *taken;
}

llvm::Error refuse(const PlanModel &model, const PlanRequest &request) {
  const SmallestBudget smallest =
      smallestBudget(model, request.target, request.depth);
  std::string text =
      "--device-memory=" + std::to_string(*request.deviceMemoryBytes) +
      " is too small: the model needs at least " +
      std::to_string(smallest.deviceMemoryBytes) + " bytes";
  if (!smallest.node.empty())
    text += " (set by [" + smallest.node + "])";
  if (request.target.reservedBytes)
    text += ", of which target '" + request.target.name + "' reserves " +
            std::to_string(request.target.reservedBytes);
  if (request.depth > kSmallestDepth)
    text += ", with --depth=" + std::to_string(request.depth);
  text +=
      "; give --device-memory=" + std::to_string(smallest.deviceMemoryBytes) +
      " or more";
  return makeError(text);
}

} // namespace

llvm::Expected<PlanModel> readPlanModel(const Graph &graph, bool onCard) {
  llvm::Expected<StepModel> onDevice = readStep(graph, false, onCard);
  if (!onDevice)
    return onDevice.takeError();
  llvm::Expected<StepModel> lookupsOnHost = readStep(graph, true, onCard);
  if (!lookupsOnHost)
    return lookupsOnHost.takeError();
  return PlanModel{std::move(*onDevice), std::move(*lookupsOnHost)};
}

std::vector<bool> allResident(const StepModel &step) {
  std::vector<bool> resident;
  for (const StepModel::Weight &weight : step.weights)
    resident.push_back(!weight.staysOnHost);
  return resident;
}

std::vector<bool> fewestResident(const StepModel &step) {
  std::vector<bool> resident;
  for (const StepModel::Weight &weight : step.weights)
    resident.push_back(weight.staysResident);
  return resident;
}

std::optional<Schedule> chooseResidents(const StepModel &step, unsigned depth,
                                        int64_t arenaBytes) {
  std::optional<Schedule> best =
      fit(step, residentsAt(step, 0), depth, arenaBytes);
  // Shares below `low` fit as far as is known, those from `high` on do not.
  unsigned low = 0, high = kShares;
  while (high - low > 1) {
    const unsigned share = (low + high) / 2;
    if (std::optional<Schedule> schedule =
            fit(step, residentsAt(step, share), depth, arenaBytes)) {
      best = std::move(schedule);
      low = share;
    } else {
      high = share;
    }
  }
  if (best)
    fillUp(step, *best, arenaBytes);
  return best;
}

SmallestBudget smallestBudget(const PlanModel &model, const Target &target,
                              unsigned depth) {
  SmallestBudget smallest;
  bool first = true;
  auto consider = [&](const StepModel &step, std::vector<bool> resident) {
    Schedule schedule =
        layOut(step, std::move(resident), depth ? depth : kSmallestDepth);
    const int64_t bytes = schedule.peakBytes + target.reservedBytes;
    if (first || bytes < smallest.deviceMemoryBytes)
      smallest = {bytes, peakNode(step, schedule)};
    first = false;
  };
  for (const StepModel *step : {&model.lookupsOnHost, &model.onDevice}) {
    consider(*step, fewestResident(*step));
    consider(*step, allResident(*step));
  }
  return smallest;
}

llvm::Expected<Plan> makePlan(const PlanModel &model,
                              const PlanRequest &request) {
  const unsigned firstDepth = request.depth ? request.depth : kSmallestDepth;
  assert(firstDepth >= kSmallestDepth && "the driver refuses a smaller depth");
  const int64_t arenaBytes =
      request.deviceMemoryBytes
          ? *request.deviceMemoryBytes - request.target.reservedBytes
          : INT64_MAX;
  const StepModel &onDevice = model.onDevice;
  if (std::optional<Schedule> whole =
          fit(onDevice, allResident(onDevice), firstDepth, arenaBytes))
    return finishPlan(onDevice, std::move(*whole), false, request.target);

  std::vector<Plan> plans;
  auto consider = [&](const StepModel &step, std::optional<Schedule> schedule,
                      bool lookupsOnHost) {
    if (schedule)
      plans.push_back(finishPlan(step, std::move(*schedule), lookupsOnHost,
                                 request.target));
  };
  const StepModel &onHost = model.lookupsOnHost;
  if (!onHost.lookups.empty())
    consider(onHost, fit(onHost, allResident(onHost), firstDepth, arenaBytes),
             true);
  for (unsigned depth : depthsToTry(request.depth))
    consider(onHost, chooseResidents(onHost, depth, arenaBytes), true);
  // Rows may take more room than the table that they come from.
  if (plans.empty() && !onHost.lookups.empty())
    for (unsigned depth : depthsToTry(request.depth))
      consider(onDevice, chooseResidents(onDevice, depth, arenaBytes), false);
  if (plans.empty())
    return refuse(model, request);
  return takeBest(std::move(plans), model);
}

} // namespace offload
