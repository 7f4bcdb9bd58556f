// Nodes of ONNX's own operators, as the importer would have read them.

#ifndef OFFLOAD_IR_STANDARDNODE_H
#define OFFLOAD_IR_STANDARDNODE_H

#include "offload/IR/Graph.h"

namespace offload {

/// Inserts a node of one result before `before` (end of the list: nullptr),
/// with the row and the since-version of the model's opset. The names must be
/// unused. Error: the opset does not have the operator.
llvm::Expected<Node *> addStandardNode(Graph &graph, llvm::StringRef opType,
                                       llvm::StringRef name,
                                       llvm::ArrayRef<Value *> operands,
                                       llvm::StringRef resultName,
                                       const TensorType &type, Node *before);

} // namespace offload

#endif // OFFLOAD_IR_STANDARDNODE_H
