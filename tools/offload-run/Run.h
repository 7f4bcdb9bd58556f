// One .off file, run as the command line says.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_RUN_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_RUN_H

#include "Arguments.h"
#include "Interrupt.h"

namespace offload::run {

/// Gives the exit code. Throws rt::Error with one line, or Interrupted.
int runFile(const Arguments &arguments, InterruptGuard &guard);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_RUN_H
