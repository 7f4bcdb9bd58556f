// Weights that the command line replaces.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_WEIGHTS_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_WEIGHTS_H

#include "Arguments.h"

#include <string>
#include <vector>

namespace offload::run {

/// What each round sets before its runs, at least one round: from --weights and
/// --weight (which wins). Names that the session does not know are its own to
/// refuse.
std::vector<rt::TensorMap> readWeights(const Arguments &arguments,
                                       const rt::Session &session);

/// All of them, by name.
rt::TensorMap allWeights(rt::Session &session);

/// "w: float[2,3]" for each weight.
std::string weightLines(const rt::Session &session);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_WEIGHTS_H
