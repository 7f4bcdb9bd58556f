// Where each weight of a schedule lives, and why: `--list-weights`.

#ifndef OFFLOAD_ANALYSIS_WEIGHTREPORT_H
#define OFFLOAD_ANALYSIS_WEIGHTREPORT_H

#include "offload/Analysis/Weights.h"

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace offload {

enum class WeightPlace : uint8_t {
  Resident, // on the device from load on
  Streamed, // copied in at least once a run
  Host      // looked up there; only rows are copied
};

struct WeightRow {
  Weight weight;
  WeightPlace place = WeightPlace::Host;
  /// Copies of the whole weight in one run.
  unsigned copies = 0;
  std::string reason;

  /// "resident", "streamed" or "host".
  llvm::StringRef decision() const;
  /// What a run copies of it.
  int64_t copiedBytes() const { return copies * weight.bytes; }
};

/// The rows of findWeights, in its order. The graph must have form Scheduled
/// (asserted).
llvm::Expected<std::vector<WeightRow>> reportWeights(const Graph &graph);

/// A table with a header, one line a weight.
void printWeights(llvm::ArrayRef<WeightRow> rows, llvm::raw_ostream &out);
/// A list of objects with the keys name, node, kind, bytes, decision, reason.
void printWeightsJson(llvm::ArrayRef<WeightRow> rows, llvm::raw_ostream &out);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_WEIGHTREPORT_H
