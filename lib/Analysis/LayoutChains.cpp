// Follows chains of Reshapes and Transposes back to where they start, and
// forward to what reads them.
//
// In:  a graph with rows and types.
// Out: the axes of a value in terms of another's; whether readers take strides.
// Not: edits (passes/SimplifyLayout); which nodes make views in a plan
//      (Schedule/ViewChoice), which agrees: a copy here is a Transpose that is
//      no view there, or rows that the kernel of a product would gather.

#include "offload/Analysis/LayoutChains.h"

#include "SizeTerms.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {
namespace {

std::optional<AxisFactors> rootFactors(Value *value) {
  Node *maker = value->definingNode();
  if (maker && maker->info && maker->info->view == ViewRule::Part &&
      maker->operand(0) && !maker->operand(0)->isConstant())
    if (std::optional<LayoutOrigin> whole = layoutOrigin(maker->operand(0)))
      if (std::optional<AxisFactors> part = whole->factors.part(*maker))
        return part;
  return AxisFactors::ofRoot(value->type);
}

/// A reader at the end of a chain.
bool takesAtEnd(const Node &reader, const AxisFactors &factors,
                ChainForm form) {
  if (reader.queue() == Queue::Launch) // of the shape alone
    return true;
  if (form == ChainForm::Composed && !factors.steps())
    return false;
  return factors.isContiguous() ||
         (factors.isView() && reader.info && reader.info->takesStrides);
}

/// Rows that a product reads: as they lie, or with its result in their order.
bool productTakes(const Graph &graph, const Node &product,
                  const AxisFactors &factors, ChainForm form) {
  if (factors.hasRows())
    return form == ChainForm::AsItIs || factors.steps().has_value();
  const TensorType &type = product.result()->type;
  std::optional<SizeTerm> columns = termOf(type.dims.back());
  return form == ChainForm::Composed && columns && factors.keepsLast() &&
         readersTake(graph, *product.result(),
                     factors.withLast(*columns, product.opType == "Gemm"),
                     form);
}

bool readerTakes(const Graph &graph, const Node &reader, const Value &value,
                 const AxisFactors &factors, ChainForm form) {
  if (!readsFirst(reader, value))
    return takesAtEnd(reader, factors, form);
  if (AxisFactors::isLayoutNode(reader)) {
    std::optional<AxisFactors> behind = factors.through(reader);
    if (!behind || (form == ChainForm::AsItIs && !behind->isView()))
      return false;
    return readersTake(graph, *reader.result(), *behind, form);
  }
  if (std::optional<AxisFactors> part = factors.part(reader))
    return takesAtEnd(reader, factors, form) ||
           ((form == ChainForm::AsItIs || factors.steps()) &&
            readersTake(graph, *reader.result(), *part, form));
  if (isRowProduct(reader))
    return productTakes(graph, reader, factors, form);
  return takesAtEnd(reader, factors, form);
}

} // namespace

std::optional<LayoutOrigin> layoutOrigin(Value *value) {
  llvm::SmallVector<Node *, 4> path;
  Value *root = value;
  while (root->definingNode() &&
         AxisFactors::isLayoutNode(*root->definingNode())) {
    path.push_back(root->definingNode());
    root = path.back()->operand(0);
  }
  std::reverse(path.begin(), path.end());
  std::optional<AxisFactors> factors = rootFactors(root);
  for (size_t i = 0; i < path.size(); ++i) {
    if (factors)
      factors = factors->through(*path[i]);
    if (factors)
      continue;
    // Sizes that do not follow from the root's: a chain starts anew here.
    root = path[i]->result();
    factors = AxisFactors::ofRoot(root->type);
    path.erase(path.begin(), path.begin() + i + 1);
    i = SIZE_MAX;
  }
  if (!factors)
    return std::nullopt;
  return LayoutOrigin{root, std::move(path), std::move(*factors)};
}

bool readsFirst(const Node &node, const Value &value) {
  return node.operand(0) == &value && llvm::count(node.operands(), &value) == 1;
}

bool isRowProduct(const Node &node) {
  if (node.isOffload("Linear"))
    return true;
  if (!node.domain.empty() || !node.operand(0) || !node.operand(1) ||
      !node.result() || node.operand(0)->type.dims.size() < 2 ||
      node.operand(1)->type.dims.size() != 2)
    return false;
  if (node.opType == "MatMul")
    return true;
  const Value *bias = node.operand(2);
  return node.opType == "Gemm" &&
         intAttribute(node.attributes, "transA", 0) == 0 &&
         (!bias || (bias->type.hasRank && bias->type.dims.size() < 2));
}

bool readersTake(const Graph &graph, const Value &value,
                 const AxisFactors &factors, ChainForm form) {
  // What is copied out is contiguous, and so is what nothing reads.
  if ((graph.isOutput(&value) || value.users().empty()) &&
      !(factors.isContiguous() &&
        (form == ChainForm::AsItIs || factors.steps())))
    return false;
  return llvm::all_of(value.users(), [&](const Node *reader) {
    return readerTakes(graph, *reader, value, factors, form);
  });
}

unsigned chainCopies(const Graph &graph, const LayoutOrigin &origin,
                     const Value &end) {
  unsigned copies = 0;
  std::optional<AxisFactors> factors = origin.factors.root();
  for (const Node *node : origin.path) {
    std::optional<AxisFactors> behind = factors->through(*node);
    if (behind && behind->isView()) {
      factors = std::move(behind);
      continue;
    }
    ++copies;
    factors = AxisFactors::ofRoot(node->result()->type);
    if (!factors) // sizes that only the chain as a whole tells
      return copies;
  }
  return copies + !readersTake(graph, end, *factors, ChainForm::AsItIs);
}

} // namespace offload
