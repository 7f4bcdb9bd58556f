// Order and names of a model's nodes. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTNODES_H
#define OFFLOAD_LIB_ONNX_IMPORTNODES_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace offload {

/// "[fc1]", or "[Gemm of 'y']" for a node without a name: for messages.
std::string nodeLabel(const onnx::NodeProto &node);

/// Gives every node a name that no other has: names that are there and unique
/// stay, others are made of operator and first output.
void nameNodes(std::vector<onnx::NodeProto *> &nodes);

/// Puts nodes behind what they read, moving as few as it can: a node that waits
/// for a later one goes right behind it. With `keepOrder` (a schedule's order
/// means something) nothing moves and such a node is an error. Errors: a value
/// that nothing makes, a cycle (both name a node).
llvm::Error orderNodes(const Graph &graph,
                       std::vector<onnx::NodeProto *> &nodes, bool keepOrder);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTNODES_H
