// Finds the nodes that run on the launching thread before a step.
//
// In:  a graph with rows and types; launch operands as the rows mark them.
// Out: the set of launch nodes, or which launch operand depends on the device.
// Not: evaluating them (OffFormat/ShapeArithmetic).
// How: one walk in order says which results could be known; one walk against
//      the order takes those that a launch operand or a lookup on the host
//      demands; last, small arithmetic whose operands are known anyway joins
//      them. A weight never does: what depends on constants alone stays with
//      the node that reads it.

#include "offload/Analysis/LaunchValues.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {
namespace {

bool isSmall(const Value &value, int64_t limitBytes) {
  return value.type.isBounded() && value.type.bytesAtBound() <= limitBytes;
}

/// Scalars such as the root of a head's size, made from shapes, are arithmetic
/// of floats that the launching thread does as well; tensors of data are not.
constexpr int64_t kSmallFloatBytes = 256;

/// Gather on axis 0 of a constant: where its indices are known, the rows may be
/// looked up on the host.
bool isTableLookup(const Node &node) {
  if (!node.domain.empty() || node.opType != "Gather" ||
      intAttribute(node.attributes, "axis", 0) != 0)
    return false;
  const Value *table = node.operand(0);
  return table && table->isConstant() && node.operand(1);
}

class Finder {
public:
  explicit Finder(const Graph &graph) : graph(graph) {}

  llvm::Error run(llvm::DenseSet<const Node *> &launch) {
    for (const Node &node : graph.nodeList())
      if (couldBeKnown(node))
        possible.insert(&node);
    if (llvm::Error error = takeDemanded(launch))
      return error;
    takeSmall(launch);
    return llvm::Error::success();
  }

private:
  /// A caller or a constant gives the value before the step.
  bool isGiven(const Value *value) const {
    if (value->definingNode())
      return false;
    return !graph.states.contains(value->name().str());
  }

  bool isPossible(const Value *value) const {
    const Node *maker = value->definingNode();
    return maker ? possible.contains(maker) : isGiven(value);
  }

  bool couldBeKnown(const Node &node) const {
    if (!node.info || !node.info->shapeArithmetic || !node.domain.empty())
      return false;
    if (node.properties.has("queue") && node.queue() != Queue::Launch)
      return false;
    if (needsShapeOnly(node))
      return true;
    return llvm::all_of(node.operands(), [&](const Value *operand) {
      return !operand || isPossible(operand);
    });
  }

  /// The launch operands of nodes that do not run on the launching thread, and
  /// all that they are made of.
  llvm::Error takeDemanded(llvm::DenseSet<const Node *> &launch) {
    for (const Node &node : llvm::reverse(graph.nodeList())) {
      if (node.queue() == Queue::Launch)
        launch.insert(&node);
      if (demanded.contains(&node))
        launch.insert(&node);
      if (launch.contains(&node)) {
        if (llvm::Error error = demandOperands(node))
          return error;
        continue;
      }
      if (llvm::Error error = demandLaunchOperands(node))
        return error;
      if (isTableLookup(node) && isPossible(node.operand(1)))
        if (llvm::Error error = demand(node, 1))
          return error;
    }
    return llvm::Error::success();
  }

  llvm::Error demandOperands(const Node &node) {
    if (needsShapeOnly(node))
      return llvm::Error::success();
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (node.operand(i))
        if (llvm::Error error = demand(node, i))
          return error;
    return llvm::Error::success();
  }

  llvm::Error demandLaunchOperands(const Node &node) {
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (node.operand(i) && node.isLaunchOperand(i))
        if (llvm::Error error = demand(node, i))
          return error;
    return llvm::Error::success();
  }

  llvm::Error demand(const Node &node, unsigned index) {
    const Value *operand = node.operand(index);
    if (const Node *maker = operand->definingNode()) {
      if (possible.contains(maker)) {
        demanded.insert(maker);
        return llvm::Error::success();
      }
    } else if (isGiven(operand)) {
      return llvm::Error::success();
    }
    return makeError(
        "[" + node.name() + "] (" + node.opType + ") needs operand " +
        llvm::Twine(index) + ", '" + operand->name() +
        "', before the step starts, but it depends on " + origin(operand));
  }

  /// The node, walking up from a value, at which it stops to be known.
  std::string origin(const Value *value) const {
    while (const Node *maker = value->definingNode()) {
      const Value *next = nullptr;
      for (const Value *operand : maker->operands())
        if (operand && !isPossible(operand)) {
          next = operand;
          break;
        }
      if (!next || !maker->info || !maker->info->shapeArithmetic)
        return ("what the device computes at [" + maker->name() + "] (" +
                maker->opType + ")")
            .str();
      value = next;
    }
    return ("the state '" + value->name() + "'").str();
  }

  void takeSmall(llvm::DenseSet<const Node *> &launch) {
    llvm::DenseSet<const Node *> fromFeeds; // contents, not shapes
    llvm::DenseSet<const Node *> varying;   // from shapes or feeds
    for (const Node &node : graph.nodeList()) {
      if (!possible.contains(&node))
        continue;
      bool feeds = false, known = true, varies = needsShapeOnly(node);
      for (const Value *operand : node.operands()) {
        if (!operand || needsShapeOnly(node))
          continue;
        const Node *maker = operand->definingNode();
        known &= maker ? launch.contains(maker)
                       : isSmall(*operand, kSmallLaunchBytes);
        feeds |= maker ? fromFeeds.contains(maker) : operand->isGraphInput();
        varies |= maker ? varying.contains(maker) : operand->isGraphInput();
      }
      if (feeds)
        fromFeeds.insert(&node);
      if (varies)
        varying.insert(&node);
      if (known && varies &&
          llvm::all_of(node.results(), [&](const Value *result) {
            return !result || resultIsSmall(*result, feeds);
          }))
        launch.insert(&node);
    }
  }

  static bool resultIsSmall(const Value &result, bool feeds) {
    if (isIntegral(result.type.elem))
      return isSmall(result, kSmallLaunchBytes);
    return !feeds && isFloating(result.type.elem) &&
           isSmall(result, kSmallFloatBytes);
  }

  const Graph &graph;
  llvm::DenseSet<const Node *> possible, demanded;
};

} // namespace

bool needsShapeOnly(const Node &node) {
  return node.domain.empty() &&
         (node.opType == "Shape" || node.opType == "Size");
}

llvm::Expected<LaunchValues> LaunchValues::compute(const Graph &graph) {
  LaunchValues result(graph);
  if (llvm::Error error = Finder(graph).run(result.launch))
    return error;
  return result;
}

bool LaunchValues::isKnown(const Value *value) const {
  if (const Node *maker = value->definingNode())
    return launch.contains(maker);
  return !graph->states.contains(value->name().str());
}

llvm::Error markLaunchNodes(Graph &graph) {
  llvm::Expected<LaunchValues> values = LaunchValues::compute(graph);
  if (!values)
    return values.takeError();
  for (Node &node : graph.nodeList())
    if (values->isLaunch(&node) && node.queue() != Queue::Launch)
      node.properties.set("queue", queueName(Queue::Launch));
  return llvm::Error::success();
}

} // namespace offload
