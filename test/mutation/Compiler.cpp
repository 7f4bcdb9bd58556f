// Runs passes for this test.
//
// In:  a graph.
// Out: the changed graph; what verify-schedule says.
// Not: the passes themselves.

#include "Compiler.h"

#include "offload/Analysis/ScheduleRules.h"

namespace offload::mutation {

void runPasses(Graph &graph, const std::string &passes, PassContext context) {
  std::string said;
  llvm::raw_string_ostream remarks(said);
  context.remarks = &remarks;
  Pipeline pipeline = must(parsePipeline(passes));
  Instrument silent{InstrumentOptions()};
  must(runPipeline(graph, pipeline, context, silent));
}

Verdict verdictOn(Graph &graph) {
  PassContext context;
  context.target = must(Target::load("host"));
  std::unique_ptr<Pass> verifier = must(findPass("verify-schedule"))->create();
  Verdict verdict;
  if (llvm::Error error = verifier->run(graph, context)) {
    verdict.refusal = llvm::toString(std::move(error));
    llvm::Error broken = graph.verify();
    verdict.isAboutOrder =
        !broken &&
        checkScheduleRules(graph, context.target.reservedBytes).empty();
    llvm::consumeError(std::move(broken));
  }
  return verdict;
}

} // namespace offload::mutation
