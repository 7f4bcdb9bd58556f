// Makes nodes of the `insert` properties of a planned graph.

#ifndef OFFLOAD_SCHEDULE_EXPANDINSERTS_H
#define OFFLOAD_SCHEDULE_EXPANDINSERTS_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace offload {

/// Expands every entry for which `wanted` holds; an entry that names what an
/// entry left behind makes is left too. Returns how many were expanded.
///
/// Results are named by `makes`, else by rule: Stage makes X_fly of X, Wait
/// makes X_dev of X_fly or X, Release makes X_free of X_dev or X, Fetch of an
/// output takes the output's name and leaves X_dev to what the device computed.
/// Readers that follow read what the last Stage, Wait, Fetch or GradTransfer of
/// their operand made, on the side where they run.
///
/// Errors, by name of the entry: an operator that is none of these or Join, a
/// value or node that is not there, entries that go before each other.
llvm::Expected<unsigned>
expandInserts(Graph &graph,
              llvm::function_ref<bool(const Properties &)> wanted);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_EXPANDINSERTS_H
