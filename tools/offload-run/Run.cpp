// One .off file, run as the command line says.
//
// In:  arguments that were read.
// Out: outputs, states, weights and a timeline in files; statistics on standard
//      output, remarks on standard error.
// How: wiring only. A session does the work.

#include "Run.h"

#include "Inputs.h"
#include "Paths.h"
#include "Report.h"
#include "Weights.h"

#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Npy.h"

#include <iostream>

namespace offload::run {

namespace {

rt::TensorMap allStates(rt::Session &session) {
  rt::TensorMap states;
  for (const rt::ValueInfo &info : session.states())
    states[info.name] = session.state(info.name);
  return states;
}

/// What --nondeterministic has done, on standard error.
void remarkOnNumerics(const Arguments &arguments, unsigned nodes) {
  if (arguments.session.deterministic)
    return;
  std::cerr << "offload-run: remark: --nondeterministic";
  if (arguments.session.device == "host")
    std::cerr << " changes nothing: on the host each kernel has one order";
  else if (nodes == 0)
    std::cerr << " changes nothing: no node of this file has a choice";
  else
    std::cerr << ": " << nodes
              << " nodes run the algorithm that cuDNN finds fastest";
  std::cerr << "\n";
}

void report(const Arguments &arguments, rt::Session &session,
            const rt::TensorMap &outputs, uint64_t changedOutputs) {
  rt::Statistics statistics = session.statistics();
  if (!statistics.warning.empty())
    std::cerr << "offload-run: warning: " << statistics.warning << "\n";
  remarkOnNumerics(arguments, statistics.nondeterministicNodes);
  switch (arguments.stats) {
  case StatsForm::Json:
    std::cout << statisticsJson(statistics, changedOutputs);
    break;
  case StatsForm::Text:
    std::cout << outputLines(outputs)
              << statisticsText(statistics, changedOutputs);
    break;
  case StatsForm::None:
    std::cout << outputLines(outputs);
  }
}

/// Every run as often as is asked for; the outputs of the last one. What one
/// file gives for the same feeds is the same each time, unless it has states
/// that change it.
rt::TensorMap runAll(const Arguments &arguments, InterruptGuard &guard,
                     rt::Session &session,
                     const std::vector<rt::TensorMap> &feeds,
                     uint64_t &changedOutputs) {
  std::vector<rt::TensorMap> first; // outputs of the first round
  rt::TensorMap outputs;
  for (int round = 0; round < arguments.repeat; ++round)
    for (size_t i = 0; i < feeds.size(); ++i) {
      guard.check();
      outputs = session.run(feeds[i]);
      if (round == 0)
        first.push_back(outputs);
      else
        changedOutputs += !rt::sameBits(outputs, first[i]);
    }
  return outputs;
}

} // namespace

int runFile(const Arguments &arguments, InterruptGuard &guard) {
  checkPaths(arguments);
  if (arguments.threads)
    rt::setKernelThreads(*arguments.threads);
  std::unique_ptr<rt::Session> session =
      rt::Session::load(arguments.file, arguments.session);
  if (arguments.listWeights) {
    std::cout << weightLines(*session);
    return 0;
  }
  std::vector<rt::TensorMap> weights = readWeights(arguments, *session);
  setStates(arguments, *session);
  std::vector<rt::TensorMap> feeds = readFeeds(arguments, *session);
  rt::TensorMap outputs;
  uint64_t changedOutputs = 0;
  InterruptGuard::Scope scope(guard, *session);
  for (const rt::TensorMap &replaced : weights) {
    for (const auto &[name, tensor] : replaced)
      session->setWeight(name, tensor);
    outputs = runAll(arguments, guard, *session, feeds, changedOutputs);
  }
  if (!arguments.output.empty())
    rt::writeNpz(arguments.output, outputs);
  if (!arguments.outputState.empty())
    rt::writeNpz(arguments.outputState, allStates(*session));
  if (!arguments.outputWeights.empty())
    rt::writeNpz(arguments.outputWeights, allWeights(*session));
  if (!arguments.timeline.empty())
    rt::writeChromeTrace(arguments.timeline, session->timeline());
  report(arguments, *session, outputs, changedOutputs);
  return guard.wasInterrupted() ? kInterruptedExitCode : 0;
}

} // namespace offload::run
