// Runs a pipeline over a graph.

#ifndef OFFLOAD_PASSMANAGER_PASSMANAGER_H
#define OFFLOAD_PASSMANAGER_PASSMANAGER_H

#include "offload/PassManager/Instrument.h"
#include "offload/PassManager/Pipeline.h"

namespace offload {

/// Makes all passes, sets their options and checks their forms before the first
/// one runs, then runs them in order; the graph gets the form that each leaves.
/// An error of a pass, or of `instrument` after it, ends the run, and the graph
/// is then of no use. Not thread-safe.
llvm::Error runPipeline(Graph &graph, const Pipeline &pipeline,
                        const PassContext &context, Instrument &instrument);

/// The same pipeline with the context written into it, so that it means the
/// same without the tool's flags. Only passes that take plan options get them,
/// and what a pass was given stays. `target` is what Target::load took.
Pipeline withContext(const Pipeline &pipeline, const PassContext &context,
                     llvm::StringRef target);

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_PASSMANAGER_H
