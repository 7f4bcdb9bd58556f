// One call of offload-opt: read, plan or check, write, report.

#ifndef OFFLOAD_TOOLS_OFFLOADOPT_JOB_H
#define OFFLOAD_TOOLS_OFFLOADOPT_JOB_H

#include "CommandLine.h"

#include "offload/IR/Graph.h"
#include "offload/PassManager/PassManager.h"

#include <memory>
#include <string>

namespace offload::tool {

class Job {
public:
  explicit Job(const CommandLine &line) : line(line) {}

  /// Everything that the command line asks for. An error leaves no output file
  /// behind.
  llvm::Error run();

private:
  llvm::Error readModel();
  llvm::Error readContext();
  llvm::Error readMemory();
  /// The passes to run, by the flags and the graph's form.
  llvm::Expected<Pipeline> choosePipeline() const;
  llvm::Expected<Pipeline> reproducedPipeline() const;
  llvm::Error runPasses(const Pipeline &pipeline);
  llvm::Error writeReproducer(const Pipeline &pipeline);
  /// The table needs a plain graph: a schedule is stripped for it.
  llvm::Expected<Pipeline> preparation() const;
  llvm::Error printPlan();
  llvm::Error writeModel();
  llvm::Error printWeightList();
  llvm::Error printSummary();

  bool plansAnew() const;
  /// Nothing is asked for but the table of budgets.
  bool wantsPlanAlone() const;
  void remark(const llvm::Twine &text) const;

  const CommandLine &line;
  std::unique_ptr<Graph> graph;
  PassContext context;
  std::string target = "cuda";
};

} // namespace offload::tool

#endif // OFFLOAD_TOOLS_OFFLOADOPT_JOB_H
