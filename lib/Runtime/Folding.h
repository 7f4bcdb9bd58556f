// Constants that the compiler made from others, made anew.

#ifndef OFFLOAD_LIB_RUNTIME_FOLDING_H
#define OFFLOAD_LIB_RUNTIME_FOLDING_H

#include "offload/OffFormat/ShapeArithmetic.h"
#include "offload/Runtime/Program.h"

#include <functional>
#include <map>
#include <set>

namespace offload::rt {

/// Constants that were folded from this one, directly or not.
std::set<uint32_t> foldedFrom(const Program &program, uint32_t constant);

/// These constants, made from what `contentsOf` gives for each of
/// Program::foldedFrom. Throws Error that names the node: where one cannot be
/// made, or would not be of its type and size.
std::map<uint32_t, HostValue>
foldAnew(const Program &program, const std::set<uint32_t> &wanted,
         const std::function<HostValue(uint32_t)> &contentsOf);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_FOLDING_H
