// What happens around passes: verification, printing, timing, counts.
//
// Passes know nothing of it.

#ifndef OFFLOAD_PASSMANAGER_INSTRUMENT_H
#define OFFLOAD_PASSMANAGER_INSTRUMENT_H

#include "offload/PassManager/Pass.h"

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace offload {

struct InstrumentOptions {
  /// Flags of passes after which the graph is printed, or "all".
  std::vector<std::string> printIrAfter;
  /// Print after each pass that changed the graph's text.
  bool printIrAfterChange = false;
  /// Graph::verify after each pass, and verify-schedule in form Scheduled.
  bool verifyEach = false;
  bool timePasses = false;
  bool stats = false;
  /// The graph as text; needed for the two that print.
  std::function<std::string(const Graph &)> printGraph;
  /// Where all is printed; never null.
  llvm::raw_ostream *out = &llvm::errs();
};

/// One run of a pipeline. Not thread-safe.
class Instrument {
public:
  explicit Instrument(InstrumentOptions options)
      : options(std::move(options)) {}

  /// Error: a name in printIrAfter that is no pass.
  llvm::Error checkOptions() const;

  void beforePass(const PassInfo &info, const Graph &graph);
  /// Error: the graph is broken; the message names the pass that broke it.
  llvm::Error afterPass(const PassInfo &info, const Pass &pass, Graph &graph,
                        const PassContext &context);
  /// Prints times and counts of all passes so far.
  void finish();

private:
  bool printsAfter(const PassInfo &info) const;
  void print(const PassInfo &info, const Graph &graph);
  llvm::Error verify(const PassInfo &info, Graph &graph,
                     const PassContext &context) const;

  struct Record {
    llvm::StringRef flag;
    double seconds = 0;
    std::vector<std::pair<std::string, int64_t>> counts;
  };

  InstrumentOptions options;
  std::string textBefore;
  std::chrono::steady_clock::time_point start;
  std::vector<Record> records;
};

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_INSTRUMENT_H
