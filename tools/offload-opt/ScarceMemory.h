// Plans that this machine has no memory for say so.

#ifndef OFFLOAD_TOOLS_OFFLOADOPT_SCARCEMEMORY_H
#define OFFLOAD_TOOLS_OFFLOADOPT_SCARCEMEMORY_H

#include "offload/IR/Graph.h"
#include "offload/PassManager/Pass.h"

#include <cstdint>

namespace offload::tool {

/// Remarks on standard error, for the file may be run elsewhere: a plan without
/// a budget that takes more than the card here has free, and feeds and results
/// (with target `host` the arena too) that take more than this machine's
/// memory. `peakBytes`: all that the process takes from the device.
void remarkScarceMemory(const Graph &graph, const PassContext &context,
                        int64_t peakBytes);

} // namespace offload::tool

#endif // OFFLOAD_TOOLS_OFFLOADOPT_SCARCEMEMORY_H
