// Nodes, values and their links: every edit keeps names and users right.
//
// In:  edits by the importer and by passes.
// Out: a graph whose invariants `verify` can state at any time.
// Not: meaning of operators (OffFormat/Operators), types (Onnx/InferTypes).
// How: nodes lie in a list, so that a pass may insert beside the node it looks
//      at; values are owned by the graph and never move, so pointers stay
//      valid.

#include "offload/IR/Graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cassert>

namespace offload {

llvm::Error makeError(const llvm::Twine &message) {
  // Messages of libraries come in several lines; an error is one line.
  std::string line;
  bool breaks = false; // what was read last was the end of a line
  for (char c : message.str()) {
    breaks = c == '\n' || c == '\r' || c == '\t' || (breaks && c == ' ');
    if (breaks)
      c = ' ';
    if (!breaks || (!line.empty() && line.back() != ' '))
      line += c;
  }
  while (!line.empty() && line.back() == ' ')
    line.pop_back();
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 llvm::StringRef(line));
}

//===-- Node --------------------------------------------------------------===//

Queue Node::queue() const {
  if (std::optional<Queue> own = parseQueue(properties.get("queue")))
    return *own;
  return info ? info->queue : Queue::Compute;
}

void Node::setOperand(unsigned i, Value *value) {
  if (i >= inputs.size())
    inputs.resize(i + 1, nullptr);
  if (Value *old = inputs[i]) {
    auto entry = llvm::find(old->readers, this);
    assert(entry != old->readers.end() && "users are out of date");
    old->readers.erase(entry);
  }
  inputs[i] = value;
  if (value)
    value->readers.push_back(this);
}

//===-- Graph: names ------------------------------------------------------===//

Graph::Graph() = default;
Graph::~Graph() = default;

Value *Graph::findValue(llvm::StringRef name) const {
  return valuesByName.lookup(name);
}

Node *Graph::findNode(llvm::StringRef name) const {
  return nodesByName.lookup(name);
}

/// `stem`, `stem_2`, `stem_3`, ...: the first that is not taken.
static std::string
firstFree(llvm::StringRef stem,
          llvm::function_ref<bool(const std::string &)> taken) {
  std::string name = stem.str();
  for (unsigned i = 2; taken(name); ++i)
    name = (stem + "_" + llvm::Twine(i)).str();
  return name;
}

std::string Graph::uniqueValueName(llvm::StringRef stem) const {
  return firstFree(stem, [&](const std::string &name) {
    return valuesByName.contains(name) || plannedValues.contains(name);
  });
}

std::string Graph::uniqueNodeName(llvm::StringRef stem) const {
  return firstFree(stem, [&](const std::string &name) {
    return nodesByName.contains(name) || inserts.contains(name);
  });
}

//===-- Graph: values -----------------------------------------------------===//

Value *Graph::addValue(llvm::StringRef name) {
  assert(!name.empty() && "an absent value has no object");
  assert(!findValue(name) && "name is taken");
  auto value = std::make_unique<Value>();
  value->valueName = name.str();
  value->slot = values.size();
  valuesByName[name] = value.get();
  values.push_back(std::move(value));
  return values.back().get();
}

/// Frees a value that nothing refers to any more.
void Graph::dropValue(Value *value) {
  valuesByName.erase(value->valueName);
  size_t slot = value->slot;
  std::swap(values[slot], values.back());
  values[slot]->slot = slot;
  values.pop_back();
}

Value *Graph::addInput(llvm::StringRef name, TensorType type, TensorData data) {
  Value *value = addValue(name);
  value->type = std::move(type);
  value->data = std::move(data);
  value->graphInput = true;
  graphInputs.push_back(value);
  return value;
}

Value *Graph::addInitializer(llvm::StringRef name, TensorType type,
                             TensorData data) {
  assert(!data.empty() && "an initializer has contents");
  Value *value = addValue(name);
  value->type = std::move(type);
  value->data = std::move(data);
  constants.push_back(value);
  return value;
}

void Graph::addOutput(Value *value) { graphOutputs.push_back(value); }

void Graph::setOutput(unsigned index, Value *value) {
  assert(index < graphOutputs.size() && "no such output");
  Value *old = graphOutputs[index];
  graphOutputs[index] = value;
  if (old != value && !isOutput(old))
    for (auto &[input, output] : states)
      if (output == old->valueName)
        output = value->valueName;
}

void Graph::removeOutput(Value *value) {
  for (size_t i = graphOutputs.size(); i-- > 0;)
    if (graphOutputs[i] == value) {
      graphOutputs.erase(graphOutputs.begin() + i);
      return;
    }
  assert(false && "value is no output");
}

bool Graph::isOutput(const Value *value) const {
  return llvm::is_contained(graphOutputs, value);
}

