// Decisions of passes, kept in a model's properties. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTPROPERTIES_H
#define OFFLOAD_LIB_ONNX_IMPORTPROPERTIES_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

namespace offload {

/// The graph's form, before its nodes are read: names and order are kept as
/// they are from Planned on. Error: a form that there is not.
llvm::Expected<Form> readForm(const onnx::ModelProto &model);

/// Puts every property where it belongs: nodes, values, inserts, states, and
/// those of the whole model, foreign ones included. Errors: a key that is not
/// known or there twice, a text that is no property, one that names a node or
/// value that there is not.
llvm::Error readProperties(const onnx::ModelProto &model, Graph &graph);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTPROPERTIES_H
