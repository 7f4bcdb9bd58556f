// States the first broken invariant of a graph.
//
// In:  a graph after an edit; a debug build asks after each pass.
// Out: nothing, or one error that names the node or value.
// Not: meaning, types, order between queues (passes/VerifySchedule).
// How: one walk over nodes in order; users are compared as counts.

#include "offload/IR/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace offload {

llvm::StringRef formName(Form form) {
  switch (form) {
  case Form::Imported:
    return "Imported";
  case Form::Planned:
    return "Planned";
  case Form::Scheduled:
    return "Scheduled";
  }
  llvm_unreachable("no such form");
}

std::optional<Form> parseForm(llvm::StringRef name) {
  for (Form form : {Form::Imported, Form::Planned, Form::Scheduled})
    if (formName(form) == name)
      return form;
  return std::nullopt;
}

namespace {

class GraphVerifier {
public:
  explicit GraphVerifier(const Graph &graph) : graph(graph) {}

  llvm::Error run() {
    for (const Value *input : graph.inputs())
      known.insert(input);
    for (const Value *constant : graph.initializers())
      known.insert(constant);
    for (const Node &node : graph.nodeList())
      if (llvm::Error error = checkNode(node))
        return error;
    if (llvm::Error error = checkUsers())
      return error;
    for (const Value *output : graph.outputs())
      if (!known.contains(output))
        return makeError("an output of the graph is made by no node");
    if (llvm::Error error = checkStates())
      return error;
    return checkInserts();
  }

private:
  llvm::Error checkNode(const Node &node) {
    if (graph.findNode(node.name()) != &node)
      return makeError("[" + node.name() + "] has a name that is not its own");
    for (const Value *operand : node.operands()) {
      if (!operand)
        continue;
      if (!known.contains(operand))
        return makeError("[" + node.name() + "] reads '" + operand->name() +
                         "' before it is made");
      ++reads[{&node, operand}];
      ordered.push_back({&node, operand});
    }
    for (unsigned i = 0; i < node.results().size(); ++i) {
      const Value *result = node.result(i);
      if (!result)
        continue;
      if (graph.findValue(result->name()) != result)
        return makeError("'" + result->name() +
                         "' has a name that is not its own");
      if (result->definingNode() != &node || result->resultIndex() != i)
        return makeError("[" + node.name() + "] and its result '" +
                         result->name() + "' do not name each other");
      known.insert(result);
    }
    return llvm::Error::success();
  }

  /// Every read is in the operand's user list, and there is nothing else.
  llvm::Error checkUsers() {
    size_t listed = 0;
    for (auto &[node, value] : ordered) {
      unsigned count = llvm::count(value->users(), node);
      if (count != reads[{node, value}])
        return makeError("[" + node->name() + "] reads '" + value->name() +
                         "' " + llvm::Twine(reads[{node, value}]) +
                         " times, its user list says " + llvm::Twine(count));
    }
    for (const Value *value : known)
      listed += value->users().size();
    if (listed != ordered.size())
      return makeError("a user list names a node that does not read the value");
    return llvm::Error::success();
  }

  llvm::Error checkStates() {
    llvm::StringSet<> outputs;
    for (const auto &[input, output] : graph.states) {
      const Value *in = graph.findValue(input);
      const Value *out = graph.findValue(output);
      if (!in || !in->isGraphInput())
        return makeError("state '" + input + "' is no input of the graph");
      if (!out || !graph.isOutput(out))
        return makeError("state '" + input + "' has the next value '" + output +
                         "', which is no output of the graph");
      if (!outputs.insert(output).second)
        return makeError("output '" + output +
                         "' is the next value of two "
                         "states");
    }
    return llvm::Error::success();
  }

  llvm::Error checkInserts() {
    for (const auto &[name, properties] : graph.inserts) {
      if (graph.findNode(name))
        return makeError("[" + name +
                         "] is still to be inserted, and is a "
                         "node already");
      std::string before(properties.get("before"));
      if (!before.empty() && !graph.findNode(before) &&
          !graph.inserts.contains(before))
        return makeError("insert '" + name + "' goes before '" + before +
                         "', which is no node");
    }
    return llvm::Error::success();
  }

  const Graph &graph;
  llvm::DenseSet<const Value *> known;
  llvm::DenseMap<std::pair<const Node *, const Value *>, unsigned> reads;
  std::vector<std::pair<const Node *, const Value *>> ordered;
};

} // namespace

llvm::Error Graph::verify() const { return GraphVerifier(*this).run(); }

} // namespace offload
