// What the files that one call names may be.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_PATHS_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_PATHS_H

#include "Arguments.h"

namespace offload::run {

/// Refuses, before anything is loaded, what would cost a run or a file: an
/// input that is no regular file; an output that cannot be written, that would
/// replace a file of another kind or an input of this call, or that leads to
/// another output's file. Throws rt::Error with one line. Reads the first bytes
/// of older outputs; writes nothing.
void checkPaths(const Arguments &arguments);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_PATHS_H
