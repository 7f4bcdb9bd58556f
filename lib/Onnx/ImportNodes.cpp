// Names and orders a model's nodes before they become the graph's.
//
// In:  nodes as the model lists them; the graph's inputs and initializers.
// Out: unique names; an order in which each node follows what it reads.
// Not: what the nodes are (ImportGraph).
// How: Kahn's algorithm with a heap of places in the given order, so a sorted
//      model keeps its order. What is left over stands on a cycle or behind
//      one; walking from makers to makers within it ends on a cycle.

#include "ImportNodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <queue>

namespace offload {

std::string nodeLabel(const onnx::NodeProto &node) {
  if (!node.name().empty())
    return "[" + node.name() + "]";
  std::string of = node.output().empty() ? "" : " of '" + node.output(0) + "'";
  return "[" + node.op_type() + of + "]";
}

/// A stem for a nameless node: "gemm_y".
static std::string nameStem(const onnx::NodeProto &node) {
  std::string stem = llvm::StringRef(node.op_type()).lower();
  for (const std::string &output : node.output())
    if (!output.empty())
      return stem + "_" + output;
  return stem;
}

void nameNodes(std::vector<onnx::NodeProto *> &nodes) {
  llvm::StringSet<> taken;
  std::vector<onnx::NodeProto *> unnamed;
  for (onnx::NodeProto *node : nodes)
    if (node->name().empty() || !taken.insert(node->name()).second)
      unnamed.push_back(node);
  for (onnx::NodeProto *node : unnamed) {
    std::string stem = node->name().empty() ? nameStem(*node) : node->name();
    std::string name = stem;
    for (unsigned i = 2; !taken.insert(name).second; ++i)
      name = stem + "_" + std::to_string(i);
    node->set_name(name);
  }
}

namespace {

class NodeSorter {
public:
  NodeSorter(const Graph &graph, std::vector<onnx::NodeProto *> &nodes)
      : graph(graph), nodes(nodes), waitsFor(nodes.size()),
        readers(nodes.size()) {}

  llvm::Error run(bool keepOrder) {
    if (llvm::Error error = findMakers(keepOrder))
      return error;
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (waitsFor[i] == 0)
        ready.push(i);
    std::vector<onnx::NodeProto *> order;
    while (!ready.empty()) {
      size_t node = ready.top();
      ready.pop();
      order.push_back(nodes[node]);
      for (size_t reader : readers[node])
        if (--waitsFor[reader] == 0)
          ready.push(reader);
    }
    if (order.size() < nodes.size())
      return cycleError();
    nodes = std::move(order);
    return llvm::Error::success();
  }

private:
  llvm::Error findMakers(bool keepOrder) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string &output : nodes[i]->output())
        makers[output] = i;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string &input : nodes[i]->input()) {
        if (input.empty() || graph.findValue(input))
          continue;
        auto maker = makers.find(input);
        if (maker == makers.end())
          return makeError(nodeLabel(*nodes[i]) + " reads '" + input +
                           "', which nothing makes");
        if (keepOrder && maker->second >= i)
          return makeError(nodeLabel(*nodes[i]) + " reads '" + input +
                           "' before " + nodeLabel(*nodes[maker->second]) +
                           " makes it");
        ++waitsFor[i];
        readers[maker->second].push_back(i);
      }
    return llvm::Error::success();
  }

  /// Names a node on a cycle and the value by which it waits for the next one.
  llvm::Error cycleError() {
    size_t node = 0;
    while (waitsFor[node] == 0)
      ++node;
    // After as many steps as there are nodes the walk is on a cycle for sure.
    for (size_t step = 0; step < nodes.size(); ++step)
      node = makers[*blockingInput(node)];
    const std::string &input = *blockingInput(node);
    return makeError(nodeLabel(*nodes[node]) +
                     " is part of a cycle: it reads '" + input + "' of " +
                     nodeLabel(*nodes[makers[input]]) +
                     ", which needs its result");
  }

  /// An input whose maker was not placed either.
  const std::string *blockingInput(size_t node) {
    for (const std::string &input : nodes[node]->input()) {
      auto maker = makers.find(input);
      if (!input.empty() && !graph.findValue(input) && maker != makers.end() &&
          waitsFor[maker->second] > 0)
        return &input;
    }
    llvm_unreachable("a node that was not placed waits for another");
  }

  const Graph &graph;
  std::vector<onnx::NodeProto *> &nodes;
  llvm::StringMap<size_t> makers;
  std::vector<unsigned> waitsFor;
  std::vector<std::vector<size_t>> readers;
};

} // namespace

llvm::Error orderNodes(const Graph &graph,
                       std::vector<onnx::NodeProto *> &nodes, bool keepOrder) {
  return NodeSorter(graph, nodes).run(keepOrder);
}

} // namespace offload
