// What a scheduled file's functions and domains must be.

#ifndef OFFLOAD_LIB_RUNTIME_PROGRAMFUNCTIONS_H
#define OFFLOAD_LIB_RUNTIME_PROGRAMFUNCTIONS_H

#include "ProgramReader.h"

namespace offload::rt {

/// Throws Error that names the function or the node: another version of domain
/// `offload` than this program's, a function that is not this program's, at
/// another opset, twice, or missing for a node that uses it.
void checkFunctions(const RawModel &model);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_PROGRAMFUNCTIONS_H
