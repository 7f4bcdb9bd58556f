// Removes copies of activations whose axes are moved about.
//
// In:  form Imported, products fused with their bias.
// Out: the same values with fewer copies: a chain of Reshape, Transpose,
//      Squeeze, Unsqueeze and Flatten in its shortest form; a Transpose of rows
//      behind the product (Linear, MatMul by a matrix, Gemm) that it stood
//      before; an Attention of four dimensions in the form of three, which
//      reads and writes [batch, sequence, heads * size]. The operators are
//      ONNX's own, and each result is computed of the same numbers. Nodes and
//      values that stay keep their names.
// Not: chains of constants, and what is free already: a Transpose that makes a
//      view (Schedule/ViewChoice). A Transpose that moves the last axis stays
//      before its product, a past of keys or values keeps four dimensions.
//      Strip gives back a plain model that is equal to the source, not the
//      source's Transposes.
// How: axes are lists of factors (Analysis/AxisFactors). One walk in order
// moves
//      Transposes behind attentions and products, each only where all that
//      reads the result then reads it through strides or in its own order
//      (Analysis/LayoutChains); a second one replaces the chains that are left.
//      Both go again until they find nothing: mostly the second time.

#include "offload/Analysis/ChainBuilder.h"
#include "offload/Analysis/LayoutChains.h"
#include "offload/PassManager/Pass.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace offload {
namespace {

constexpr int64_t kSwapHeads[] = {0, 2, 1, 3}; // [batch, heads, sequence, size]

class SimplifyLayout : public Pass {
public:
  llvm::Error run(Graph &g, PassContext &) override {
    graph = &g;
    builder.emplace(g);
    // A chain that went leaves others without a second reader.
    for (size_t before = SIZE_MAX; before != changes;) {
      before = changes;
      if (llvm::Error error = walk([&](Node &node) { return move(node); }))
        return error;
      if (llvm::Error error = walk([&](Node &node) { return shorten(node); }))
        return error;
    }
    return llvm::Error::success();
  }

private:
  /// What `visit` makes before the node after `node` is not visited; it erases
  /// nothing behind `node`.
  template <typename Visit> llvm::Error walk(const Visit &visit) {
    auto &nodes = graph->nodeList();
    for (auto it = nodes.begin(); it != nodes.end();) {
      Node &node = *it++;
      following = it == nodes.end() ? nullptr : &*it;
      if (llvm::Error error = visit(node))
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error move(Node &node) {
    if (node.domain.empty() && node.opType == "Attention")
      return flattenAttention(node);
    return isRowProduct(node) ? moveBehind(node) : llvm::Error::success();
  }
  void changed(llvm::StringRef what) {
    count(what);
    ++changes;
  }

  static std::optional<LayoutOrigin> movedRows(const Node &product);
  llvm::Error moveBehind(Node &product);
  llvm::Error flattenAttention(Node &attention);
  llvm::Error shorten(Node &last);
  bool isWorthwhile(const LayoutOrigin &origin, const Value &end,
                    const AxisFactors::Steps &steps) const;
  static std::optional<LayoutOrigin> flatOperand(Value *operand);
  static llvm::SmallVector<LayoutOrigin, 3> flatOperands(const Node &attention);
  llvm::Error setChain(Node &node, unsigned i, const LayoutOrigin &origin,
                       const AxisFactors::Steps &steps, const TensorType &type);
  llvm::Error makeBehind(Node &node, const TensorType &made,
                         const AxisFactors::Steps &steps);
  void eraseUnread(Value *value);

  Graph *graph = nullptr;
  std::optional<ChainBuilder> builder;
  size_t changes = 0;
  Node *following = nullptr; // the node that the walk visits next
};

/// Erases what made a value that nothing reads, and what only that read.
void SimplifyLayout::eraseUnread(Value *value) {
  if (!value->users().empty() || graph->isOutput(value))
    return;
  if (value->isConstant()) {
    graph->eraseValue(value);
    return;
  }
  Node *maker = value->definingNode();
  if (!maker || llvm::any_of(maker->results(), [&](const Value *result) {
        return result && (!result->users().empty() || graph->isOutput(result));
      }))
    return;
  llvm::SmallVector<Value *, 4> operands;
  for (Value *operand : maker->operands())
    if (operand && !llvm::is_contained(operands, operand))
      operands.push_back(operand);
  graph->eraseNode(maker);
  llvm::for_each(operands, [&](Value *operand) { eraseUnread(operand); });
}

/// Operand `i` of the node comes from the origin by these steps.
llvm::Error SimplifyLayout::setChain(Node &node, unsigned i,
                                     const LayoutOrigin &origin,
                                     const AxisFactors::Steps &steps,
                                     const TensorType &type) {
  Value *before = node.operand(i);
  const Node *maker = before->definingNode();
  llvm::Expected<Value *> made = builder->build(
      origin.root, steps, type, &node,
      {(maker ? *maker : node).name().str(), before->name().str()});
  if (!made)
    return made.takeError();
  node.setOperand(i, *made);
  eraseUnread(before);
  return llvm::Error::success();
}

/// The node makes a value of type `made`, and the steps behind it what its
/// result was, under that name.
llvm::Error SimplifyLayout::makeBehind(Node &node, const TensorType &made,
                                       const AxisFactors::Steps &steps) {
  Value *result = node.result();
  const std::string name = result->name().str();
  const TensorType type = result->type;
  result->type = made;
  llvm::Expected<Value *> end =
      builder->build(result, steps, type, following, {node.name().str(), name});
  if (!end)
    return end.takeError();
  Node *first = nullptr;
  for (Value *value = *end; value != result; value = first->operand(0))
    first = value->definingNode();
  graph->replaceAllUses(result, *end, first);
  const std::string free = (*end)->name().str();
  graph->renameValue(*end, graph->uniqueValueName(name + "_end"));
  graph->renameValue(result, free);
  graph->renameValue(*end, name);
  return llvm::Error::success();
}

/// Where the product's rows come from in another order, each row as it is.
std::optional<LayoutOrigin> SimplifyLayout::movedRows(const Node &product) {
  Value *rows = product.operand(0);
  if (!readsFirst(product, *rows) ||
      product.result()->type.dims.size() != rows->type.dims.size())
    return std::nullopt;
  std::optional<LayoutOrigin> origin = layoutOrigin(rows);
  if (!origin || origin->root->isConstant() ||
      origin->root->type.dims.size() < 2 || origin->factors.hasRows() ||
      !origin->factors.keepsLast() || !origin->factors.root().hasRows())
    return std::nullopt;
  return origin;
}

/// Product of transposed rows -> rows transposed behind the product.
llvm::Error SimplifyLayout::moveBehind(Node &product) {
  std::optional<LayoutOrigin> origin = movedRows(product);
  auto made = AxisFactors::ofRoot(product.result()->type);
  if (!origin || !made)
    return llvm::Error::success();
  const TensorType rows = product.operand(0)->type;
  const bool isMatrix = product.opType == "Gemm";
  const AxisFactors root = origin->factors.root();
  const AxisFactors behind =
      origin->factors.withLast(made->sizes().back(), isMatrix);
  auto steps = behind.steps();
  auto before = isMatrix ? root.reshaped(rows) : root;
  auto stepsBefore = before ? before->steps() : std::nullopt;
  if (!steps || steps->count() == 0 || !stepsBefore ||
      !readersTake(*graph, *product.result(), behind, ChainForm::Composed))
    return llvm::Error::success();
  TensorType type = product.result()->type;
  if (!isMatrix) {
    Dim columns = type.dims.back();
    type.dims = origin->root->type.dims;
    type.dims.back() = columns;
  }
  if (llvm::Error error = setChain(product, 0, *origin, *stepsBefore, rows))
    return error;
  changed("moved");
  return makeBehind(product, type, *steps);
}

namespace {

/// Whether that is [batch, heads, sequence, size] with a known number of heads.
bool hasHeads(const TensorType &type) {
  return type.dims.size() == 4 && type.dims[1].isStatic() &&
         type.dims[3].isStatic();
}

/// [batch, heads, sequence, size] -> [batch, sequence, heads * size]
TensorType flatType(const TensorType &type) {
  TensorType flat = type;
  flat.dims = {type.dims[0], type.dims[2],
               Dim{type.dims[1].bound * type.dims[3].bound, ""}};
  return flat;
}

/// The axes of such a type in terms of its flatType().
std::optional<AxisFactors> splitRows(const TensorType &type) {
  if (!hasHeads(type))
    return std::nullopt;
  TensorType split = type;
  std::swap(split.dims[1], split.dims[2]);
  auto factors = AxisFactors::ofRoot(flatType(type));
  if (factors)
    factors = factors->reshaped(split);
  return factors ? factors->transposed(kSwapHeads) : std::nullopt;
}

} // namespace

/// An operand of an attention as [batch, sequence, heads * size], where that is
/// no copy.
std::optional<LayoutOrigin> SimplifyLayout::flatOperand(Value *operand) {
  if (!operand || !hasHeads(operand->type))
    return std::nullopt;
  std::optional<LayoutOrigin> origin = layoutOrigin(operand);
  if (!origin || origin->root->isConstant())
    return std::nullopt;
  origin->factors = origin->factors.transposed(kSwapHeads)->merged(2);
  if (!origin->factors.isView() || !origin->factors.steps())
    return std::nullopt;
  return origin;
}

/// Queries, keys and values as rows; less than three where one of them is none.
llvm::SmallVector<LayoutOrigin, 3>
SimplifyLayout::flatOperands(const Node &attention) {
  llvm::SmallVector<LayoutOrigin, 3> origins;
  for (unsigned i = 0; i < 3; ++i)
    if (auto origin = flatOperand(attention.operand(i)))
      origins.push_back(std::move(*origin));
  return origins;
}

/// Attention between Transposes of heads -> attention of three dimensions.
llvm::Error SimplifyLayout::flattenAttention(Node &attention) {
  Value *result = attention.result();
  if (!result || attention.operand(4) || attention.operand(5) ||
      llvm::any_of(attention.results().drop_front(),
                   [](const Value *more) { return more; }))
    return llvm::Error::success();
  const TensorType type = result->type;
  auto byHead = AxisFactors::ofRoot(type);
  auto byRow = splitRows(type);
  auto steps = byRow ? byRow->steps() : std::nullopt;
  if (!byHead || !steps ||
      readersTake(*graph, *result, *byHead, ChainForm::Composed) ||
      !readersTake(*graph, *result, *byRow, ChainForm::Composed))
    return llvm::Error::success();
  auto origins = flatOperands(attention);
  if (origins.size() != 3)
    return llvm::Error::success();
  attention.attributes["q_num_heads"] = type.dims[1].bound;
  attention.attributes["kv_num_heads"] =
      attention.operand(1)->type.dims[1].bound;
  for (unsigned i = 0; i < 3; ++i)
    if (llvm::Error error =
            setChain(attention, i, origins[i], *origins[i].factors.steps(),
                     flatType(attention.operand(i)->type)))
      return error;
  changed("flattened");
  return makeBehind(attention, flatType(type), *steps);
}

/// Whether the chain is these steps already.
static bool isMadeOf(const LayoutOrigin &origin,
                     const AxisFactors::Steps &steps) {
  if (origin.path.size() != steps.count())
    return false;
  size_t at = 0;
  if (!steps.split.empty()) {
    auto split = AxisFactors::ofRoot(origin.path[at]->result()->type);
    if (origin.path[at++]->opType != "Reshape" || !split ||
        split->sizes() != steps.splitSizes)
      return false;
  }
  if (!steps.perm.empty()) {
    const auto *perm = intsAttribute(origin.path[at]->attributes, "perm");
    if (origin.path[at++]->opType != "Transpose" || !perm ||
        *perm != steps.perm)
      return false;
  }
  return at == steps.count() || origin.path[at]->opType == "Reshape";
}

/// Whether the steps make fewer copies than the chain, or as many in fewer
/// nodes.
bool SimplifyLayout::isWorthwhile(const LayoutOrigin &origin, const Value &end,
                                  const AxisFactors::Steps &steps) const {
  const unsigned before = chainCopies(*graph, origin, end);
  const bool isFree =
      origin.factors.isView() &&
      readersTake(*graph, end, origin.factors, ChainForm::Composed);
  if (isFree && before > 0)
    return true;
  // Else what else reads the chain needs its nodes too, and a Reshape of a part
  // may copy the part.
  for (const Node *node : llvm::ArrayRef(origin.path).drop_back())
    if (node->result()->users().size() != 1 || graph->isOutput(node->result()))
      return false;
  const unsigned after = isFree ? 0 : 1;
  return (isFree || origin.factors.root().isContiguous()) &&
         (after < before ||
          (after == before && steps.count() < origin.path.size()));
}

static bool isChainEnd(const Graph &graph, const Value &value) {
  return graph.isOutput(&value) ||
         llvm::any_of(value.users(), [&](const Node *reader) {
           return !AxisFactors::isLayoutNode(*reader) ||
                  !readsFirst(*reader, value);
         });
}

/// A chain that ends in this node -> its shortest form.
llvm::Error SimplifyLayout::shorten(Node &last) {
  if (!AxisFactors::isLayoutNode(last))
    return llvm::Error::success();
  Value *end = last.result();
  std::optional<LayoutOrigin> origin = layoutOrigin(end);
  if (!isChainEnd(*graph, *end) || !origin || origin->root->isConstant() ||
      llvm::none_of(origin->path, [](const Node *node) {
        return node->opType == "Transpose";
      }))
    return llvm::Error::success();
  auto steps = origin->factors.steps();
  if (!steps || isMadeOf(*origin, *steps) ||
      !isWorthwhile(*origin, *end, *steps) ||
      (steps->count() == 0 && graph->isOutput(end)))
    return llvm::Error::success();
  const std::string node = last.name().str(), name = end->name().str();
  llvm::Expected<Value *> made =
      builder->build(origin->root, *steps, end->type, &last, {node, name});
  if (!made)
    return made.takeError();
  graph->replaceAllUses(end, *made);
  eraseUnread(end);
  if (*made != origin->root) {
    graph->renameNode((*made)->definingNode(), node);
    graph->renameValue(*made, name);
  }
  changed("shortened");
  return llvm::Error::success();
}

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(SimplifyLayout)
