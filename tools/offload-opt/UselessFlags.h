// Flags that change nothing say so.

#ifndef OFFLOAD_TOOLS_OFFLOADOPT_USELESSFLAGS_H
#define OFFLOAD_TOOLS_OFFLOADOPT_USELESSFLAGS_H

#include "CommandLine.h"

#include "offload/IR/Graph.h"

namespace offload::tool {

/// One remark on standard error for each given flag that makes no difference to
/// this model. `plans`: a plan is made.
void remarkUselessFlags(const CommandLine &line, const Graph &graph,
                        bool plans);

} // namespace offload::tool

#endif // OFFLOAD_TOOLS_OFFLOADOPT_USELESSFLAGS_H
