// What the command line of offload-run asks for.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_ARGUMENTS_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_ARGUMENTS_H

#include "offload/Runtime/Session.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace offload::run {

enum class StatsForm : uint8_t { None, Text, Json };

/// A name and the .npy file with its value.
using NamedFile = std::pair<std::string, std::string>;

/// Runs that --timeline tells of.
inline constexpr unsigned kTimedRuns = 16;

/// The most that --threads takes; far more threads than that hang a machine.
inline constexpr int kMostThreads = 1024;

struct Arguments {
  std::string file;
  std::vector<NamedFile> inputs;
  /// One run's feeds each; `inputs` are fed to all of them.
  std::vector<std::string> inputsArchives;
  std::optional<uint64_t> randomSeed;
  std::vector<NamedFile> states;
  std::vector<NamedFile> weights;
  /// Weights of one round each; `weights` are set in all of them.
  std::vector<std::string> weightsArchives;
  bool listWeights = false;
  std::string output;
  std::string outputState;
  std::string outputWeights;
  std::string timeline;
  int repeat = 1;
  std::optional<int> threads; // else as the library chooses
  StatsForm stats = StatsForm::None;
  rt::SessionOptions session;
};

/// Nothing where the caller asked for help, which is then printed. Throws
/// rt::Error with one line for what cannot be read.
std::optional<Arguments> parseArguments(int argc, char **argv);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_ARGUMENTS_H
