// Counts what a node costs.
//
// In:  nodes with rows and bounded types.
// Out: arithmetic, bytes touched, scratch.
// Not: seconds (Simulate, with a target's figures).
// How: products, convolutions and attention by their shapes; all others move
//      bytes, and their arithmetic hides behind that.

#include "offload/Schedule/NodeCost.h"

namespace offload {
namespace {

double elements(const Value *value) {
  double count = 1;
  for (const Dim &dim : value->type.dims)
    count *= static_cast<double>(dim.bound);
  return count;
}

/// Size along an axis counted from the end (1: the last), or 1.
double fromEnd(const Value *value, unsigned axis) {
  const auto &dims = value->type.dims;
  return dims.size() < axis
             ? 1.0
             : static_cast<double>(dims[dims.size() - axis].bound);
}

double matMulFlops(const Node &node) {
  return 2 * elements(node.result()) * fromEnd(node.operand(0), 1);
}

double gemmFlops(const Node &node) {
  bool transposed = intAttribute(node.attributes, "transA", 0) != 0;
  return 2 * elements(node.result()) *
         fromEnd(node.operand(0), transposed ? 2 : 1);
}

/// Each element of `over` meets the weight's elements but those of one axis.
double convolutionFlops(const Node &node, const Value *over) {
  const Value *weight = node.operand(1);
  if (weight->type.dims.empty() || weight->type.dims[0].bound == 0)
    return 0;
  return 2 * elements(over) * elements(weight) /
         static_cast<double>(weight->type.dims[0].bound);
}

/// Two products of the queries with as many keys as there are.
double attentionFlops(const Node &node) {
  return 4 * elements(node.operand(0)) * fromEnd(node.operand(1), 2);
}

/// Values that have no bound are no device values: launch operands.
int64_t bytesOf(llvm::ArrayRef<Value *> values) {
  int64_t bytes = 0;
  for (const Value *value : values)
    if (value && value->type.isBounded())
      bytes += value->type.bytesAtBound();
  return bytes;
}

} // namespace

double countFlops(const Node &node) {
  if (!node.operand(0) || !node.result())
    return 0;
  if (node.isOffload("Linear"))
    return matMulFlops(node);
  if (!node.domain.empty())
    return 0;
  if (node.opType == "Gemm")
    return gemmFlops(node);
  if (!node.operand(1))
    return 0;
  if (node.opType == "MatMul")
    return matMulFlops(node);
  if (node.opType == "Conv")
    return convolutionFlops(node, node.result());
  if (node.opType == "ConvTranspose")
    return convolutionFlops(node, node.operand(0));
  if (node.opType == "Attention")
    return attentionFlops(node);
  return 0;
}

int64_t countTouchedBytes(const Node &node) {
  return bytesOf(node.operands()) + bytesOf(node.results());
}

int64_t countScratchBytes(const Node &node, bool onCard) {
  if (!node.info)
    return 0;
  const DataType type =
      node.operand(0) ? node.operand(0)->type.elem : DataType::Undefined;
  const ScratchFormula formula =
      onCard ? deviceScratch(node.info->id, type) : node.info->scratch;
  int64_t inputs = 0;
  for (unsigned i = 0; i < node.operands().size(); ++i)
    if (formula.counts(i))
      inputs += bytesOf(node.operands().slice(i, 1));
  const int64_t outputs = bytesOf(node.results());
  // Percent of each, rounded up; split so that no product overflows.
  auto percent = [](int64_t bytes, int64_t share) {
    return bytes / 100 * share + (bytes % 100 * share + 99) / 100;
  };
  return alignUp(percent(inputs, formula.inputPercent) +
                 percent(outputs, formula.outputPercent) +
                 formula.constantBytes);
}

} // namespace offload
