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

/// The arrays of an archive, and those of single files, which win; each as the
/// info of its name wants it where numpy has no such type: bfloat16 may come as
/// uint16, and 4-bit numbers come as bytes. Names without an info stay as they
/// are. `kind` is what errors call one: input, weight.
rt::TensorMap readNamed(const std::string *archive,
                        const std::vector<NamedFile> &files,
                        const std::vector<rt::ValueInfo> &infos,
                        const std::string &kind);

/// Sets every --state.
void setStates(const Arguments &arguments, rt::Session &session);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_INPUTS_H
