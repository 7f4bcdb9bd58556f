// Solves one step for the budget and writes every decision.
//
// In:  form Imported: operators, types at the bound, kinds.
// Out: form Planned: `queue` and `scratch` of nodes; `residency`, `view` and
//      the range of values; an insert entry, under its final name, for every
//      copy, wait and release; peak, scratch and step time of the model.
// Not: the nodes themselves (InsertStaging); the choice of residents, depth and
//      offsets (Schedule/Planner).
// How: PlanWriter walks positions in order and keeps, for each constant, the
//      name that its bytes have there. Entries between two nodes form a chain,
//      each before the next, so that their order is in the file.

#include "offload/Analysis/PrepareForPlan.h"
#include "offload/PassManager/Pass.h"
#include "offload/Schedule/PlanWriter.h"
#include "offload/Schedule/Planner.h"

namespace offload {
namespace {

class AssignPlan : public Pass {
public:
  llvm::Error setOption(llvm::StringRef key, llvm::StringRef value,
                        PassContext &context) override {
    return setPlanOption(context, key, value);
  }

  llvm::Error run(Graph &graph, PassContext &context) override {
    if (llvm::Error error = prepareForPlan(graph))
      return error;
    llvm::Expected<PlanModel> model =
        readPlanModel(graph, context.target.isCard());
    if (!model)
      return model.takeError();
    PlanRequest request;
    request.target = context.target;
    request.deviceMemoryBytes = context.deviceMemoryBytes;
    request.depth = context.depth;
    llvm::Expected<Plan> plan = makePlan(*model, request);
    if (!plan)
      return plan.takeError();

    const StepModel &step = plan->step(*model);
    if (llvm::Error error = writePlan(graph, step, plan->schedule))
      return error;
    writeModelProperties(graph, *plan, request);
    remark(step, *plan, context);
    count("resident", llvm::count(plan->schedule.resident, true));
    count("staged", plan->schedule.uses.size());
    count("looked-up", step.lookups.size());
    graph.form = Form::Planned;
    return llvm::Error::success();
  }

private:
  static void writeModelProperties(Graph &graph, const Plan &plan,
                                   const PlanRequest &request) {
    auto set = [&](std::string_view key, const std::string &text) {
      graph.modelProperties[std::string(key)] = text;
    };
    const Schedule &schedule = plan.schedule;
    set(kTargetKey, request.target.name);
    set(kDeviceMemoryKey, std::to_string(request.deviceMemoryBytes.value_or(
                              plan.deviceMemoryBytes)));
    if (request.depth)
      set(kDepthKey, std::to_string(request.depth));
    set(kPeakBytesKey, std::to_string(schedule.peakBytes));
    set(kStepNsKey, std::to_string(plan.simulation.stepNs));
    if (schedule.scratchBytes) {
      Properties scratch;
      scratch.setInt("offset", schedule.scratchOffset);
      scratch.setInt("bytes", schedule.scratchBytes);
      set(kScratchKey, scratch.print());
    }
  }

  /// Says where the user's options or expectations come to nothing.
  static void remark(const StepModel &step, const Plan &plan,
                     PassContext &context) {
    if (plan.schedule.streams() || !step.lookups.empty())
      return;
    *context.remarks << "nothing streams: "
                     << (step.weights.empty() ? "the model has no weights"
                                              : "all weights fit on the device")
                     << " (" << plan.deviceMemoryBytes << " bytes";
    if (context.deviceMemoryBytes)
      *context.remarks << " of " << *context.deviceMemoryBytes;
    *context.remarks << ")\n";
    if (context.depth)
      *context.remarks << "--depth=" << context.depth
                       << " changes nothing: nothing streams\n";
  }
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(AssignPlan)
