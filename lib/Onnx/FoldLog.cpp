// Keeps how import folded what a caller may want to change.
//
// In:  nodes that are about to be folded, in order; at the end, the graph.
// Out: Graph::folded: each node after those that make what it reads.
// Not: folding itself (InferValues), the form in files (FoldedFunction).
// How: a folded node may read what is known without being folded (a view of a
//      weight), so makers are written down with it. Sizes are no contents: what
//      reads only shapes has no source, and its result is a constant like any
//      other. One walk against the order then says which nodes lead to data.

#include "FoldLog.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {

static bool readsShapeOnly(const Node &node) {
  return node.domain.empty() &&
         (node.opType == "Shape" || node.opType == "Size");
}

FoldLog::FoldLog(Graph &graph) : graph(graph), nodes(std::move(graph.folded)) {
  for (const FoldedNode &node : nodes) {
    read.insert(node.operands.begin(), node.operands.end());
    made.insert(node.results.begin(), node.results.end());
  }
}

bool FoldLog::isMadeOfConstants(const Node &node) const {
  if (readsShapeOnly(node) || !node.domain.empty() || !node.info ||
      !node.info->shapeArithmetic)
    return false;
  return llvm::all_of(node.operands(), [&](const Value *operand) {
    return !operand || operand->isConstant() ||
           (operand->definingNode() &&
            isMadeOfConstants(*operand->definingNode()));
  });
}

void FoldLog::add(const Node &node) {
  bool readsAny = llvm::any_of(node.operands(),
                               [](const Value *operand) { return operand; });
  if (readsAny && isMadeOfConstants(node))
    write(node);
}

void FoldLog::write(const Node &node) {
  FoldedNode folded{node.name().str(), node.opType, node.attributes, {}, {}};
  for (const Value *operand : node.operands()) {
    const Node *maker = operand ? operand->definingNode() : nullptr;
    if (maker && !made.contains(operand->name()))
      write(*maker);
    folded.operands.push_back(operand ? operand->name().str() : "");
  }
  for (const Value *result : node.results())
    folded.results.push_back(result ? result->name().str() : "");
  read.insert(folded.operands.begin(), folded.operands.end());
  made.insert(folded.results.begin(), folded.results.end());
  nodes.push_back(std::move(folded));
}

/// Whether a node reads the value on a queue, or a caller gets it.
static bool isData(const Graph &graph, const Value &value) {
  if (graph.isOutput(&value))
    return true;
  return llvm::any_of(value.users(), [&](const Node *user) {
    for (unsigned i = 0; i < user->operands().size(); ++i)
      if (user->operand(i) == &value &&
          !(user->info && user->info->isLaunchOperand(i)))
        return true;
    return false;
  });
}

void FoldLog::keepWhatIsData() {
  llvm::StringSet<> wanted;
  llvm::SmallVector<std::string> dropped;
  std::vector<FoldedNode> kept;
  for (FoldedNode &node : llvm::reverse(nodes)) {
    bool isWanted = llvm::any_of(node.results, [&](const std::string &name) {
      const Value *value = graph.findValue(name);
      return wanted.contains(name) ||
             (value && value->isConstant() && isData(graph, *value));
    });
    if (!isWanted) {
      dropped.append(node.operands.begin(), node.operands.end());
      continue;
    }
    wanted.insert(node.operands.begin(), node.operands.end());
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.folded = std::move(kept);
  for (const std::string &name : dropped)
    if (Value *value = name.empty() ? nullptr : graph.findValue(name))
      if (value->isConstant() && value->users().empty() &&
          !graph.isOutput(value) && !wanted.contains(name))
        graph.eraseValue(value);
}

} // namespace offload
