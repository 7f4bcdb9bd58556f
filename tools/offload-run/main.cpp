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

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace {

using namespace offload;
using namespace offload::run;

/// An output may replace an older one, and nothing else: neither the model nor
/// its weights.
void checkOutput(const std::string &flag, const std::string &path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error) ||
      std::filesystem::file_size(path, error) == 0)
    return;
  std::ifstream stream(path, std::ios::binary);
  char start[2] = {};
  if (!stream.read(start, 2) || start[0] != 'P' || start[1] != 'K')
    throw rt::Error(flag + "=" + path +
                    " would replace a file that is no .npz: give another name");
}

rt::TensorMap allStates(rt::Session &session) {
  rt::TensorMap states;
  for (const rt::ValueInfo &info : session.states())
    states[info.name] = session.state(info.name);
  return states;
}

/// What one file gives for the same feeds is the same each time, unless it has
/// states that change it.
bool haveSameBits(const rt::TensorMap &a, const rt::TensorMap &b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
        return x.first == y.first && x.second.type == y.second.type &&
               x.second.dims == y.second.dims &&
               std::memcmp(x.second.bytes.get(), y.second.bytes.get(),
                           x.second.sizeBytes()) == 0;
      });
}

void report(const Arguments &arguments, rt::Session &session,
            const rt::TensorMap &outputs, uint64_t changedOutputs) {
  if (std::string text = session.statistics().warning; !text.empty())
    std::cerr << "offload-run: warning: " << text << "\n";
  switch (arguments.stats) {
  case StatsForm::Json:
    std::cout << statisticsJson(session.statistics(), changedOutputs);
    break;
  case StatsForm::Text:
    std::cout << outputLines(outputs)
              << statisticsText(session.statistics(), changedOutputs);
    break;
  case StatsForm::None:
    std::cout << outputLines(outputs);
  }
}

int runFile(Arguments arguments, InterruptGuard &guard) {
  checkOutput("--output", arguments.output);
  checkOutput("--output-state", arguments.outputState);
  arguments.session.keepTimes = arguments.stats != StatsForm::None;
  if (arguments.threads)
    rt::setKernelThreads(arguments.threads);
  arguments.session.beforeNode = [&guard](const std::string &) {
    guard.check();
  };
  std::unique_ptr<rt::Session> session =
      rt::Session::load(arguments.file, arguments.session);
  setStates(arguments, *session);
  std::vector<rt::TensorMap> feeds = readFeeds(arguments, *session);
  std::vector<rt::TensorMap> first; // outputs of the first round
  rt::TensorMap outputs;
  uint64_t changedOutputs = 0;
  guard.setRunning(true);
  for (int round = 0; round < arguments.repeat; ++round)
    for (size_t i = 0; i < feeds.size(); ++i) {
      guard.check();
      outputs = session->run(feeds[i]);
      if (round == 0)
        first.push_back(outputs);
      else
        changedOutputs += !haveSameBits(outputs, first[i]);
    }
  if (!arguments.output.empty())
    rt::writeNpz(arguments.output, outputs);
  if (!arguments.outputState.empty())
    rt::writeNpz(arguments.outputState, allStates(*session));
  report(arguments, *session, outputs, changedOutputs);
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
