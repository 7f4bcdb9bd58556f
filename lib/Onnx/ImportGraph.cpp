// Turns a model's graph into the compiler's.
//
// In:  a ModelProto without local functions.
// Out: inputs, initializers, nodes in order, outputs; every value made once.
// Not: dynamic dimensions (ImportDims), properties (ImportProperties), result
//      types (InferTypes).
// How: initializers come first, since an input may have one as its default and
//      a Constant node becomes one; then nodes are named, ordered and checked
//      one by one by ONNX's checker against their schemas.

#include "ImportGraph.h"

#include "ImportNodes.h"
#include "ProtoConvert.h"
#include "TensorReader.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <onnx/checker.h>

#include <optional>
#include <vector>

namespace offload {

namespace {

class GraphBuilder {
public:
  GraphBuilder(onnx::ModelProto &model, ExternalFiles &files, Graph &graph)
      : model(model), proto(*model.mutable_graph()), files(files),
        graph(graph) {
    checker.set_ir_version(static_cast<int>(model.ir_version()));
    std::unordered_map<std::string, int> imports;
    for (const auto &[domain, version] : graph.opsets)
      imports[domain] = static_cast<int>(version);
    checker.set_opset_imports(std::move(imports));
  }

  llvm::Expected<DeclaredTypes> run() {
    if (llvm::Error error = readInitializers())
      return error;
    if (llvm::Error error = addInputs())
      return error;
    for (auto &[name, tensor] : initializers)
      if (tensor)
        graph.addInitializer(name, tensor->type, std::move(tensor->data));
    if (llvm::Error error = addNodes())
      return error;
    if (llvm::Error error = addOutputs())
      return error;
    return declaredTypes();
  }

private:
  /// Who makes a value, and where it stands in its list, from 1.
  struct Maker {
    std::string text;
    const char *kind;
    int number;
    std::string place() const {
      return std::string(" (") + kind + " " + std::to_string(number) + ")";
    }
  };

  /// Every value has one maker: an input, an initializer or a node.
  llvm::Error define(llvm::StringRef name, const Maker &maker) {
    if (name.empty())
      return makeError(maker.text + " has no name");
    auto [known, isNew] = makers.try_emplace(name, maker);
    if (isNew)
      return llvm::Error::success();
    const Maker &first = known->second;
    bool isAlike = first.text == maker.text; // then only places tell them apart
    return makeError("'" + name + "' is made twice, as " + first.text +
                     (isAlike ? first.place() : "") + " and as " + maker.text +
                     (isAlike ? maker.place() : ""));
  }

  llvm::Error readInitializers() {
    if (proto.sparse_initializer_size() > 0)
      return makeError("initializer '" +
                       proto.sparse_initializer(0).values().name() +
                       "' is sparse, which is not supported");
    int number = 0;
    for (onnx::TensorProto &tensor : *proto.mutable_initializer()) {
      std::string name = tensor.name();
      if (llvm::Error error = define(
              name, {"initializer '" + name + "'", "initializer", ++number}))
        return error;
      llvm::Expected<ReadTensor> read =
          readTensor(tensor, files, "initializer '" + name + "'");
      if (!read)
        return read.takeError();
      initializerIndex[name] = initializers.size();
      initializers.push_back({name, std::move(*read)});
    }
    return llvm::Error::success();
  }

  llvm::Error addInputs() {
    int number = 0;
    for (const onnx::ValueInfoProto &input : proto.input()) {
      std::string name = input.name(), label = "input '" + name + "'";
      ++number;
      llvm::Expected<TensorType> type = typeFromProto(input.type(), label);
      if (!type)
        return type.takeError();
      auto index = initializerIndex.find(name);
      if (index == initializerIndex.end()) {
        if (llvm::Error error = define(name, {label, "input", number}))
          return error;
        graph.addInput(name, std::move(*type));
        continue;
      }
      std::optional<ReadTensor> &tensor = initializers[index->second].second;
      if (!tensor)
        return makeError("'" + name + "' is listed twice as an input");
      if (llvm::Error error = checkDefault(label, *type, tensor->type))
        return error;
      // Before IR version 4 a constant had to be listed as an input; since then
      // the input's initializer is a default, which a caller may replace.
      if (model.ir_version() < 4)
        continue;
      graph.addInput(name, std::move(*type), std::move(tensor->data));
      tensor.reset();
    }
    return llvm::Error::success();
  }

