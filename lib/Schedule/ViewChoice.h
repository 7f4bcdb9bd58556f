// Which nodes are to give bytes of their operand another name, and copy none.

#ifndef OFFLOAD_LIB_SCHEDULE_VIEWCHOICE_H
#define OFFLOAD_LIB_SCHEDULE_VIEWCHOICE_H

#include "offload/Analysis/ValueLayout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace offload {

class ViewChoice {
public:
  /// Nodes of `skipped` run elsewhere than on compute. The graph must not
  /// change while the choice is used.
  ViewChoice(const Graph &graph, const llvm::DenseSet<const Node *> &skipped);

  bool isView(const Node &node) const { return views.contains(&node); }

private:
  bool mayView(const Node &node) const;
  bool choose(const Node &node, const std::optional<ValueLayout> &layout) const;
  bool readersTake(const Value &value, const ValueLayout &layout) const;
  bool takes(const Node &reader, const ValueLayout &layout) const;

  const Graph &graph;
  const llvm::DenseSet<const Node *> &skipped;
  llvm::DenseSet<const Node *> views;
};

} // namespace offload

#endif // OFFLOAD_LIB_SCHEDULE_VIEWCHOICE_H
