// Brings a classified graph into the shape that the planner reads.
//
// In:  form Imported; any order of nodes that is topological.
// Out: `queue=launch` on what the launching thread runs, these nodes in front
//      where they can be; nodes that depend on constants alone (views of
//      weights, dequantization) before their first reader.
// Not: any other order; what computes on feeds stays where the model has it.
// How: exporters put such nodes anywhere, often all at the top. One walk
//      against the order gives each the place of its first reader, so chains
//      sink whole; sorting by place keeps the order topological.

#include "offload/Analysis/PrepareForPlan.h"

#include "offload/Analysis/LaunchValues.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace offload {
namespace {

/// Nodes on compute whose operands are constants or made of constants.
llvm::DenseSet<const Node *> constantNodes(const Graph &graph) {
  llvm::DenseSet<const Node *> found;
  for (const Node &node : graph.nodeList()) {
    if (node.queue() != Queue::Compute || node.operands().empty())
      continue;
    if (llvm::all_of(node.operands(), [&](const Value *operand) {
          return !operand || operand->isConstant() ||
                 found.contains(operand->definingNode());
        }))
      found.insert(&node);
  }
  return found;
}

void sinkConstantNodes(Graph &graph) {
  const llvm::DenseSet<const Node *> sinking = constantNodes(graph);
  if (sinking.empty())
    return;
  struct Place {
    size_t anchor; // place of the reader that the node goes before
    bool stays;    // a reader comes after all that go before it
    size_t index;  // nodes that go before one reader keep their order
    bool operator<(const Place &other) const {
      return std::tie(anchor, stays, index) <
             std::tie(other.anchor, other.stays, other.index);
    }
  };
  llvm::DenseMap<const Node *, size_t> anchors;
  std::vector<std::pair<Place, Node *>> order;
  for (Node &node : graph.nodeList()) {
    anchors[&node] = order.size();
    order.push_back({{order.size(), true, order.size()}, &node});
  }
  for (auto &[place, node] : llvm::reverse(order)) {
    if (!sinking.contains(node))
      continue;
    size_t anchor = SIZE_MAX;
    for (const Value *result : node->results())
      for (Node *user : result ? result->users() : llvm::ArrayRef<Node *>())
        anchor = std::min(anchor, anchors[user]);
    if (anchor == SIZE_MAX)
      continue;
    place.anchor = anchors[node] = anchor;
    place.stays = false;
  }
  llvm::sort(order,
             [](const auto &a, const auto &b) { return a.first < b.first; });
  for (auto &[place, node] : order)
    graph.moveBefore(node, nullptr);
}

/// Launch nodes that need nothing of a compute node, not even a shape, go to
/// the front: what they make can then be staged when the step starts.
void hoistLaunchNodes(Graph &graph) {
  llvm::DenseSet<const Node *> early;
  llvm::SmallVector<Node *> front, rest;
  for (Node &node : graph.nodeList()) {
    bool isEarly = node.queue() == Queue::Launch &&
                   llvm::all_of(node.operands(), [&](const Value *operand) {
                     return !operand || !operand->definingNode() ||
                            early.contains(operand->definingNode());
                   });
    if (isEarly)
      early.insert(&node);
    (isEarly ? front : rest).push_back(&node);
  }
  for (Node *node : front)
    graph.moveBefore(node, nullptr);
  for (Node *node : rest)
    graph.moveBefore(node, nullptr);
}

} // namespace

llvm::Error prepareForPlan(Graph &graph) {
  if (llvm::Error error = markLaunchNodes(graph))
    return error;
  hoistLaunchNodes(graph);
  sinkConstantNodes(graph);
  return llvm::Error::success();
}

} // namespace offload