  llvm::Error checkDefault(llvm::StringRef label, const TensorType &input,
                           const TensorType &tensor) {
    bool fits = input.elem == tensor.elem;
    if (input.hasRank && input.dims.size() != tensor.dims.size())
      fits = false;
    for (size_t i = 0; fits && i < input.dims.size(); ++i)
      fits = !input.dims[i].isStatic() ||
             input.dims[i].bound == tensor.dims[i].bound;
    if (fits)
      return llvm::Error::success();
    return makeError(label + " is declared " + typeText(input) +
                     ", and its initializer is " + typeText(tensor));
  }

  llvm::Error addNodes() {
    std::vector<onnx::NodeProto *> nodes;
    int number = 0;
    for (onnx::NodeProto &node : *proto.mutable_node()) {
      ++number;
      node.set_domain(normalizedDomain(node.domain()));
      if (node.domain().empty() && node.op_type() == "Constant") {
        if (llvm::Error error = addConstant(node, number))
          return error;
        continue;
      }
      for (const std::string &output : node.output())
        if (!output.empty())
          if (llvm::Error error = define(
                  output, {"a result of " + nodeLabel(node), "node", number}))
            return error;
      nodes.push_back(&node);
    }
    nameNodes(nodes);
    bool keepOrder = graph.form != Form::Imported;
    if (llvm::Error error = orderNodes(graph, nodes, keepOrder))
      return error;
    for (onnx::NodeProto *node : nodes)
      if (llvm::Error error = addNode(*node))
        return error;
    return llvm::Error::success();
  }

  llvm::Error addConstant(onnx::NodeProto &node, int number) {
    std::string label = nodeLabel(node) + " (Constant)";
    if (node.output_size() != 1 || node.attribute_size() != 1)
      return makeError(label + " does not have one output and one value");
    if (llvm::Error error = define(node.output(0), {label, "node", number}))
      return error;
    llvm::Expected<ReadTensor> tensor =
        readConstant(*node.mutable_attribute(0), label);
    if (!tensor)
      return tensor.takeError();
    graph.addInitializer(node.output(0), tensor->type, std::move(tensor->data));
    return llvm::Error::success();
  }

  llvm::Expected<ReadTensor> readConstant(onnx::AttributeProto &value,
                                          llvm::StringRef label) {
    if (value.name() == "value" && value.type() == onnx::AttributeProto::TENSOR)
      return readTensor(*value.mutable_t(), files, label);
    onnx::TensorProto tensor;
    if (value.name() == "value_int" || value.name() == "value_ints") {
      tensor.set_data_type(onnx::TensorProto::INT64);
      *tensor.mutable_int64_data() = value.ints();
      if (value.name() == "value_int")
        tensor.add_int64_data(value.i());
      else
        tensor.add_dims(value.ints_size());
    } else if (value.name() == "value_float" ||
               value.name() == "value_floats") {
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      *tensor.mutable_float_data() = value.floats();
      if (value.name() == "value_float")
        tensor.add_float_data(value.f());
      else
        tensor.add_dims(value.floats_size());
    } else {
      return makeError(label + " has its value in attribute '" + value.name() +
                       "', which is not supported");
    }
    return readTensor(tensor, files, label);
  }

