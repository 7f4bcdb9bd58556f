// Erases constants that a rewriting left without a reader.
//
// In:  a graph of form Imported; constants that lost readers.
// Out: the graph as import would make it of a model that never had them:
//      neither the constants nor the foldings that led only to them.
// Not: constants that nothing read before.
// How: one walk against the order of foldings says which still lead to what a
//      node reads as data; what the others name may go as well.

#include "offload/Analysis/UnreadConstants.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

namespace offload {

/// Whether a node reads the value on a queue, or a caller gets it.
static bool isData(const Graph &graph, const Value &value) {
  return graph.isOutput(&value) ||
         llvm::any_of(value.users(), [&](const Node *user) {
           for (unsigned i = 0; i < user->operands().size(); ++i)
             if (user->operand(i) == &value && !user->isLaunchOperand(i))
               return true;
           return false;
         });
}

/// Drops foldings that lead to no data, adds the constants that they name to
/// `candidates`, and returns the names that the others have.
static llvm::StringSet<> dropFoldings(Graph &graph,
                                      llvm::SetVector<Value *> &candidates) {
  llvm::StringSet<> wanted;
  std::vector<FoldedNode> kept;
  auto name = [&](const std::vector<std::string> &names, auto each) {
    for (const std::string &name : names)
      if (!name.empty())
        each(name);
  };
  auto propose = [&](const std::string &name) {
    if (Value *value = graph.findValue(name))
      candidates.insert(value);
  };
  for (FoldedNode &node : llvm::reverse(graph.folded)) {
    bool isWanted = llvm::any_of(node.results, [&](const std::string &name) {
      const Value *value = graph.findValue(name);
      return wanted.contains(name) ||
             (value && value->isConstant() && isData(graph, *value));
    });
    if (!isWanted) {
      name(node.operands, propose);
      name(node.results, propose);
      continue;
    }
    auto want = [&](const std::string &name) { wanted.insert(name); };
    name(node.operands, want);
    name(node.results, want);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.folded = std::move(kept);
  return wanted;
}

void eraseUnreadConstants(Graph &graph, llvm::ArrayRef<Value *> constants) {
  llvm::SetVector<Value *> candidates(constants.begin(), constants.end());
  const llvm::StringSet<> wanted = dropFoldings(graph, candidates);
  for (Value *value : candidates)
    if (value->isConstant() && value->users().empty() &&
        !graph.isOutput(value) && !wanted.contains(value->name()))
      graph.eraseValue(value);
}

} // namespace offload
