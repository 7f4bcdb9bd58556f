// Rules of the format that a program keeps before anything is allocated.

#ifndef OFFLOAD_LIB_RUNTIME_PROGRAMRULES_H
#define OFFLOAD_LIB_RUNTIME_PROGRAMRULES_H

#include "offload/Runtime/Program.h"

#include <string>

namespace offload::rt {

/// Operands, results and queue of an `offload` node; no-op for others. Throws
/// Error.
void checkArity(const ProgramNode &node, const std::string &overload);

/// Homes of operands and results, ranges, states. Throws Error that names node
/// and value.
void checkRules(const Program &program);

/// The operand whose place output `index` of an operator may take over, or -1.
int inPlaceOperand(const ProgramNode &node, unsigned index);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_PROGRAMRULES_H
