// Checks what a caller feeds.

#ifndef OFFLOAD_LIB_RUNTIME_FEEDS_H
#define OFFLOAD_LIB_RUNTIME_FEEDS_H

#include "Shapes.h"

#include "offload/Runtime/Session.h"

#include <string>
#include <vector>

namespace offload::rt {

/// Dimensions of every input that a caller feeds, in order of
/// Program::inputs; a default's where it is not fed. Throws Error that says
/// what was expected: an unknown or missing name, a wrong type, rank or size, a
/// size over its bound, two sizes for one dimension.
std::vector<std::vector<int64_t>> checkFeeds(const Program &program,
                                             const TensorMap &feeds);

/// "float[batch<=4,3,224]".
std::string printExpected(const ProgramValue &input);

ValueInfo describeValue(const ProgramValue &value);

/// The value of a fed scalar or shape, for the launching thread.
HostValuePointer hostValueOf(DataType type, const std::vector<int64_t> &dims,
                             const void *data);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_FEEDS_H
