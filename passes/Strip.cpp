// Gives the plain model back.
//
// In:  any form.
// Out: form Imported, as the importer makes it: no copies, no waits, no tokens,
//      no decisions. Planning the result anew with the same options gives the
//      same file.
// Not: training. Updates and the states of weights are the model's meaning and
//      stay; so do sizes that the user fixed or bounded (`offload.dims`). So
//      does a Gelu that fuse-gelu made, and axes stay where simplify-layout
//      moved them: both are as plain, and compute the same.
// How: a copy and a Wait mean their operand, so their readers read that one.
//      Where a copy was an output of the graph, the operand takes its name.
//      A fused product becomes the two nodes again that it was made of.
//      Release and Join then have no reader left but states that only carry
//      order; these go with their input and output.

#include "offload/IR/StandardNode.h"
#include "offload/PassManager/Pass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace offload {

namespace {

/// Whether results are the first operands, as many as there are results.
bool isCopy(const Node &node) {
  return node.isOffload("Stage") || node.isOffload("Wait") ||
         node.isOffload("GradTransfer") || node.isOffload("Fetch");
}

bool isToken(const Node &node) {
  return node.isOffload("Release") || node.isOffload("Join");
}

/// Whether the node reads its operand `i` for its order alone.
bool readsForOrder(const Node &node, unsigned i) {
  return isToken(node) || (isCopy(node) && i >= node.results().size());
}

bool isReadForOrderOnly(const Value &value) {
  for (const Node *user : value.users())
    for (unsigned i = 0; i < user->operands().size(); ++i)
      if (user->operand(i) == &value && !readsForOrder(*user, i))
        return false;
  return !value.users().empty();
}

class Strip : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    removeTokenStates(graph);
    if (llvm::Error error = bypassCopies(graph))
      return error;
    if (llvm::Error error = eraseNodes(graph))
      return error;
    for (Value *input : tokenInputs)
      graph.eraseValue(input);
    if (llvm::Error error = splitLinears(graph))
      return error;
    eraseDecisions(graph);
    return llvm::Error::success();
  }

