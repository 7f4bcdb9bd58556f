// Erases constants that a rewriting left without a reader.

#ifndef OFFLOAD_ANALYSIS_UNREADCONSTANTS_H
#define OFFLOAD_ANALYSIS_UNREADCONSTANTS_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/ArrayRef.h"

namespace offload {

/// Erases those of `constants` that nothing reads any more, and what import
/// folded only to make them. Each is a constant, and given once.
void eraseUnreadConstants(Graph &graph, llvm::ArrayRef<Value *> constants);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_UNREADCONSTANTS_H
