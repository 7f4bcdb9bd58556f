// Makes the transfers of gradients explicit, and what waits for them.
//
// In:  form Planned, staging inserted; entries of GradTransfer and of what
//      names their results.
// Out: form Scheduled: no entry is left. In inference there is nothing to
//      insert.
// Not: when gradients leave and where they lie (AssignPlan).
// How: Schedule/ExpandInserts.

#include "offload/PassManager/Pass.h"
#include "offload/Schedule/ExpandInserts.h"

namespace offload {
namespace {

class InsertGradTransfer : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    for (const auto &[name, entry] : graph.inserts)
      if (entry.get("op") == "Stage")
        return makeError("[" + name +
                         "] is still to be inserted: run insert-staging "
                         "before insert-grad-transfer");
    llvm::Expected<unsigned> inserted =
        expandInserts(graph, [](const Properties &) { return true; });
    if (!inserted)
      return inserted.takeError();
    count("inserted", *inserted);
    graph.form = Form::Scheduled;
    return llvm::Error::success();
  }
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(InsertGradTransfer)
