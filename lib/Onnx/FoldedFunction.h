// The function of a file that says how folded constants were made. Private to
// this room.
//
//   <domain: "offload", opset_import: ["": 21]>
//   Folded (w, scale) => (w_scaled) { [mul] w_scaled = Mul (w, scale) }
//
// No node calls it: its inputs and outputs are constants of the graph by the
// same names, and its body is what import ran.

#ifndef OFFLOAD_LIB_ONNX_FOLDEDFUNCTION_H
#define OFFLOAD_LIB_ONNX_FOLDEDFUNCTION_H

#include "ExternalData.h"
#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <optional>

namespace offload {

/// Takes the function out of the model, if it has one.
std::optional<onnx::FunctionProto> takeFoldedFunction(onnx::ModelProto &model);

/// Into Graph::folded, whose constants are there already. Error: a name that is
/// no constant, an operator that import does not run.
llvm::Error readFoldedFunction(onnx::FunctionProto &function,
                               ExternalFiles &files, Graph &graph);

/// Of Graph::folded, which must not be empty.
onnx::FunctionProto foldedFunctionProto(const Graph &graph, int64_t opset);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_FOLDEDFUNCTION_H
