// Removes copies of activations whose axes are moved about.
//
// In:  form Imported, products fused with their bias.
// Out: the same values with fewer copies: a chain of Reshape, Transpose,
//      Squeeze, Unsqueeze and Flatten in its shortest form; a Transpose of rows
//      behind the product (Linear, MatMul by a matrix, Gemm) that it stood
//      before; an Attention of four dimensions in the form of three, which
//      reads and writes [batch, sequence, heads * size]. The operators are
//      ONNX's own and every result keeps its bits. Nodes and values that stay
//      keep their names.
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

#include "offload/Analysis/LayoutChains.h"
#include "offload/IR/StandardNode.h"
#include "offload/PassManager/Pass.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace offload {
namespace {

using Term = AxisFactors::Term;

constexpr int64_t kSwapHeads[] = {0, 2, 1, 3}; // [batch, heads, sequence, size]

/// Adds chains to a graph.
class ChainBuilder {
public:
  explicit ChainBuilder(Graph &graph) : graph(graph) {
    for (const Value *input : graph.inputs())
      learn(input->type);
    for (const Node &node : graph.nodeList())
      for (const Value *result : node.results())
        if (result)
          learn(result->type);
  }

  /// A value of `type` made of `root`, before `before`; the root itself where
  /// there is nothing to do and it need not be a node's. Nodes and values are
  /// called after the stems.
  llvm::Expected<Value *> build(Value *root, const AxisFactors::Steps &steps,
                                const TensorType &type, Node *before,
                                llvm::StringRef nodeStem,
                                llvm::StringRef valueStem) {
    stems = {nodeStem.str(), valueStem.str()};
    Value *value = root;
    llvm::Error error = llvm::Error::success();
    auto add = [&](llvm::StringRef op, const std::vector<int64_t> &numbers,
                   const TensorType &made) {
      if (error || numbers.empty())
        return;
      llvm::Expected<Value *> next =
          op == "Reshape" ? reshape(value, numbers, made, before)
                          : transpose(value, numbers, made, before);
      if (next)
        value = *next;
      else
        error = next.takeError();
    };
    add("Reshape", steps.split, typeOf(type.elem, steps.splitSizes));
    add("Transpose", steps.perm,
        steps.merge.empty() ? type : typeOf(type.elem, steps.permSizes));
    add("Reshape", steps.merge, type);
    if (error)
      return error;
    return value;
  }

  /// The size that a dimension of a value has.
  Dim dimOf(const Term &size) const {
    Dim dim{size.factor, ""};
    for (const std::string &name : size.names) {
      auto known = bounds.find(name);
      dim.bound = known == bounds.end() || dim.bound == Dim::kUnbound
                      ? Dim::kUnbound
                      : dim.bound * known->second;
      dim.name += (dim.name.empty() ? "" : "*") + name;
    }
    if (!size.names.empty() && size.factor != 1)
      dim.name = std::to_string(size.factor) + "*" + dim.name;
    return dim;
  }

private:
  void learn(const TensorType &type) {
    for (const Dim &dim : type.dims)
      if (!dim.name.empty() && dim.bound != Dim::kUnbound)
        bounds.insert({dim.name, dim.bound});
  }

  TensorType typeOf(DataType elem, llvm::ArrayRef<Term> sizes) const {
    TensorType type{elem, true, {}};
    for (const Term &size : sizes)
      type.dims.push_back(dimOf(size));
    return type;
  }

  llvm::Expected<Value *> add(llvm::StringRef op,
                              llvm::ArrayRef<Value *> operands,
                              const TensorType &type, Node *before) {
    llvm::Expected<Node *> node =
        addStandardNode(graph, op, graph.uniqueNodeName(stems.first), operands,
                        graph.uniqueValueName(stems.second), type, before);
    if (!node)
      return node.takeError();
    return (*node)->result();
  }

  llvm::Expected<Value *> reshape(Value *value,
                                  const std::vector<int64_t> &target,
                                  const TensorType &type, Node *before) {
    return add("Reshape", {value, shape(target)}, type, before);
  }

