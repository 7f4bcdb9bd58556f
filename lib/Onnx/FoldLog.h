// Keeps how import folded what a caller may want to change. Private to this
// room.

#ifndef OFFLOAD_LIB_ONNX_FOLDLOG_H
#define OFFLOAD_LIB_ONNX_FOLDLOG_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/StringSet.h"

namespace offload {

class FoldLog {
public:
  /// Goes on with what the graph has already; gives it back at the end.
  explicit FoldLog(Graph &graph);

  /// Before the node is folded: writes it down, and the nodes that make what it
  /// reads, as far as constants decide it.
  void add(const Node &node);
  /// Whether something written down reads the constant of this name, and
  /// nothing written down makes it.
  bool reads(llvm::StringRef constant) const {
    return read.contains(constant) && !made.contains(constant);
  }
  /// At the end: forgets what only shapes and other launch operands were made
  /// of, and erases constants that nothing else reads.
  void keepWhatIsData();

private:
  bool isMadeOfConstants(const Node &node) const;
  void write(const Node &node);

  Graph &graph;
  /// Graph::folded, which folding would rename.
  std::vector<FoldedNode> nodes;
  llvm::StringSet<> read, made;
};

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_FOLDLOG_H
