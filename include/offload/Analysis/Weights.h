// Which constants are weights, what they are for, and which travel together.
//
// Works on every form: Stage, Wait and views are looked through, so a plain
// model and its schedule have the same weights under the same names.

#ifndef OFFLOAD_ANALYSIS_WEIGHTS_H
#define OFFLOAD_ANALYSIS_WEIGHTS_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// What a weight is for. Texts are those of the node property `kind`.
enum class WeightKind : uint8_t {
  Linear,        // of a Gemm, MatMul or offload.Linear, on either side
  Conv,          // 1-D to 3-D
  ConvTranspose, // likewise
  Embedding,     // the table of a Gather on axis 0
  Quantized,     // 8- or 4-bit, expanded for one of the above
  Small,         // of any other node, below kSmallWeightBytes
  Other          // of any other node, from there on
};
llvm::StringRef weightKindName(WeightKind kind);

/// A constant of a node that bears no weight stays on the device below this.
inline constexpr int64_t kSmallWeightBytes = 64 * 1024;

/// One to four constants that are copied and kept as one.
struct Weight {
  /// In the order of their copy; the first gives the weight its name: the
  /// weight, then its bias; or the packed values, scale, zero point, bias.
  llvm::SmallVector<const Value *, 2> parts;
  WeightKind kind = WeightKind::Other;
  /// Of the parts, without padding between them.
  int64_t bytes = 0;
  /// Nodes that compute with it, in node order, each once: a product behind a
  /// Transpose or DequantizeLinear counts, these do not.
  std::vector<const Node *> readers;

  llvm::StringRef name() const { return parts.front()->name(); }
};

/// All weights by first use; each constant is a part of one weight at most.
///
/// A weight is a constant or a state that some node on compute or the host
/// queue reads as data. An input with a default is none (a caller may replace
/// it), nor is what is read at launch operands alone. Error: as
/// LaunchValues::compute.
llvm::Expected<std::vector<Weight>> findWeights(const Graph &graph);

/// Kinds of nodes by their operands, as classify writes them: that of the
/// product or lookup for a weight-bearing node, Quantized for a
/// DequantizeLinear that expands its weight, Small or Other for a node that
/// reads any other constant. Nodes that read none, and those that only pass a
/// constant on (Transpose, Reshape), are not in it.
llvm::Expected<llvm::DenseMap<const Node *, WeightKind>>
classifyNodes(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_WEIGHTS_H
