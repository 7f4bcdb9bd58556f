// Turns a graph into an ONNX model.
//
// In:  a graph in any form, and where each constant's contents stand.
// Out: a model that any ONNX tool takes: every decision is a property of the
//      model, and each `offload` operator in use has a function.
// Not: files (ExportData, Export), text (TextLayout).
// How: in one fixed order throughout: nodes as they are issued, properties by
//      name, functions as offFunctions() lists them.

#include "ExportProto.h"

#include "FoldedFunction.h"
#include "ProtoConvert.h"
#include "offload/OffFormat/Properties.h"
#include "offload/Onnx/OffFunctions.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <map>
#include <set>

namespace offload {

/// Overloads and the properties' meaning came with this IR version.
static constexpr int64_t kOldestIrVersion = 10;

/// What a body imports where the model itself uses no standard operator.
static constexpr int64_t kDefaultOpset = 21;

bool isPrintable(DataType type) {
  return elementBits(type) >= 8 && type != DataType::Complex64 &&
         type != DataType::Complex128;
}

namespace {

class ProtoBuilder {
public:
  ProtoBuilder(const Graph &graph, const ProtoOptions &options,
               PlaceOfTensor placeOf)
      : graph(graph), options(options), placeOf(placeOf) {}

  llvm::Expected<onnx::ModelProto> run() {
    addHead();
    addProperties();
    onnx::GraphProto &body = *model.mutable_graph();
    body.set_name(graph.name);
    if (llvm::Error error = addValues(body))
      return error;
    for (const Node &node : graph.nodeList())
      addNode(node, *body.add_node());
    if (llvm::Error error = addFunctions())
      return error;
    return std::move(model);
  }

private:
  int64_t standardOpset() const {
    auto found = graph.opsets.find("");
    return found == graph.opsets.end() ? kDefaultOpset : found->second;
  }

  /// ai.onnx and what nodes use: a domain whose functions were inlined would
  /// only make readers look for its operators.
  void addOpsets() {
    std::set<std::string> used = {""};
    for (const Node &node : graph.nodeList())
      used.insert(node.domain);
    for (const std::string &domain : used) {
      auto known = graph.opsets.find(domain);
      onnx::OperatorSetIdProto &import = *model.add_opset_import();
      import.set_domain(domain);
      import.set_version(domain.empty()                ? standardOpset()
                         : known == graph.opsets.end() ? 1
                                                       : known->second);
    }
  }

  void addHead() {
    model.set_ir_version(std::max(kOldestIrVersion, graph.irVersion));
    addOpsets();
    if (!graph.producerName.empty())
      model.set_producer_name(graph.producerName);
    if (!graph.producerVersion.empty())
      model.set_producer_version(graph.producerVersion);
    if (!graph.docString.empty())
      model.set_doc_string(graph.docString);
  }

  void addProperties() {
    std::map<std::string, std::string> all = graph.modelProperties;
    auto add = [&](std::string_view prefix, llvm::StringRef name,
                   const Properties &properties) {
      if (!properties.empty())
        all[std::string(prefix) + name.str()] = properties.print();
    };
    // A plain model has no form: Imported is what no property says.
    if (graph.form != Form::Imported)
      all[std::string(kFormKey)] = formName(graph.form).str();
    for (const auto &[name, properties] : graph.inserts)
      add(kInsertPrefix, name, properties);
    for (const auto &[name, properties] : graph.plannedValues)
      add(kValuePrefix, name, properties);
    for (const auto &[input, output] : graph.states)
      all[std::string(kStatePrefix) + input] = output;
    for (const Node &node : graph.nodeList()) {
      add(kNodePrefix, node.name(), node.properties);
      for (const Value *result : node.results())
        if (result)
          add(kValuePrefix, result->name(), result->properties);
    }
    for (const Value *input : graph.inputs())
      add(kValuePrefix, input->name(), input->properties);
    for (const Value *constant : graph.initializers())
      add(kValuePrefix, constant->name(), constant->properties);

    for (const auto &[key, value] : all) {
      onnx::StringStringEntryProto &entry = *model.add_metadata_props();
      entry.set_key(key);
      entry.set_value(value);
    }
  }

  static void setInfo(const Value &value, onnx::ValueInfoProto &info) {
    info.set_name(value.name().str());
    typeToProto(value.type, *info.mutable_type());
  }