  llvm::Expected<Value *> transpose(Value *value,
                                    const std::vector<int64_t> &perm,
                                    const TensorType &type, Node *before) {
    llvm::Expected<Value *> made = add("Transpose", {value}, type, before);
    if (made)
      (*made)->definingNode()->attributes["perm"] = perm;
    return made;
  }

  /// One constant for all Reshapes to the same shape.
  Value *shape(const std::vector<int64_t> &target) {
    std::vector<uint8_t> bytes(target.size() * sizeof(int64_t));
    std::memcpy(bytes.data(), target.data(), bytes.size());
    auto known = shapes.find(target);
    const Value *value =
        known == shapes.end() ? nullptr : graph.findValue(known->second);
    // It went with its last reader, and another value may have its name.
    if (value && value->isConstant() &&
        value->data.bytes() == llvm::ArrayRef(bytes))
      return graph.findValue(known->second);
    TensorType type{DataType::Int64, true, {}};
    type.dims.push_back(Dim{static_cast<int64_t>(target.size()), ""});
    Value *made =
        graph.addInitializer(graph.uniqueValueName(stems.second + "_shape"),
                             type, TensorData::owned(std::move(bytes)));
    shapes[target] = made->name().str();
    return made;
  }

  Graph &graph;
  std::pair<std::string, std::string> stems; // of nodes, of values
  std::map<std::string, int64_t> bounds;     // of dimensions with a name
  std::map<std::vector<int64_t>, std::string> shapes;
};

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

