// What is known before a step starts, and which nodes the launching thread
// runs.
//
// Shapes, axes and other launch operands of compute nodes must be known on the
// host before the step starts. This finds the nodes that make them, and the
// small integer arithmetic beside them that gains nothing from the device.

#ifndef OFFLOAD_ANALYSIS_LAUNCHVALUES_H
#define OFFLOAD_ANALYSIS_LAUNCHVALUES_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/Error.h"

namespace offload {

/// A node whose results are not larger than this, at the bound, may run on the
/// launching thread though no launch operand needs it.
inline constexpr int64_t kSmallLaunchBytes = 64 * 1024;

/// Whether the node only needs the shape of its operands (Shape, Size).
bool needsShapeOnly(const Node &node);

class LaunchValues {
public:
  /// Error: a launch operand that depends on what the device computes, naming
  /// node, operand and what computes it.
  static llvm::Expected<LaunchValues> compute(const Graph &graph);

  /// Runs on the launching thread before the step.
  bool isLaunch(const Node *node) const { return launch.contains(node); }
  /// On the host, with its contents known before the step starts: a constant,
  /// a graph input that is no state, or the result of a launch node.
  bool isKnown(const Value *value) const;

private:
  explicit LaunchValues(const Graph &graph) : graph(&graph) {}
  const Graph *graph;
  llvm::DenseSet<const Node *> launch;
};

/// Sets `queue=launch` on every launch node whose row does not say so already.
/// Error: as LaunchValues::compute; the graph is then unchanged.
llvm::Error markLaunchNodes(Graph &graph);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_LAUNCHVALUES_H
