// Sizes and bounds of dynamic dimensions: `--dim`. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTDIMS_H
#define OFFLOAD_LIB_ONNX_IMPORTDIMS_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>

namespace offload {

/// What the names of dimensions stand for after applyDims.
using DimTable = llvm::StringMap<Dim>;

/// Applies `--dim` arguments, and the bounds that a `.off` was planned for, to
/// the graph's inputs, and keeps them as "offload.dims". Arguments win over
/// what the file says; a schedule made for other bounds is then stale
/// (Graph::planIsStale). Errors: an argument of the wrong form, one that names
/// nothing (the message lists what there is), two for one dimension, a size
/// that contradicts the model.
llvm::Expected<DimTable> applyDims(Graph &graph,
                                   llvm::ArrayRef<std::string> arguments);

/// Puts sizes and bounds of known names into a type that was read.
void substituteDims(TensorType &type, const DimTable &table);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTDIMS_H
