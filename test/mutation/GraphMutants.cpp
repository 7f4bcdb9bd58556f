// Wrong schedules at the level of the graph.
//
// In:  a right graph of form Scheduled.
// Out: edits by name, which also hold for another copy of it.
// Not: whether an edit does harm: most of them do, some do not.
// How: one function for each shape. Edits keep the order of nodes topological,
//      so that what is wrong is the order of queues and bytes alone.

#include "Mutants.h"

#include "offload/Analysis/GraphTimeline.h"
#include "offload/Analysis/ScheduleRules.h"

#include <algorithm>
#include <optional>

namespace offload::mutation {

namespace {

using Mutants = std::vector<Mutant>;

std::string label(const Node &node) { return ("[" + node.name() + "]").str(); }

/// Nodes in issue order.
std::vector<Node *> nodesOf(const Graph &graph) {
  std::vector<Node *> nodes;
  for (const Node &node : graph.nodeList())
    nodes.push_back(const_cast<Node *>(&node));
  return nodes;
}

size_t indexOf(const std::vector<Node *> &nodes, const Node *node) {
  return std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
}

/// Position in `nodes` behind the maker of `value`; 0 where no node makes it.
size_t madeBefore(const std::vector<Node *> &nodes, const Value *value) {
  return value && value->definingNode()
             ? indexOf(nodes, value->definingNode()) + 1
             : 0;
}

Mutant withOperand(const Node &node, unsigned index, const Value *value,
                   std::string what) {
  std::string name = node.name().str();
  std::string operand = value ? value->name().str() : "";
  return {label(node) + " " + what,
          [=](Graph &graph) {
            graph.findNode(name)->setOperand(
                index, operand.empty() ? nullptr : graph.findValue(operand));
          },
          nullptr};
}

//===-- Stages ------------------------------------------------------------===//

Mutants dropAfter(const std::vector<Node *> &nodes) {
  Mutants made;
  for (const Node *node : nodes)
    if (node->isOffload("Stage") && node->operand(numCopied(*node)))
      made.push_back(
          withOperand(*node, numCopied(*node), nullptr, "without its after"));
  return made;
}

/// The newest token of compute that stands before a position; null: none.
const Value *newestToken(const std::vector<Node *> &nodes, size_t before) {
  for (size_t i = before; i-- > 0;)
    if (nodes[i]->isOffload("Release"))
      return nodes[i]->result();
  return nullptr;
}

Mutants moveStageUp(const std::vector<Node *> &nodes) {
  Mutants made;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const Node *stage = nodes[at];
    if (!stage->isOffload("Stage"))
      continue;
    size_t least = 0;
    for (unsigned i = 0; i < numCopied(*stage); ++i)
      least = std::max(least, madeBefore(nodes, stage->operand(i)));
    const Value *after = stage->operand(numCopied(*stage));
    for (size_t to = least; to < at; ++to) {
      if (!nodes[to]->isOffload("Stage"))
        continue;
      // A token that does not exist yet is replaced by what does.
      const Value *token =
          madeBefore(nodes, after) <= to ? after : newestToken(nodes, to);
      std::string name = stage->name().str(), other = nodes[to]->name().str();
      std::string operand = token ? token->name().str() : "";
      unsigned index = numCopied(*stage);
      made.push_back({label(*stage) + " before " + label(*nodes[to]),
                      [=](Graph &graph) {
                        Node *moved = graph.findNode(name);
                        moved->setOperand(
                            index, operand.empty() ? nullptr
                                                   : graph.findValue(operand));
                        graph.moveBefore(moved, graph.findNode(other));
                      },
                      nullptr});
    }
  }
  return made;
}

//===-- Releases ----------------------------------------------------------===//

/// What compute has done last before a position.
const Value *newestOnCompute(const std::vector<Node *> &nodes, size_t before) {
  for (size_t i = before; i-- > 0;)
    if (nodes[i]->queue() == Queue::Compute &&
        !nodes[i]->isOffload("Release") && nodes[i]->result())
      return nodes[i]->result();
  return nullptr;
}

Mutants releaseEarly(const std::vector<Node *> &nodes) {
  Mutants made;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const Node *release = nodes[at];
    if (!release->isOffload("Release"))
      continue;
    unsigned passed = 0;
    for (size_t to = at; to-- > 0 && passed < 4;) {
      const Value *done = newestOnCompute(nodes, to);
      if (!runsKernel(*nodes[to]) || nodes[to]->queue() != Queue::Compute ||
          !done)
        continue;
      ++passed;
      std::string name = release->name().str(), other = nodes[to]->name().str();
      std::string operand = done->name().str();
      made.push_back({label(*release) + " before " + label(*nodes[to]),
                      [=](Graph &graph) {
                        Node *moved = graph.findNode(name);
                        moved->setOperand(0, graph.findValue(operand));
                        graph.moveBefore(moved, graph.findNode(other));
                      },
                      nullptr});
    }
  }
  // A Stage that is given the token of an earlier Release.
  for (const Node *stage : nodes) {
    const Value *after =
        stage->isOffload("Stage") ? stage->operand(numCopied(*stage)) : nullptr;
    if (!after || !after->definingNode())
      continue;
    const Value *older =
        newestToken(nodes, indexOf(nodes, after->definingNode()));
    if (older)
      made.push_back(withOperand(*stage, numCopied(*stage), older,
                                 "after '" + older->name().str() +
                                     "' instead of '" + after->name().str() +
                                     "'"));
  }
  return made;
}

