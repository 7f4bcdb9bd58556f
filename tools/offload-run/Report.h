// Prints what a session did.

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_REPORT_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_REPORT_H

#include "offload/Runtime/Session.h"

#include <string>

namespace offload::run {

/// The keys of docs/statistics.md, with a newline at the end.
std::string statisticsJson(const rt::Statistics &statistics,
                           uint64_t changedOutputs);

/// The same figures as a table.
std::string statisticsText(const rt::Statistics &statistics,
                           uint64_t changedOutputs);

/// "y: float[2,3]" for each output.
std::string outputLines(const rt::TensorMap &outputs);

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_REPORT_H