  llvm::Error moveBehind(Node &product);
  llvm::Error flattenAttention(Node &attention);
  llvm::Error shorten(Node &last);
  bool isWorthwhile(const LayoutOrigin &origin, const Value &end,
                    const AxisFactors::Steps &steps) const;
  unsigned copiesOf(const LayoutOrigin &origin, const Value &end) const;
  std::optional<LayoutOrigin> flatOperand(Value *operand) const;
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
  llvm::Expected<Value *> made = builder->build(origin.root, steps, type, &node,
                                                node.name(), before->name());
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
      builder->build(result, steps, type, following, node.name(), name);
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

/// Product of transposed rows -> rows transposed behind the product.
llvm::Error SimplifyLayout::moveBehind(Node &product) {
  Value *rows = product.operand(0), *result = product.result();
  std::optional<LayoutOrigin> origin = layoutOrigin(rows);
  if (!origin || origin->root->isConstant() || !readsFirst(product, *rows) ||
      origin->root->type.dims.size() < 2 || origin->factors.hasRows() ||
      !origin->factors.keepsLast() || !origin->factors.root().hasRows() ||
      result->type.dims.size() != rows->type.dims.size())
    return llvm::Error::success();
  auto columns = AxisFactors::ofRoot(result->type);
  if (!columns)
    return llvm::Error::success();
  const bool flat = product.opType == "Gemm";
  const AxisFactors behind =
      origin->factors.withLast(columns->sizes().back(), flat);
  auto steps = behind.steps();
  auto before = flat ? origin->factors.root().reshaped(rows->type)
                     : origin->factors.root();
  auto stepsBefore = before ? before->steps() : std::nullopt;
  if (!steps || !stepsBefore || steps->count() == 0 ||
      !readersTake(*graph, *result, behind, ChainForm::Composed))
    return llvm::Error::success();
  TensorType type = origin->root->type;
  if (flat)
    type = result->type;
  else
    type.dims.back() = result->type.dims.back();
  type.elem = result->type.elem;
  if (llvm::Error error =
          setChain(product, 0, *origin, *stepsBefore, rows->type))
    return error;
  changed("moved");
  return makeBehind(product, type, *steps);
}

/// An operand of an attention as [batch, sequence, heads * size], where that is
/// no copy.
std::optional<LayoutOrigin> SimplifyLayout::flatOperand(Value *operand) const {
  if (!operand || operand->type.dims.size() != 4 ||
      !operand->type.dims[1].isStatic() || !operand->type.dims[3].isStatic())
    return std::nullopt;
  std::optional<LayoutOrigin> origin = layoutOrigin(operand);
  if (!origin || origin->root->isConstant())
    return std::nullopt;
  origin->factors = origin->factors.transposed(kSwapHeads)->merged(2);
  if (!origin->factors.isView() || !origin->factors.steps())
    return std::nullopt;
  return origin;
}

namespace {

/// [batch, heads, sequence, size] -> [batch, sequence, heads * size]
TensorType flatType(const TensorType &type) {
  TensorType flat = type;
  flat.dims = {type.dims[0], type.dims[2],
               Dim{type.dims[1].bound * type.dims[3].bound, ""}};
  return flat;
}

/// The type of [batch, sequence, heads, size].
TensorType byRows(const TensorType &type) {
  TensorType rows = type;
  std::swap(rows.dims[1], rows.dims[2]);
  return rows;
}

} // namespace

/// Attention between Transposes of heads -> attention of three dimensions.
llvm::Error SimplifyLayout::flattenAttention(Node &attention) {
  Value *result = attention.result();
  auto isAbsent = [](const Value *value) { return !value; };
  if (!result || result->type.dims.size() != 4 || attention.operand(4) ||
      attention.operand(5) ||
      !llvm::all_of(attention.results().drop_front(), isAbsent))
    return llvm::Error::success();
  llvm::SmallVector<LayoutOrigin, 3> origins;
  for (unsigned i = 0; i < 3; ++i)
    if (auto origin = flatOperand(attention.operand(i)))
      origins.push_back(std::move(*origin));
  const TensorType type = result->type;
  if (origins.size() != 3 || !type.dims[1].isStatic() ||
      !type.dims[3].isStatic())
    return llvm::Error::success();
  auto whole = AxisFactors::ofRoot(type);
  auto behind = AxisFactors::ofRoot(flatType(type));
  if (behind)
    behind = behind->reshaped(byRows(type));
  if (behind)
    behind = behind->transposed(kSwapHeads);
  auto steps = behind ? behind->steps() : std::nullopt;
  if (!whole || !steps ||
      readersTake(*graph, *result, *whole, ChainForm::Composed) ||
      !readersTake(*graph, *result, *behind, ChainForm::Composed))
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

/// Copies that the chain makes as it is, and the one that its end makes for
/// what reads it.
unsigned SimplifyLayout::copiesOf(const LayoutOrigin &origin,
                                  const Value &end) const {
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
  return copies + !readersTake(*graph, end, *factors, ChainForm::AsItIs);
}

bool SimplifyLayout::isWorthwhile(const LayoutOrigin &origin, const Value &end,
                                  const AxisFactors::Steps &steps) const {
  const bool isFree =
      steps.perm.empty() ||
      (origin.factors.isView() &&
       readersTake(*graph, end, origin.factors, ChainForm::Composed));
  const unsigned before = copiesOf(origin, end), after = isFree ? 0 : 1;
  const bool isAlone =
      llvm::all_of(llvm::ArrayRef(origin.path).drop_back(), [&](Node *node) {
        return node->result()->users().size() == 1 &&
               !graph->isOutput(node->result());
      });
  if (after < before)
    return isFree || isAlone;
  return after == before && isAlone && steps.count() < origin.path.size();
}

/// A chain that ends in this node -> its shortest form.
llvm::Error SimplifyLayout::shorten(Node &last) {
  if (!AxisFactors::isLayoutNode(last))
    return llvm::Error::success();
  Value *end = last.result();
  const bool isEnd =
      graph->isOutput(end) || llvm::any_of(end->users(), [&](Node *reader) {
        return !AxisFactors::isLayoutNode(*reader) ||
               !readsFirst(*reader, *end);
      });
  std::optional<LayoutOrigin> origin = layoutOrigin(end);
  if (!isEnd || !origin || origin->root->isConstant() ||
      llvm::none_of(origin->path,
                    [](Node *node) { return node->opType == "Transpose"; }))
    return llvm::Error::success();
  auto steps = origin->factors.steps();
  if (!steps || !isWorthwhile(*origin, *end, *steps) ||
      (steps->count() == 0 && graph->isOutput(end)))
    return llvm::Error::success();
  const std::string node = last.name().str(), name = end->name().str();
  llvm::Expected<Value *> made =
      builder->build(origin->root, *steps, end->type, &last, node, name);
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