//===-- Ranges ------------------------------------------------------------===//

struct Place {
  const Value *value;
  int64_t offset, bytes;
  bool meets(const Place &other) const {
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

std::vector<Place> placesOf(const Graph &graph) {
  std::vector<Place> places;
  auto add = [&](const Value *value) {
    std::optional<int64_t> offset = value->properties.getInt("offset");
    std::optional<int64_t> bytes = value->properties.getInt("bytes");
    if (offset && bytes && *bytes > 0)
      places.push_back({value, *offset, *bytes});
  };
  for (const Value *input : graph.inputs())
    add(input);
  for (const Value *constant : graph.initializers())
    add(constant);
  for (const Node &node : graph.nodeList())
    for (const Value *result : node.results())
      if (result)
        add(result);
  return places;
}

/// Parts of one copy lie one behind the other and are left alone.
bool isPartOfGroup(const Value &value) {
  const Node *maker = value.definingNode();
  return maker && isCopy(*maker) && numCopied(*maker) > 1;
}

Mutants rangesMeet(const Graph &graph, Random &random) {
  constexpr unsigned kSample = 30;
  constexpr int64_t kAlignment = 512;
  std::vector<Place> places = placesOf(graph);
  int64_t end = largestEnd(graph);
  Mutants made;
  for (unsigned tries = 0; tries < 20 * kSample && made.size() < kSample;
       ++tries) {
    const Place &moved = places[random.number(0, places.size() - 1)];
    const Place &other = places[random.number(0, places.size() - 1)];
    int64_t step = random.number(0, (other.bytes - 1) / kAlignment);
    int64_t offset = other.offset + kAlignment * step;
    if (moved.meets(other) || offset + moved.bytes > end ||
        isPartOfGroup(*moved.value))
      continue;
    std::string name = moved.value->name().str();
    made.push_back({"'" + name + "' onto '" + other.value->name().str() +
                        "' at " + std::to_string(offset),
                    [=](Graph &graph) {
                      graph.findValue(name)->properties.set(
                          "offset", std::to_string(offset));
                    },
                    nullptr});
  }
  return made;
}

//===-- Order on one queue ------------------------------------------------===//

bool isTopological(const std::vector<Node *> &nodes) {
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Value *operand : nodes[i]->operands())
      if (madeBefore(nodes, operand) > i)
        return false;
  return true;
}

bool isOnQueue(const Node &node) {
  return isCopy(node) || runsKernel(node) || node.isOffload("Release") ||
         node.isOffload("Wait");
}

/// The range of a device value, through views and what works in place.
std::optional<Place> placeOf(const Graph &graph, const Value *value) {
  value = rootOf(*value);
  while (const Value *taken = graph.findValue(value->properties.get("inplace")))
    value = rootOf(*taken);
  std::optional<int64_t> offset = value->properties.getInt("offset");
  std::optional<int64_t> bytes = value->properties.getInt("bytes");
  if (!offset || !bytes)
    return std::nullopt;
  return Place{value, *offset, *bytes};
}

/// Whether one node writes bytes that the other one reads or writes.
bool shareBytes(const Graph &graph, const Node &a, const Node &b) {
  for (const Value *written : a.results()) {
    std::optional<Place> to = written ? placeOf(graph, written) : std::nullopt;
    for (llvm::ArrayRef<Value *> values : {b.operands(), b.results()})
      for (const Value *value : values) {
        std::optional<Place> at = value ? placeOf(graph, value) : std::nullopt;
        if (to && at && to->meets(*at))
          return true;
      }
  }
  return false;
}

/// Neighbours that only compute with other bytes may change places freely, and
/// so may two Waits.
bool mayMatter(const Graph &graph, const Node &a, const Node &b) {
  if (a.queue() != Queue::Compute)
    return true;
  if (runsKernel(a) && runsKernel(b))
    return shareBytes(graph, a, b) || shareBytes(graph, b, a);
  return runsKernel(a) || runsKernel(b);
}

Mutants swapNodes(const Graph &graph, const std::vector<Node *> &nodes) {
  constexpr size_t kReach = 12;
  Mutants made;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t k = i + 1; k < nodes.size() && k <= i + kReach; ++k) {
      if (nodes[i]->queue() != nodes[k]->queue() || !isOnQueue(*nodes[i]) ||
          !isOnQueue(*nodes[k]) || !mayMatter(graph, *nodes[i], *nodes[k]))
        continue;
      std::vector<Node *> swapped = nodes;
      std::swap(swapped[i], swapped[k]);
      if (!isTopological(swapped))
        continue;
      std::string first = nodes[i]->name().str();
      std::string second = nodes[k]->name().str();
      // Where `second` stood; null: at the end.
      std::string next = k + 1 < nodes.size() ? nodes[k + 1]->name().str() : "";
      made.push_back({label(*nodes[i]) + " and " + label(*nodes[k]),
                      [=](Graph &graph) {
                        Node *a = graph.findNode(first);
                        graph.moveBefore(graph.findNode(second), a);
                        graph.moveBefore(
                            a, next.empty() ? nullptr : graph.findNode(next));
                      },
                      nullptr});
    }
  return made;
}

