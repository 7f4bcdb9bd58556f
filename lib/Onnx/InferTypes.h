// Inference as the importer uses it: with what the model declares. Private to
// this room; passes use Import.h's inferTypes.

#ifndef OFFLOAD_LIB_ONNX_INFERTYPES_H
#define OFFLOAD_LIB_ONNX_INFERTYPES_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>

namespace offload {

/// What value_info and outputs say, by name of the value.
using DeclaredTypes = llvm::StringMap<TensorType>;

/// inferTypes, where a declared type gives what inference leaves open. Errors
/// besides: a declared type that contradicts an inferred one, by value.
llvm::Error inferTypes(Graph &graph, const DeclaredTypes &declared);

/// Finds the since-version and the operator table's row of a node, unless it
/// has a row. Error: "[node] uses operator X of domain D (since version N),
/// which is not supported".
llvm::Error resolveOperator(const Graph &graph, Node &node);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_INFERTYPES_H
