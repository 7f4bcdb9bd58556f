// Rules about places in the arena, states, outputs and the budget.

#ifndef OFFLOAD_LIB_ANALYSIS_PLACERULES_H
#define OFFLOAD_LIB_ANALYSIS_PLACERULES_H

#include "offload/IR/Graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offload {

/// Adds one line for each broken rule to `broken`, which must outlive this, as
/// must the graph.
class PlaceRules {
public:
  PlaceRules(const Graph &graph, int64_t reservedBytes,
             std::vector<std::string> &broken)
      : graph(graph), reservedBytes(reservedBytes), broken(broken) {}

  void checkScratch(const Node &node);
  void checkRange(const Value &value);
  /// Inputs, constants, states, outputs, the range of scratch, and the peak.
  void checkWhole();

private:
  void report(const llvm::Twine &message) { broken.push_back(message.str()); }
  void refuse(const Node &node, const llvm::Twine &what);
  void checkScratchRange();
  void checkLoaded(const Value &value);
  void checkBytes(const Value &value, const std::string &maker);
  void checkState(const Value &input, const Value &next);
  void checkOutput(const Value &output);
  void checkPeak();
  bool ownsBytes(const Value &value) const;
  std::string describe(const Value &value) const;
  int64_t number(std::string_view key);
  std::optional<Properties> scratchRange() const;

  const Graph &graph;
  int64_t reservedBytes;
  std::vector<std::string> &broken;
};

} // namespace offload

#endif // OFFLOAD_LIB_ANALYSIS_PLACERULES_H
