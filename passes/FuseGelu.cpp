// Makes one Gelu of the operators that an exporter writes it out as.
//
// In:  form Imported.
// Out: Gelu (x) for 0.5 * x * (1 + erf(x / sqrt(2))), and Gelu with
//      `approximate=tanh` for
//      0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). It has the
//      name and the result of the last node. Constants that only went into it
//      go, too, and so cannot be replaced between runs.
// Not: where a value on the way has another reader or is an output; a model of
//      an opset below 20, which has no Gelu and stays as it is (no opset is
//      raised); other ways to compute about the same, as with a sigmoid; how
//      Gelu computes (Runtime/Kernels).
// How: one walk over products. A product is taken apart into its factors, so
//      the order and the grouping of a multiplication do not matter, nor
//      whether it divides by a constant or has a power for a repeated factor.
//      A constant counts as the number that it is within the rounding of its
//      type. Gelu is an operator of ONNX and the new graph a plain model that
//      computes the same, so strip leaves it.

#include "offload/Analysis/UnreadConstants.h"
#include "offload/PassManager/Pass.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace offload {
namespace {

bool isStandard(const Node &node, llvm::StringRef opType) {
  return node.domain.empty() && node.opType == opType;
}

/// How far a constant may be from the number it stands for, relatively: half a
/// step of a 16-bit type, to which exporters round once; a whole step of the
/// wider ones, in which they also compute it.
double roundingOf(DataType type) {
  switch (type) {
  case DataType::BFloat16:
    return 0x1p-8;
  case DataType::Float16:
    return 0x1p-11;
  case DataType::Float:
    return 0x1p-23;
  default:
    return 0x1p-52;
  }
}

/// What a tree of multiplications multiplies.
struct Product {
  std::optional<double> constant;
  llvm::SmallVector<Value *, 3> factors;
};

/// Whether one node makes a Gelu, and of what.
class GeluMatch {
public:
  GeluMatch(const Graph &graph, Node &last) : graph(graph), last(last) {}

  /// False: the rest says nothing.
  bool find() {
    Product whole;
    if (!last.result() || !isProduct(last) || !addProduct(last, whole) ||
        whole.factors.size() != 2)
      return false;
    const size_t before = nodes.size();
    for (unsigned i : {0u, 1u}) {
      x = whole.factors[i];
      nodes.resize(before);
      if (isSupported() && is(whole.constant, 0.5) &&
          isOnePlusCurve(whole.factors[1 - i]) && constantsFit())
        return true;
    }
    return false;
  }

  Value *x = nullptr;
  bool isTanh = false;
  llvm::SmallVector<Node *, 8> nodes; // readers before what they read

private:
  bool isSupported() const {
    return x && x->type.hasRank &&
           operatorInfo(Op::Gelu).supportsType(x->type.elem);
  }

  bool is(std::optional<double> constant, double number) const {
    return constant && std::abs(*constant - number) <=
                           roundingOf(x->type.elem) * std::abs(number);
  }

  /// A constant of more dimensions than x would give the result as many.
  bool constantsFit() const {
    for (const Node *node : nodes)
      for (const Value *operand : node->operands())
        if (literal(operand) && operand->type.dims.size() > x->type.dims.size())
          return false;
    return true;
  }

  /// The number that a constant of one element is.
  static std::optional<double> literal(const Value *value) {
    if (!value || !value->isConstant() || elementBits(value->type.elem) < 8 ||
        value->data.sizeBytes() != packedBytes(value->type.elem, 1))
      return std::nullopt;
    llvm::ArrayRef<uint8_t> bytes = value->data.bytes();
    HostValue number = HostValue::fromBytes(value->type.elem, {},
                                            {bytes.data(), bytes.size()});
    return number.isReal() ? number.reals[0] : double(number.ints[0]);
  }

  /// The node that makes a value which goes with the pattern.
  Node *innerNode(const Value *value) const {
    return value && value->users().size() == 1 && !graph.isOutput(value)
               ? value->definingNode()
               : nullptr;
  }

  Node *innerNode(const Value *value, llvm::StringRef opType) {
    Node *node = innerNode(value);
    if (!node || !isStandard(*node, opType))
      return nullptr;
    nodes.push_back(node);
    return node;
  }

  static bool isProduct(const Node &node) {
    return isStandard(node, "Mul") ||
           (isStandard(node, "Div") && literal(node.operand(1)).value_or(0)) ||
           (isStandard(node, "Pow") && literal(node.operand(1)) == 3.0);
  }