private:
  /// A state that carries order across the border of steps, and nothing else.
  void removeTokenStates(Graph &graph) {
    llvm::SmallVector<std::string, 2> names;
    for (const auto &[input, output] : graph.states) {
      const Value *in = graph.findValue(input), *out = graph.findValue(output);
      if (in && out &&
          (isReadForOrderOnly(*in) ||
           (out->definingNode() && isToken(*out->definingNode()))))
        names.push_back(input);
    }
    for (const std::string &name : names) {
      graph.removeOutput(graph.findValue(graph.states[name]));
      graph.states.erase(name);
      tokenInputs.push_back(graph.findValue(name));
    }
  }

  llvm::Error bypassCopies(Graph &graph) {
    for (Node &node : graph.nodeList()) {
      if (!isCopy(node))
        continue;
      for (unsigned i = 0; i < node.results().size(); ++i) {
        if (!node.result(i))
          continue;
        Value *source = node.operand(i);
        if (!source)
          return makeError("[" + node.name() + "] copies nothing to '" +
                           node.result(i)->name() + "'");
        if (llvm::Error error = bypass(graph, node, i, source))
          return error;
      }
    }
    return llvm::Error::success();
  }

  /// Readers of result `i` read `source` from now on.
  llvm::Error bypass(Graph &graph, Node &node, unsigned i, Value *source) {
    Value *result = node.result(i);
    bool wasOutput = graph.isOutput(result);
    if (wasOutput && (!source->definingNode() || graph.isOutput(source)))
      return keepAsIdentity(graph, node, result, source);
    graph.replaceAllUses(result, source);
    if (source->type.elem == DataType::Undefined)
      source->type = result->type;
    if (wasOutput)
      outputNames.push_back({source, result->name().str()});
    return llvm::Error::success();
  }

  /// An output that is an input, a constant or another output under a second
  /// name: two names need a node between them.
  llvm::Error keepAsIdentity(Graph &graph, Node &node, Value *result,
                             Value *source) {
    llvm::Expected<Node *> made = addStandardNode(
        graph, "Identity", graph.uniqueNodeName(result->name()), {source},
        graph.uniqueValueName(result->name()), result->type, &node);
    if (!made)
      return made.takeError();
    Value *second = (*made)->result();
    graph.replaceAllUses(result, second);
    outputNames.push_back({second, result->name().str()});
    return llvm::Error::success();
  }

  llvm::Error eraseNodes(Graph &graph) {
    llvm::SmallVector<Node *> gone;
    for (Node &node : graph.nodeList())
      if (isCopy(node) || isToken(node))
        gone.push_back(&node);
    // Readers before what they read.
    for (Node *node : llvm::reverse(gone)) {
      for (Value *result : node->results())
        if (result && !result->users().empty())
          return makeError("[" + result->users().front()->name() +
                           "] computes with '" + result->name() +
                           "', which only carries order");
        else if (result && graph.isOutput(result))
          return makeError("output '" + result->name() +
                           "' only carries order, and is no state's next "
                           "value");
      graph.eraseNode(node);
    }
    count("removed", gone.size());
    for (auto &[value, name] : outputNames)
      graph.renameValue(value, name);
    return llvm::Error::success();
  }

  llvm::Error splitLinears(Graph &graph) {
    auto &nodes = graph.nodeList();
    for (auto it = nodes.begin(); it != nodes.end();) {
      Node &node = *it++;
      if (!node.isOffload("Linear"))
        continue;
      if (llvm::Error error = splitLinear(graph, node))
        return error;
      count("split");
    }
    return llvm::Error::success();
  }

  /// What fuse-linear made one node of, under the names that were before.
  static llvm::Error splitLinear(Graph &graph, Node &node) {
    const std::string name = node.name().str();
    const std::string made = node.result()->name().str();
    std::vector<std::string> before = node.properties.getList("fused");
    const bool biasFirst = before.size() > 2;
    before.resize(2);
    for (std::string &part : before)
      if (part.empty())
        part = name + "_bias";
    const TensorType &type = node.result()->type;
    llvm::Expected<Node *> matmul =
        addStandardNode(graph, "MatMul", graph.uniqueNodeName(name),
                        {node.operand(0), node.operand(1)},
                        graph.uniqueValueName(before[1]), type, &node);
    if (!matmul)
      return matmul.takeError();
    llvm::SmallVector<Value *, 2> terms = {(*matmul)->result(),
                                           node.operand(2)};
    if (biasFirst)
      std::swap(terms[0], terms[1]);
    llvm::Expected<Node *> sum =
        addStandardNode(graph, "Add", graph.uniqueNodeName(before[0]), terms,
                        graph.uniqueValueName(made), type, &node);
    if (!sum)
      return sum.takeError();
    graph.replaceAllUses(node.result(), (*sum)->result());
    graph.eraseNode(&node);
    graph.renameNode(*matmul, name);
    graph.renameValue((*sum)->result(), made);
    return llvm::Error::success();
  }

  static void eraseDecisions(Graph &graph) {
    auto clear = [](Value *value) {
      if (value)
        value->properties = {};
    };
    for (Node &node : graph.nodeList()) {
      node.properties = {};
      llvm::for_each(node.results(), clear);
    }
    llvm::for_each(graph.inputs(), clear);
    llvm::for_each(graph.initializers(), clear);
    graph.inserts.clear();
    graph.plannedValues.clear();
    std::erase_if(graph.modelProperties, [](const auto &property) {
      std::string_view key = property.first;
      return key.starts_with(kPropertyPrefix) && key != kDimsKey;
    });
    if (llvm::none_of(graph.nodeList(), [](const Node &node) {
          return node.domain == "offload";
        }))
      graph.opsets.erase("offload");
    graph.form = Form::Imported;
    graph.planIsStale = false;
  }

  llvm::SmallVector<Value *, 2> tokenInputs;
  /// Values that become outputs of the graph, under these names.
  llvm::SmallVector<std::pair<Value *, std::string>, 8> outputNames;
};

} // namespace

} // namespace offload

OFFLOAD_DEFINE_PASS(Strip)
