// Makes the planned copies, waits and releases explicit.
//
// In:  form Planned: an insert entry for each node, an offset for each value.
// Out: Stage, Wait, Release, Join and Fetch nodes, the border token with its
//      state; readers read what was copied; these entries are gone.
// Not: which weights stream, when and where to (AssignPlan); gradients and what
//      waits for them (InsertGradTransfer).
// How: Schedule/ExpandInserts.

#include "offload/PassManager/Pass.h"
#include "offload/Schedule/ExpandInserts.h"

namespace offload {
namespace {

class InsertStaging : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    llvm::Expected<unsigned> inserted =
        expandInserts(graph, [](const Properties &entry) {
          return entry.get("op") != "GradTransfer";
        });
    if (!inserted)
      return inserted.takeError();
    count("inserted", *inserted);
    return llvm::Error::success();
  }
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(InsertStaging)