  llvm::Error addNode(onnx::NodeProto &node) {
    std::string label = nodeLabel(node);
    if (llvm::Error error = refuseControlFlow(node, label))
      return error;
    if (!graph.opsets.contains(node.domain()))
      return makeError(label + " uses operator " + node.op_type() +
                       " of domain '" + node.domain() +
                       "', which the model does not import");
    std::vector<Value *> operands;
    for (const std::string &input : node.input())
      operands.push_back(input.empty() ? nullptr : graph.findValue(input));
    std::vector<std::string> results(node.output().begin(),
                                     node.output().end());
    Node *made = graph.addNode(node.name(), node.domain(), node.op_type(),
                               operands, results);
    made->overload = node.overload();
    if (llvm::Error error = resolveOperator(graph, *made))
      return error;
    try {
      onnx::checker::check_node(node, checker, {});
    } catch (const std::exception &error) {
      return makeError(label + " (" + node.op_type() +
                       ") is not valid: " + describe(error));
    }
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      llvm::Expected<AttributeValue> value = readAttribute(
          attribute, files, label + " attribute '" + attribute.name() + "'");
      if (!value)
        return value.takeError();
      made->attributes[attribute.name()] = std::move(*value);
    }
    return llvm::Error::success();
  }

  llvm::Error refuseControlFlow(const onnx::NodeProto &node,
                                llvm::StringRef label) {
    if (!node.domain().empty())
      return llvm::Error::success();
    const char *kind =
        llvm::StringSwitch<const char *>(node.op_type())
            .Cases("If", "Loop", "Scan", "SequenceMap", "control flow is")
            .Cases("SequenceAt", "SequenceConstruct", "SequenceEmpty",
                   "SequenceErase", "SequenceInsert", "SequenceLength",
                   "SplitToSequence", "ConcatFromSequence", "sequences are")
            .Cases("Optional", "OptionalGetElement", "OptionalHasElement",
                   "optional values are")
            .Default(nullptr);
    if (!kind)
      return llvm::Error::success();
    return makeError(label + " uses operator " + node.op_type() + ": " + kind +
                     " not supported yet");
  }

  llvm::Error addOutputs() {
    llvm::StringSet<> seen;
    for (const onnx::ValueInfoProto &output : proto.output()) {
      Value *value = graph.findValue(output.name());
      if (!value)
        return makeError("output '" + output.name() +
                         "' is made by nothing in the graph");
      if (!seen.insert(output.name()).second)
        return makeError("output '" + output.name() + "' is listed twice");
      graph.addOutput(value);
    }
    if (graph.outputs().empty())
      return makeError("the model has no output");
    return llvm::Error::success();
  }

  llvm::Expected<DeclaredTypes> declaredTypes() {
    DeclaredTypes declared;
    for (const onnx::ValueInfoProto &info : proto.value_info()) {
      llvm::Expected<TensorType> type =
          typeFromProto(info.type(), "value '" + info.name() + "'");
      // Exporters leave halves of types here; inference fills the gap or says
      // that it cannot.
      if (!type)
        llvm::consumeError(type.takeError());
      else if (graph.findValue(info.name()))
        declared[info.name()] = std::move(*type);
    }
    for (const onnx::ValueInfoProto &output : proto.output()) {
      if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET)
        continue;
      llvm::Expected<TensorType> type =
          typeFromProto(output.type(), "output '" + output.name() + "'");
      if (!type)
        return type.takeError();
      declared[output.name()] = std::move(*type);
    }
    return declared;
  }

  onnx::ModelProto &model;
  onnx::GraphProto &proto;
  ExternalFiles &files;
  Graph &graph;
  onnx::checker::CheckerContext checker;
  llvm::StringMap<Maker> makers; // value -> who makes it
  /// In the model's order; empty where an input took it as its default.
  std::vector<std::pair<std::string, std::optional<ReadTensor>>> initializers;
  llvm::StringMap<size_t> initializerIndex;
};

} // namespace

llvm::Expected<DeclaredTypes> buildGraph(onnx::ModelProto &model,
                                         ExternalFiles &files, Graph &graph) {
  return GraphBuilder(model, files, graph).run();
}

} // namespace offload
