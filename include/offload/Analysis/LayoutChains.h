// Chains of nodes that only move or regroup axes: where they come from, and
// what their ends are read by.

#ifndef OFFLOAD_ANALYSIS_LAYOUTCHAINS_H
#define OFFLOAD_ANALYSIS_LAYOUTCHAINS_H

#include "offload/Analysis/AxisFactors.h"
#include "offload/IR/Graph.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace offload {

/// A value in terms of the one that its chain starts from.
struct LayoutOrigin {
  Value *root;
  llvm::SmallVector<Node *, 4> path; // from the root to the value
  AxisFactors factors;               // strides: as the root lies
};

/// Nothing where the axes are not known well enough. A part that a Gather takes
/// is a root that lies within the Gather's operand.
std::optional<LayoutOrigin> layoutOrigin(Value *value);

/// Whether each row of operand 0 makes a row of the result, whatever the other
/// rows are: a product by one matrix, with at most one row as its bias.
bool isRowProduct(const Node &node);

/// Whether the node reads the value as operand 0 and nowhere else.
bool readsFirst(const Node &node, const Value &value);

/// How nodes behind a value are to be taken.
enum class ChainForm {
  AsItIs,
  Composed, // each chain in its shortest form, products in the order of rows
            // that their operand lies in
};

/// Whether all that reads the value, through chains behind it, reads it without
/// a copy where it lies as `factors` tell.
bool readersTake(const Graph &graph, const Value &value,
                 const AxisFactors &factors, ChainForm form);

/// Copies that the chain to `end` makes as it is, with the one that its end
/// needs for what reads it.
unsigned chainCopies(const Graph &graph, const LayoutOrigin &origin,
                     const Value &end);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_LAYOUTCHAINS_H
