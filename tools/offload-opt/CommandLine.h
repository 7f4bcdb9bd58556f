// The flags of offload-opt, checked.

#ifndef OFFLOAD_TOOLS_OFFLOADOPT_COMMANDLINE_H
#define OFFLOAD_TOOLS_OFFLOADOPT_COMMANDLINE_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace offload::tool {

enum class Report : uint8_t { None, Text, Json };

/// What is asked for. Texts that name passes, pipelines or targets are as
/// given: only looking at their tables tells whether they are right.
struct CommandLine {
  std::string input;  // empty: none was given
  std::string output; // empty: none was given; "-": standard output
  bool emitGiven = false;
  bool emitText = false;

  // What to do; at most one is given.
  std::optional<std::string> passes, pipeline;
  bool strip = false, verifyOnly = false, runReproducer = false;

  // What a plan is made for.
  std::optional<std::string> target;
  bool memoryGiven = false;
  std::optional<int64_t> deviceMemoryBytes; // nothing though given: auto
  unsigned depth = 0;                       // 0: not given
  std::vector<std::string> dims;

  // What is printed.
  Report listWeights = Report::None, plan = Report::None;
  bool listOperators = false, passesDoc = false;

  // Files.
  bool noCopy = false;
  std::vector<std::string> dataFolders;
  std::string reproducer;

  // Compiler work.
  std::vector<std::string> printIrAfter;
  bool printIrAfterChange = false, verifyEach = false, timePasses = false,
       stats = false;

  bool hasPlanFlags() const { return target || memoryGiven || depth != 0; }
  bool printsToStdout() const {
    return listWeights != Report::None || plan != Report::None;
  }
};

/// Prints and exits for --help and --version. Error: one line that names the
/// flag.
llvm::Expected<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace offload::tool

#endif // OFFLOAD_TOOLS_OFFLOADOPT_COMMANDLINE_H
