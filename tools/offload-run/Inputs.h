// Values for a session's inputs: from files, or drawn by a seed.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_INPUTS_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_INPUTS_H

#include "Arguments.h"

#include <vector>

namespace offload::run {

/// The feeds of each run, at least one: from --inputs, --input (which wins) and
/// --random-inputs. Names that the session does not know are its own to refuse.
std::vector<rt::TensorMap> readFeeds(const Arguments &arguments,
                                     const rt::Session &session);

/// The tensor as `info` (may be null) wants it where numpy has no such type:
/// bfloat16 may come as uint16, and 4-bit numbers come as bytes.
rt::Tensor asType(rt::Tensor tensor, const rt::ValueInfo *info);

/// Of that name, or null.
const rt::ValueInfo *findInfo(const std::vector<rt::ValueInfo> &infos,
                              const std::string &name);

/// Sets every --state.
void setStates(const Arguments &arguments, rt::Session &session);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_INPUTS_H
