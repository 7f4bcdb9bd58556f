// Reads how a file's constants were folded.

#ifndef OFFLOAD_LIB_RUNTIME_FOLDEDREADER_H
#define OFFLOAD_LIB_RUNTIME_FOLDEDREADER_H

#include "ProgramReader.h"

namespace offload::rt {

/// Into Program::folded, foldedFrom and foldedTo; values are there already.
/// Throws Error: a name that is no constant or is made by nothing, an operator
/// that is no shape arithmetic, another opset than the model's.
void readFolded(const RawModel &model, Program &program);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_FOLDEDREADER_H
