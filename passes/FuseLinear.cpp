// Makes one node of a product and the addition of its bias.
//
// In:  form Imported.
// Out: offload.Linear (x, w, b) for each MatMul of a matrix w whose result only
//      an Add of b reads, b of one dimension, as long as w has columns. It has
//      the name of the MatMul and the result of the Add; `fused` keeps the
//      names that went: of the Add, of the product, and `bias-first` where the
//      bias was the Add's first operand.
// Not: Gemm, which has a bias already; a product of several matrices, or one
//      whose result is an output; how Linear computes (Runtime/Kernels).
// How: one walk over additions. The node stands where the Add stood, so what
//      the bias is made of comes before it. Strip undoes it.

#include "offload/PassManager/Pass.h"

#include <string>
#include <vector>

namespace offload {
namespace {

class FuseLinear : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    auto &nodes = graph.nodeList();
    for (auto it = nodes.begin(); it != nodes.end();) {
      Node &sum = *it++; // fusing erases it, and its product before it
      for (unsigned bias : {1u, 0u})
        if (isBiased(graph, sum, bias)) {
          fuse(graph, sum, bias);
          count("fused");
          break;
        }
    }
    return llvm::Error::success();
  }

private:
  /// Whether operand `bias` is one of a product that is the other operand.
  static bool isBiased(const Graph &graph, const Node &sum, unsigned bias) {
    if (!sum.domain.empty() || sum.opType != "Add" || !sum.result())
      return false;
    const Value *b = sum.operand(bias), *product = sum.operand(1 - bias);
    const Node *maker = b && product ? product->definingNode() : nullptr;
    if (!maker || !maker->domain.empty() || maker->opType != "MatMul" ||
        product->users().size() != 1 || graph.isOutput(product))
      return false;
    const Value *x = maker->operand(0), *w = maker->operand(1);
    if (!x || !w || w->type.dims.size() != 2 || b->type.dims.size() != 1 ||
        x->type.dims.empty())
      return false;
    const Dim &columns = w->type.dims[1];
    return columns.isStatic() && b->type.dims[0] == columns &&
           operatorInfo(Op::Offload_Linear).supportsType(x->type.elem);
  }

  static void fuse(Graph &graph, Node &sum, unsigned bias) {
    Value *product = sum.operand(1 - bias), *result = sum.result();
    Node &matmul = *product->definingNode();
    std::vector<std::string> gone = {sum.name().str(), product->name().str()};
    if (bias == 0)
      gone.push_back("bias-first");
    const std::string name = matmul.name().str(), made = result->name().str();
    Node *linear =
        graph.addNode(graph.uniqueNodeName(name), "offload", "Linear",
                      {matmul.operand(0), matmul.operand(1), sum.operand(bias)},
                      {graph.uniqueValueName(made)}, &sum);
    linear->properties.setList("fused", gone);
    linear->result()->type = result->type;
    linear->result()->properties = result->properties;
    graph.opsets["offload"] = 1;
    graph.replaceAllUses(result, linear->result());
    graph.eraseNode(&sum);
    graph.eraseNode(&matmul);
    graph.renameNode(linear, name);
    graph.renameValue(linear->result(), made);
  }
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(FuseLinear)
