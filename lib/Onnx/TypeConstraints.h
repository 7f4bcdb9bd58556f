// What ONNX's schemas say of element types. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_TYPECONSTRAINTS_H
#define OFFLOAD_LIB_ONNX_TYPECONSTRAINTS_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/defs/schema.h>

namespace offload {

/// Refuses a node whose operands and results have types that neither `schema`
/// nor a later version of it takes, or different ones where it wants one type.
/// Values without a type are passed over, so that operands can be checked
/// before results are inferred. The error names node, operator, values and
/// types, and what to do.
llvm::Error checkTypeConstraints(const Node &node,
                                 const onnx::OpSchema &schema);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_TYPECONSTRAINTS_H
