// Builds a Graph from a model's message. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTGRAPH_H
#define OFFLOAD_LIB_ONNX_IMPORTGRAPH_H

#include "ExternalData.h"
#include "InferTypes.h"
#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

namespace offload {

/// Fills an empty `graph`, whose form, IR version and opsets are set, with the
/// model's inputs, initializers, nodes and outputs. Contents move out of
/// `model`. Result types are left open; what the model says of them comes back.
/// Errors: see importModel.
llvm::Expected<DeclaredTypes> buildGraph(onnx::ModelProto &model,
                                         ExternalFiles &files, Graph &graph);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTGRAPH_H
