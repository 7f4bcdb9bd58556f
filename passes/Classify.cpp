// Writes down what kind of weight each node bears.
//
// In:  form Imported.
// Out: `kind` on each node that computes with a constant: `linear` (Gemm, and
//      MatMul with a constant on either side), `conv`, `conv-transpose`,
//      `embedding` (Gather on axis 0 of a constant table), `quantized` (a
//      DequantizeLinear that expands the weight of one of these), `small` and
//      `other` (any other node with a constant below 64 KiB, or of that size).
//      A constant behind Transpose, Identity or Reshape counts as the constant.
// Not: a product of two activations, an input whose default a caller may
//      replace, constants at launch operands (shapes, axes): these get no kind.
//      Where a weight lives (assign-plan).
// How: Weights in lib/Analysis follows each operand back to its constant; the
//      report of `--list-weights` asks it too.

#include "offload/Analysis/Weights.h"
#include "offload/PassManager/Pass.h"

namespace offload {
namespace {

class Classify : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    auto kinds = classifyNodes(graph);
    if (!kinds)
      return kinds.takeError();
    for (Node &node : graph.nodeList()) {
      auto kind = kinds->find(&node);
      if (kind == kinds->end()) {
        node.properties.erase("kind");
        continue;
      }
      llvm::StringRef name = weightKindName(kind->second);
      node.properties.set("kind", {name.data(), name.size()});
      count(name);
    }
    return llvm::Error::success();
  }
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(Classify)
