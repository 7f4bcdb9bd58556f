// What one node costs, counted by the shapes of its operands and results.

#ifndef OFFLOAD_SCHEDULE_NODECOST_H
#define OFFLOAD_SCHEDULE_NODECOST_H

#include "offload/IR/Graph.h"

#include <cstdint>

namespace offload {

/// Multiplications and additions of a product, convolution or attention at the
/// bound; 0 for every other node. All types must be bounded.
double countFlops(const Node &node);

/// Bytes of all operands and results at the bound.
int64_t countTouchedBytes(const Node &node);

/// Scratch by the formula of the node's row, rounded up to kAlignBytes.
int64_t countScratchBytes(const Node &node, bool onCard);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_NODECOST_H
