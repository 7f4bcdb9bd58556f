// offload-run: runs a .off file.
//
// In:  a .off file, values of its inputs and states.
// Out: outputs, states and statistics. Exit code 0; 1 with one line on standard
//      error; 130 when interrupted.
// How: wiring only. A session does the work.

#include "Arguments.h"
#include "Inputs.h"
#include "Interrupt.h"
#include "Report.h"

#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Npy.h"

#include <iostream>

namespace {

using namespace offload;
using namespace offload::run;

void refuseOtherDevices(const std::string &device) {
  if (device.rfind("cuda", 0) == 0)
    throw rt::Error("--device=" + device +
                    " is not supported by this build; use --device=host");
  if (device != "host")
    throw rt::Error("--device=" + device + " is unknown; use --device=host");
}

rt::TensorMap allStates(rt::Session &session) {
  rt::TensorMap states;
  for (const rt::ValueInfo &info : session.states())
    states[info.name] = session.state(info.name);
  return states;
}

void report(const Arguments &arguments, rt::Session &session,
            const rt::TensorMap &outputs) {
  switch (arguments.stats) {
  case StatsForm::Json:
    std::cout << statisticsJson(session.statistics());
    break;
  case StatsForm::Text:
    std::cout << outputLines(outputs) << statisticsText(session.statistics());
    break;
  case StatsForm::None:
    std::cout << outputLines(outputs);
  }
}

int runFile(Arguments arguments, InterruptGuard &guard) {
  refuseOtherDevices(arguments.session.device);
  if (arguments.threads)
    rt::setKernelThreads(arguments.threads);
  arguments.session.beforeNode = [&guard](const std::string &) {
    guard.check();
  };
  std::unique_ptr<rt::Session> session =
      rt::Session::load(arguments.file, arguments.session);
  setStates(arguments, *session);
  rt::TensorMap feeds = readFeeds(arguments, *session), outputs;
  guard.setRunning(true);
  for (int i = 0; i < arguments.repeat; ++i) {
    guard.check();
    outputs = session->run(feeds);
  }
  if (!arguments.output.empty())
    rt::writeNpz(arguments.output, outputs);
  if (!arguments.outputState.empty())
    rt::writeNpz(arguments.outputState, allStates(*session));
  report(arguments, *session, outputs);
  return guard.wasInterrupted() ? kInterruptedExitCode : 0;
}

} // namespace

int main(int argc, char **argv) {
  // Never destroyed: its thread outlives main.
  static InterruptGuard &guard = *new InterruptGuard;
  try {
    std::optional<Arguments> arguments = parseArguments(argc, argv);
    return arguments ? runFile(std::move(*arguments), guard) : 0;
  } catch (const std::exception &error) {
    if (guard.wasInterrupted())
      return kInterruptedExitCode;
    std::cerr << "offload-run: error: " << error.what() << "\n";
    return 1;
  }
}
