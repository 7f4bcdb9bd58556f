// Contents that are known before a step starts. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_INFERVALUES_H
#define OFFLOAD_LIB_ONNX_INFERVALUES_H

#include "FoldLog.h"
#include "InferContext.h"
#include "offload/IR/Graph.h"

#include <onnx/defs/schema.h>

namespace offload {

/// Computes what can be known of a node's results, whose types are inferred:
/// contents at the bound by shape arithmetic, and symbols by ONNX's rules.
void evaluateNode(const Node &node, const onnx::OpSchema &schema,
                  const AttributeProtos &attributes, FactTable &facts);

/// Whether a node's results may become initializers: they are known, small,
/// depend on no feed and no dynamic dimension, and no weight would be copied.
bool canFold(const Node &node, FactTable &facts);

/// Makes the node's results initializers of the same names and erases it, with
/// shape arithmetic that only it needed, and constants unless `log` names them.
void foldNode(Graph &graph, Node *node, FactTable &facts, const FoldLog &log);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_INFERVALUES_H
