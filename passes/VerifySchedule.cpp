// Proves that a schedule is right, or says what is wrong with it.
//
// In:  form Scheduled.
// Out: the same graph, or an error with every broken rule (16 at most): a line
//      for each, and where order is missing, a note that says which.
// Not: edits; the numbers a node computes.
// How: the rules node by node (Analysis/ScheduleRules); then happens-before on
//      two steps glued together, over four queues (OffFormat/HappensBefore).

#include "offload/Analysis/GraphTimeline.h"
#include "offload/Analysis/ScheduleRules.h"
#include "offload/PassManager/Pass.h"

namespace {

using namespace offload;

constexpr unsigned kMostErrors = 16;

/// What the schedule's own target reserves. A target file that is not at hand
/// when a `.off` is checked leaves only the arena to be compared.
int64_t reservedBytes(const Graph &graph, const PassContext &context) {
  auto name = graph.modelProperties.find(std::string(kTargetKey));
  if (name == graph.modelProperties.end() ||
      name->second == context.target.name)
    return context.target.reservedBytes;
  llvm::Expected<Target> target = Target::load(name->second);
  if (target)
    return target->reservedBytes;
  llvm::consumeError(target.takeError());
  return 0;
}

struct VerifySchedule : Pass {
  llvm::Error run(Graph &graph, PassContext &context) override {
    if (llvm::Error error = graph.verify())
      return error;
    std::vector<std::string> lines =
        checkScheduleRules(graph, reservedBytes(graph, context));
    if (lines.size() > kMostErrors)
      lines.resize(kMostErrors);
    if (lines.empty())
      proveOrder(graph, lines);
    llvm::Error errors = llvm::Error::success();
    for (const std::string &line : lines)
      errors = llvm::joinErrors(std::move(errors), makeError(line));
    return errors;
  }

private:
  /// The proof needs whole ranges and pairs, so it runs on what keeps the
  /// rules.
  void proveOrder(const Graph &graph, std::vector<std::string> &lines) {
    Timeline timeline = makeGraphTimeline(graph);
    for (const Violation &violation : checkTimeline(timeline, kMostErrors))
      lines.push_back(violation.message +
                      (violation.note.empty() ? "" : "; note: ") +
                      violation.note);
    count("operations", static_cast<int64_t>(timeline.ops.size()));
  }
};

} // namespace

OFFLOAD_DEFINE_PASS(VerifySchedule)