  /// False: there is more than one constant.
  bool addProduct(Node &node, Product &product) {
    nodes.push_back(&node);
    if (node.opType == "Pow") {
      product.factors.append(3, node.operand(0));
      return true;
    }
    if (node.opType == "Div")
      return addConstant(1 / *literal(node.operand(1)), product) &&
             addFactor(node.operand(0), product);
    return addFactor(node.operand(0), product) &&
           addFactor(node.operand(1), product);
  }

  bool addFactor(Value *value, Product &product) {
    if (std::optional<double> number = literal(value))
      return addConstant(*number, product);
    Node *node = innerNode(value);
    if (node && isProduct(*node))
      return addProduct(*node, product);
    product.factors.push_back(value);
    return true;
  }

  static bool addConstant(double number, Product &product) {
    if (product.constant)
      return false;
    product.constant = number;
    return true;
  }

  /// The factors of number * factor * ..., of which there are `count`; none
  /// where it is something else.
  llvm::SmallVector<Value *, 3> factorsOf(const Value *value, double number,
                                          size_t count) {
    Node *node = innerNode(value);
    Product product;
    if (!node || !isProduct(*node) || !addProduct(*node, product) ||
        !is(product.constant, number) || product.factors.size() != count)
      return {};
    return product.factors;
  }

  /// 1 + erf(x / sqrt(2)), or 1 + tanh(...)
  bool isOnePlusCurve(const Value *value) {
    Node *sum = innerNode(value, "Add");
    if (!sum)
      return false;
    for (unsigned i : {0u, 1u}) {
      if (!is(literal(sum->operand(i)), 1))
        continue;
      const Value *curve = sum->operand(1 - i);
      isTanh = false;
      if (Node *erf = innerNode(curve, "Erf"))
        return isErfArgument(erf->operand(0));
      isTanh = true;
      if (Node *tanh = innerNode(curve, "Tanh"))
        return isTanhArgument(tanh->operand(0));
    }
    return false;
  }

  /// x / sqrt(2)
  bool isErfArgument(const Value *value) {
    auto factors = factorsOf(value, 1 / std::numbers::sqrt2, 1);
    return !factors.empty() && factors[0] == x;
  }

  /// sqrt(2 / pi) * (x + 0.044715 * x^3)
  bool isTanhArgument(const Value *value) {
    auto factors = factorsOf(value, std::sqrt(2 * std::numbers::inv_pi), 1);
    Node *sum = factors.empty() ? nullptr : innerNode(factors[0], "Add");
    if (!sum)
      return false;
    for (unsigned i : {0u, 1u}) {
      if (sum->operand(i) != x)
        continue;
      auto cube = factorsOf(sum->operand(1 - i), 0.044715, 3);
      return !cube.empty() &&
             llvm::all_of(cube, [&](Value *factor) { return factor == x; });
    }
    return false;
  }

  const Graph &graph;
  Node &last;
};

class FuseGelu : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    auto opset = graph.opsets.find("");
    const OperatorInfo *info =
        opset == graph.opsets.end()
            ? nullptr
            : findOperatorAtOpset("", "Gelu", opset->second, &since);
    if (!info)
      return llvm::Error::success();
    auto &nodes = graph.nodeList();
    for (auto it = nodes.begin(); it != nodes.end();) {
      Node &last = *it++; // fusing erases it, and others before it
      GeluMatch match(graph, last);
      if (!match.find())
        continue;
      fuse(graph, last, match, *info);
      count(match.isTanh ? "tanh" : "erf");
    }
    return llvm::Error::success();
  }

private:
  void fuse(Graph &graph, Node &last, const GeluMatch &match,
            const OperatorInfo &info) const {
    Value *result = last.result();
    const std::string name = last.name().str(), made = result->name().str();
    Node *gelu = graph.addNode(graph.uniqueNodeName(name), "", "Gelu",
                               {match.x}, {graph.uniqueValueName(made)}, &last);
    gelu->info = &info;
    gelu->sinceVersion = since;
    if (match.isTanh)
      gelu->attributes["approximate"] = std::string("tanh");
    gelu->result()->type = result->type;
    gelu->result()->properties = result->properties;
    graph.replaceAllUses(result, gelu->result());
    eraseNodes(graph, match.nodes);
    graph.renameNode(gelu, name);
    graph.renameValue(gelu->result(), made);
  }

  static void eraseNodes(Graph &graph, llvm::ArrayRef<Node *> nodes) {
    llvm::SmallVector<Value *> constants;
    for (Node *node : nodes) {
      for (Value *operand : node->operands())
        if (operand && operand->isConstant() &&
            !llvm::is_contained(constants, operand))
          constants.push_back(operand);
      graph.eraseNode(node);
    }
    eraseUnreadConstants(graph, constants);
  }

  int since = 1;
};

} // namespace
} // namespace offload

OFFLOAD_DEFINE_PASS(FuseGelu)
