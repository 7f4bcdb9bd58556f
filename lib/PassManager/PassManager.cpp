// Runs a pipeline over a graph.
//
// How: whatever can be refused by looking at the pipeline alone is refused
//      before the first pass changes anything.

#include "offload/PassManager/PassManager.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {
namespace {

struct PreparedPass {
  std::unique_ptr<Pass> pass;
  PassContext context; // with this pass's options
};

llvm::Expected<PreparedPass> prepare(const PipelineStep &step,
                                     const PassContext &context) {
  PreparedPass prepared{step.pass->create(), context};
  for (const auto &[key, value] : step.options)
    if (llvm::Error error =
            prepared.pass->setOption(key, value, prepared.context))
      return makeError("pass '" + step.pass->flag +
                       "': " + llvm::toString(std::move(error)));
  return prepared;
}

} // namespace

llvm::Error runPipeline(Graph &graph, const Pipeline &pipeline,
                        const PassContext &context, Instrument &instrument) {
  std::vector<PreparedPass> passes;
  for (const PipelineStep &step : pipeline) {
    llvm::Expected<PreparedPass> prepared = prepare(step, context);
    if (!prepared)
      return prepared.takeError();
    passes.push_back(std::move(*prepared));
  }
  if (llvm::Error error = checkForms(pipeline, graph.form))
    return error;
  for (auto [step, prepared] : llvm::zip_equal(pipeline, passes)) {
    instrument.beforePass(*step.pass, graph);
    if (llvm::Error error = prepared.pass->run(graph, prepared.context))
      return error;
    graph.form = step.pass->leaves;
    if (llvm::Error error = instrument.afterPass(*step.pass, *prepared.pass,
                                                 graph, prepared.context))
      return error;
  }
  return llvm::Error::success();
}

Pipeline withContext(const Pipeline &pipeline, const PassContext &context,
                     llvm::StringRef target) {
  std::vector<std::pair<std::string, std::string>> options;
  options.emplace_back("target", target.str());
  if (context.deviceMemoryBytes)
    options.emplace_back("device-memory",
                         std::to_string(*context.deviceMemoryBytes));
  if (context.depth)
    options.emplace_back("depth", std::to_string(context.depth));
  Pipeline result = pipeline;
  for (PipelineStep &step : result) {
    std::unique_ptr<Pass> pass = step.pass->create();
    for (const auto &option : options) {
      PassContext scratch = context;
      llvm::Error error = pass->setOption(option.first, option.second, scratch);
      bool isGiven = llvm::any_of(step.options, [&](const auto &given) {
        return given.first == option.first;
      });
      if (!error && !isGiven)
        step.options.push_back(option);
      llvm::consumeError(std::move(error));
    }
  }
  return result;
}

} // namespace offload
