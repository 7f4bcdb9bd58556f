// Writes and reads the function that says how folded constants were made.
//
// In:  Graph::folded, or a model's function `offload.Folded`.
// Out: the other one.
// Not: which nodes these are (FoldLog), running them (Runtime/Weights).
// How: names in a function are its own, so those of constants that are there no
//      more may stand in the body. What the body reads before it is made is an
//      input; what is a constant of the graph is an output.

#include "FoldedFunction.h"

#include "ProtoConvert.h"
#include "TensorReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace offload {

static constexpr llvm::StringLiteral kFolded = "Folded";

std::optional<onnx::FunctionProto> takeFoldedFunction(onnx::ModelProto &model) {
  auto *functions = model.mutable_functions();
  for (auto it = functions->begin(); it != functions->end(); ++it)
    if (it->domain() == "offload" && it->name() == kFolded) {
      onnx::FunctionProto taken = std::move(*it);
      functions->erase(it);
      return taken;
    }
  return std::nullopt;
}

static bool isConstant(const Graph &graph, llvm::StringRef name) {
  const Value *value = graph.findValue(name);
  return value && value->isConstant();
}

static llvm::Error checkNode(const onnx::NodeProto &node, const Graph &graph) {
  auto opset = graph.opsets.find("");
  const OperatorInfo *info =
      opset == graph.opsets.end() || !normalizedDomain(node.domain()).empty()
          ? nullptr
          : findOperatorAtOpset("", node.op_type(), opset->second, nullptr);
  if (!info || !info->shapeArithmetic || node.op_type() == "Shape" ||
      node.op_type() == "Size")
    return makeError("function offload.Folded has the operator " +
                     node.op_type() + " at [" + node.name() +
                     "], which import does not fold");
  return llvm::Error::success();
}

llvm::Error readFoldedFunction(onnx::FunctionProto &function,
                               ExternalFiles &files, Graph &graph) {
  llvm::StringSet<> known;
  for (const std::string &input : function.input()) {
    if (!isConstant(graph, input))
      return makeError("function offload.Folded reads '" + input +
                       "', which is no constant of the graph");
    known.insert(input);
  }
  for (onnx::NodeProto &node : *function.mutable_node()) {
    if (llvm::Error error = checkNode(node, graph))
      return error;
    FoldedNode folded{node.name(), node.op_type(), {}, {}, {}};
    for (const std::string &operand : node.input()) {
      if (!operand.empty() && !known.contains(operand))
        return makeError("function offload.Folded reads '" + operand +
                         "', which nothing in it makes");
      folded.operands.push_back(operand);
    }
    for (const std::string &result : node.output()) {
      if (!result.empty() && !known.insert(result).second)
        return makeError("function offload.Folded makes '" + result +
                         "' twice");
      folded.results.push_back(result);
    }
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      llvm::Expected<AttributeValue> value =
          readAttribute(attribute, files,
                        "[" + node.name() +
                            "] of function offload.Folded "
                            "attribute '" +
                            attribute.name() + "'");
      if (!value)
        return value.takeError();
      folded.attributes[attribute.name()] = std::move(*value);
    }
    graph.folded.push_back(std::move(folded));
  }
  for (const std::string &output : function.output())
    if (!isConstant(graph, output) || !known.contains(output))
      return makeError("function offload.Folded gives '" + output +
                       "', which is no constant of the graph that it makes");
  return llvm::Error::success();
}

onnx::FunctionProto foldedFunctionProto(const Graph &graph, int64_t opset) {
  onnx::FunctionProto proto;
  proto.set_name(kFolded.str());
  proto.set_domain("offload");
  onnx::OperatorSetIdProto &import = *proto.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  llvm::StringSet<> known;
  for (const FoldedNode &folded : graph.folded) {
    onnx::NodeProto &node = *proto.add_node();
    node.set_name(folded.name);
    node.set_op_type(folded.opType);
    for (const std::string &operand : folded.operands) {
      node.add_input(operand);
      if (!operand.empty() && known.insert(operand).second)
        proto.add_input(operand);
    }
    for (const std::string &result : folded.results) {
      node.add_output(result);
      if (!result.empty() && known.insert(result).second &&
          isConstant(graph, result))
        proto.add_output(result);
    }
    for (const auto &[name, value] : folded.attributes)
      attributeToProto(name, value, *node.add_attribute());
  }
  return proto;
}

} // namespace offload
