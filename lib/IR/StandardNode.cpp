// Adds nodes of ONNX's own operators.

#include "offload/IR/StandardNode.h"

namespace offload {

llvm::Expected<Node *> addStandardNode(Graph &graph, llvm::StringRef opType,
                                       llvm::StringRef name,
                                       llvm::ArrayRef<Value *> operands,
                                       llvm::StringRef resultName,
                                       const TensorType &type, Node *before) {
  auto opset = graph.opsets.find("");
  int since = 1;
  const OperatorInfo *info = findOperatorAtOpset(
      "", std::string_view(opType),
      opset == graph.opsets.end() ? 1 : static_cast<int>(opset->second),
      &since);
  if (!info)
    return makeError("[" + name + "] means " + opType +
                     ", which the model's opset does not have");
  Node *made =
      graph.addNode(name, "", opType, operands, {resultName.str()}, before);
  made->info = info;
  made->sinceVersion = since;
  made->result()->type = type;
  return made;
}

} // namespace offload
