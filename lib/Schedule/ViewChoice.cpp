// Chooses the nodes that make views.
//
// In:  a graph with rows and types, launch nodes marked.
// Out: every Reshape, Flatten, Squeeze, Unsqueeze and Identity; a Transpose and
//      a part where whatever reads the result takes its strides, or where the
//      result has none of its own (a part of the first axis).
// Not: `view` properties (PlanWriter), the proof (Analysis/ScheduleRules).
// How: one walk in node order keeps the layout of each value. What other
//      strides come of it is followed to all readers: through views to those
//      behind them, for a Reshape there can only be a view.

#include "ViewChoice.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {

ViewChoice::ViewChoice(const Graph &graph,
                       const llvm::DenseSet<const Node *> &skipped)
    : graph(graph), skipped(skipped) {
  llvm::DenseMap<const Value *, std::optional<ValueLayout>> layouts;
  auto layoutOf = [&](const Value *value) {
    auto known = layouts.find(value);
    return known != layouts.end() ? known->second
                                  : ValueLayout::ofRoot(value->type);
  };
  for (const Node &node : graph.nodeList()) {
    if (!mayView(node))
      continue;
    std::optional<ValueLayout> layout = layoutOf(node.operand(0));
    if (layout)
      layout = layout->through(node);
    if (!choose(node, layout))
      continue;
    views.insert(&node);
    layouts[node.result()] = layout;
  }
}

/// Whether the operator can make a view here, of a fitting operand.
bool ViewChoice::mayView(const Node &node) const {
  if (!node.info || node.info->view == ViewRule::None || !node.result() ||
      !node.operand(0) || node.queue() != Queue::Compute ||
      skipped.contains(&node))
    return false;
  // In training, Dropout is more than a second name.
  const Value *training = node.domain.empty() && node.opType == "Dropout"
                              ? node.operand(2)
                              : nullptr;
  if (training && !training->isConstant())
    return false;
  // A part of a table is looked up; rows of large ones are on the host.
  if (node.info->view == ViewRule::Part &&
      (!node.isLaunchOperand(1) || node.operand(0)->isConstant()))
    return false;
  // A second result (a mask) has bytes that only the kernel can write.
  return llvm::none_of(node.results().drop_front(),
                       [](const Value *result) { return result; });
}

bool ViewChoice::choose(const Node &node,
                        const std::optional<ValueLayout> &layout) const {
  // Of an operand with strides only where takes() found that it can be.
  if (node.info->view == ViewRule::Always)
    return true;
  return layout && layout->isAligned() && readersTake(*node.result(), *layout);
}

bool ViewChoice::readersTake(const Value &value,
                             const ValueLayout &layout) const {
  if (layout.isContiguous())
    return true;
  // What is copied out is contiguous.
  if (graph.isOutput(&value))
    return false;
  return llvm::all_of(value.users(), [&](const Node *reader) {
    return reader->queue() == Queue::Launch || takes(*reader, layout);
  });
}

bool ViewChoice::takes(const Node &reader, const ValueLayout &layout) const {
  if (!reader.info)
    return false;
  if (mayView(reader)) {
    std::optional<ValueLayout> behind = layout.through(reader);
    bool isView =
        behind && behind->isAligned() && readersTake(*reader.result(), *behind);
    if (isView || reader.info->view == ViewRule::Always)
      return isView;
  }
  return reader.info->takesStrides;
}

} // namespace offload