//===-- Places that copies out still read ---------------------------------===//

bool isCopyOut(const Node *node) {
  return node && (node->isOffload("GradTransfer") || node->isOffload("Fetch"));
}

Mutants freeEarly(const std::vector<Node *> &nodes) {
  Mutants made;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const Node *wait = nodes[at];
    const Value *after = wait->isOffload("Wait") ? wait->operand(1) : nullptr;
    if (!after || !isCopyOut(after->definingNode()))
      continue;
    made.push_back(withOperand(*wait, 1, nullptr,
                               "without '" + after->name().str() + "'"));
    for (size_t i = indexOf(nodes, after->definingNode()); i-- > 0;)
      if (isCopyOut(nodes[i])) {
        const Value *older = nodes[i]->result();
        made.push_back(withOperand(*wait, 1, older,
                                   "for '" + older->name().str() +
                                       "' instead of '" + after->name().str() +
                                       "'"));
        break;
      }
    // Each reader in turn does not heed the Wait, which then comes too late.
    std::string name = wait->name().str();
    for (size_t i = at + 1; i < nodes.size(); ++i) {
      const Node *reader = nodes[i];
      for (unsigned k = 0; k < reader->operands().size(); ++k) {
        if (reader->operand(k) != wait->result())
          continue;
        std::string first = reader->name().str();
        made.push_back({label(*wait) + " behind " + label(*reader),
                        [=](Graph &graph) {
                          Node *late = graph.findNode(name);
                          Node *early = graph.findNode(first);
                          early->setOperand(k, late->operand(0));
                          graph.moveBefore(early, late);
                        },
                        nullptr});
      }
    }
  }
  return made;
}

} // namespace

const char *nameOf(Shape shape) {
  switch (shape) {
  case Shape::DropAfter:
    return "drop the after of a Stage";
  case Shape::MoveStageUp:
    return "move a Stage up";
  case Shape::ReleaseEarly:
    return "release early";
  case Shape::RangesMeet:
    return "make ranges meet";
  case Shape::SwapNodes:
    return "swap two nodes";
  case Shape::FreeEarly:
    return "free a copied-out place early";
  case Shape::DropWait:
    return "drop a wait";
  case Shape::ReadLanding:
    return "read before it landed";
  case Shape::CopyOutEarly:
    return "copy out before the producer";
  case Shape::SwapLaunches:
    return "swap two launches";
  }
  return "";
}

bool isOfGraph(Shape shape) { return shape < Shape::DropWait; }

std::vector<Mutant> graphMutants(Shape shape, const Graph &graph,
                                 Random &random) {
  std::vector<Node *> nodes = nodesOf(graph);
  switch (shape) {
  case Shape::DropAfter:
    return dropAfter(nodes);
  case Shape::MoveStageUp:
    return moveStageUp(nodes);
  case Shape::ReleaseEarly:
    return releaseEarly(nodes);
  case Shape::RangesMeet:
    return rangesMeet(graph, random);
  case Shape::SwapNodes:
    return swapNodes(graph, nodes);
  case Shape::FreeEarly:
    return freeEarly(nodes);
  default:
    return {};
  }
}

} // namespace offload::mutation