void Graph::eraseValue(Value *value) {
  assert(value->readers.empty() && "value has users");
  assert(!isOutput(value) && "value is an output");
  if (value->def)
    value->def->outputs[value->result] = nullptr;
  else if (value->graphInput)
    llvm::erase(graphInputs, value);
  else
    llvm::erase(constants, value);
  dropValue(value);
}

void Graph::replaceAllUses(Value *from, Value *to, Node *except) {
  if (from == to)
    return;
  llvm::SmallVector<Node *, 2> users = from->readers;
  for (Node *user : users) {
    if (user == except)
      continue;
    for (unsigned i = 0; i < user->inputs.size(); ++i)
      if (user->inputs[i] == from)
        user->setOperand(i, to);
  }
  for (unsigned i = 0; i < graphOutputs.size(); ++i)
    if (graphOutputs[i] == from)
      setOutput(i, to);
}

/// Puts `to` where a property names the value `from`.
static void renameIn(Properties &properties, llvm::StringRef from,
                     llvm::StringRef to) {
  for (std::string_view key : {"of", "view", "inplace", "after"}) {
    if (!properties.has(key))
      continue;
    std::vector<std::string> names = properties.getList(key);
    if (llvm::find(names, from) == names.end())
      continue;
    std::replace(names.begin(), names.end(), from.str(), to.str());
    properties.setList(key, names);
  }
}

void Graph::renameValue(Value *value, llvm::StringRef name) {
  std::string from = value->valueName, to = name.str();
  if (from == to)
    return;
  assert(!findValue(to) && "name is taken");
  valuesByName.erase(from);
  value->valueName = to;
  valuesByName[to] = value;

  if (auto state = states.extract(from)) {
    state.key() = to;
    states.insert(std::move(state));
  }
  for (auto &[input, output] : states)
    if (output == from)
      output = to;
  for (const std::unique_ptr<Value> &other : values)
    renameIn(other->properties, from, to);
  for (auto &[insert, properties] : inserts)
    renameIn(properties, from, to);
  for (auto &[planned, properties] : plannedValues)
    renameIn(properties, from, to);
  for (FoldedNode &node : folded) {
    std::replace(node.operands.begin(), node.operands.end(), from, to);
    std::replace(node.results.begin(), node.results.end(), from, to);
  }
}

bool Node::isLaunchOperand(unsigned i) const {
  if (!info)
    return false;
  if (info->isLaunchOperand(i))
    return true;
  const Value *value = operand(i);
  if (!value || !value->isConstant())
    return false;
  int64_t elements = 1;
  for (const Dim &dim : value->type.dims)
    elements *= dim.bound;
  return isLaunchConstant(info->id, i, elements);
}

//===-- Graph: nodes ------------------------------------------------------===//

Node *Graph::addNode(llvm::StringRef name, llvm::StringRef domain,
                     llvm::StringRef opType, llvm::ArrayRef<Value *> operands,
                     llvm::ArrayRef<std::string> resultNames, Node *before) {
  assert(!findNode(name) && "name is taken");
  auto place = nodes.emplace(before ? before->position : nodes.end());
  Node *node = &*place;
  node->position = place;
  node->nodeName = name.str();
  node->domain = domain.str();
  node->opType = opType.str();
  if (domain == "offload")
    node->info = findOperator("offload", node->opType, 1);
  nodesByName[name] = node;

  for (unsigned i = 0; i < operands.size(); ++i)
    node->setOperand(i, operands[i]);
  node->inputs.resize(operands.size(), nullptr);
  for (const std::string &resultName : resultNames) {
    Value *result = nullptr;
    if (!resultName.empty()) {
      result = addValue(resultName);
      result->def = node;
      result->result = node->outputs.size();
    }
    node->outputs.push_back(result);
  }
  return node;
}

void Graph::eraseNode(Node *node) {
  for (unsigned i = 0; i < node->inputs.size(); ++i)
    node->setOperand(i, nullptr);
  for (Value *result : node->outputs) {
    if (!result)
      continue;
    assert(result->readers.empty() && "result has users");
    assert(!isOutput(result) && "result is an output");
    dropValue(result);
  }
  nodesByName.erase(node->nodeName);
  nodes.erase(node->position);
}

void Graph::renameNode(Node *node, llvm::StringRef name) {
  if (node->name() == name)
    return;
  assert(!findNode(name) && "name is taken");
  nodesByName.erase(node->nodeName);
  node->nodeName = name.str();
  nodesByName[name] = node;
}

void Graph::moveBefore(Node *node, Node *before) {
  if (node != before)
    nodes.splice(before ? before->position : nodes.end(), nodes,
                 node->position);
}

} // namespace offload