  llvm::Error addTensor(const Value &value, onnx::TensorProto &tensor) {
    // The default of an input with dynamic dimensions may be smaller than they
    // are planned for, and then nothing says what its shape is.
    if (!value.type.isBounded() ||
        value.type.bytesAtBound() != value.data.sizeBytes())
      return makeError("the contents of '" + value.name() + "' are " +
                       llvm::Twine(value.data.sizeBytes()) +
                       " bytes, which is not what its shape takes");
    std::vector<int64_t> dims = value.type.dimsAtBound();
    TensorPlace place = placeOf(value);
    if (place.isInline) {
      tensorToProto(value.name(), value.type.elem, dims, value.data.bytes(),
                    tensor);
      return llvm::Error::success();
    }
    tensor.set_name(value.name().str());
    tensor.set_data_type(static_cast<int32_t>(value.type.elem));
    tensor.mutable_dims()->Add(dims.begin(), dims.end());
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char *key, const std::string &text) {
      onnx::StringStringEntryProto &entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(text);
    };
    add("location", place.location);
    add("offset", std::to_string(place.offset));
    add("length", std::to_string(value.data.sizeBytes()));
    return llvm::Error::success();
  }

  llvm::Error addValues(onnx::GraphProto &body) {
    for (const Value *input : graph.inputs()) {
      setInfo(*input, *body.add_input());
      if (input->data.empty())
        continue;
      if (llvm::Error error = addTensor(*input, *body.add_initializer()))
        return error;
    }
    for (const Value *output : graph.outputs())
      setInfo(*output, *body.add_output());
    for (const Value *constant : graph.initializers())
      if (llvm::Error error = addTensor(*constant, *body.add_initializer()))
        return error;
    if (!options.valueInfo)
      return llvm::Error::success();
    for (const Node &node : graph.nodeList())
      for (const Value *result : node.results())
        if (result && result->type.elem != DataType::Undefined &&
            !graph.isOutput(result))
          setInfo(*result, *body.add_value_info());
    return llvm::Error::success();
  }

  void addNode(const Node &node, onnx::NodeProto &proto) {
    proto.set_name(node.name().str());
    proto.set_op_type(node.opType);
    if (!node.domain.empty())
      proto.set_domain(node.domain);
    if (!node.overload.empty())
      proto.set_overload(node.overload);
    for (const Value *operand : node.operands())
      proto.add_input(operand ? operand->name().str() : std::string());
    for (const Value *result : node.results())
      proto.add_output(result ? result->name().str() : std::string());
    for (const auto &[name, value] : node.attributes)
      attributeToProto(name, value, *proto.add_attribute());
  }

  llvm::Error addFunctions() {
    // Bit i: part i of some copy has a 2- or 4-bit type.
    llvm::DenseMap<const OffFunction *, uint32_t> used;
    for (const Node &node : graph.nodeList()) {
      if (node.domain != "offload")
        continue;
      const OffFunction *function = findOffFunction(node.opType, node.overload);
      if (!function)
        return makeError("[" + node.name() + "] is offload." + node.opType +
                         (node.overload.empty() ? "" : ":" + node.overload) +
                         ", an operator that has no function");
      uint32_t &subByte = used[function];
      // A Release copies nothing, but names a value.
      for (unsigned i = 0; i < std::max(function->parts, 1u); ++i)
        if (const Value *part = node.operand(i))
          if (unsigned bits = elementBits(part->type.elem))
            subByte |= uint32_t(bits < 8) << i;
    }
    for (const OffFunction &function : offFunctions())
      if (auto found = used.find(&function); found != used.end())
        *model.add_functions() =
            offFunctionProto(function, standardOpset(), found->second);
    if (!graph.folded.empty())
      *model.add_functions() = foldedFunctionProto(graph, standardOpset());
    return llvm::Error::success();
  }

  const Graph &graph;
  const ProtoOptions &options;
  PlaceOfTensor placeOf;
  onnx::ModelProto model;
};

} // namespace

llvm::Expected<onnx::ModelProto> graphToProto(const Graph &graph,
                                              const ProtoOptions &options,
                                              PlaceOfTensor placeOf) {
  return ProtoBuilder(graph, options, placeOf).run();
}

} // namespace offload
