// Reads a model file with protobuf into plain data.
//
// In:  a binary ONNX model and its external data.
// Out: RawModel: names, types, attributes, contents.
// Not: what operators, forms and properties mean (Program).
// How: the file is parsed from a mapping, and contents are referred to, not
//      copied, wherever they lie outside of the message.

#include "ProgramReader.h"

#include "FunctionReader.h"

#include <onnx/onnx_pb.h>

#include <charconv>
#include <climits>
#include <cstdint>
#include <cstring>

namespace offload::rt {

namespace {

Dimension dimensionOf(const onnx::TensorShapeProto::Dimension &proto) {
  if (proto.has_dim_value())
    return {proto.dim_value(), ""};
  return {-1, proto.dim_param()};
}

RawType typeOf(const onnx::ValueInfoProto &info) {
  RawType type;
  type.name = info.name();
  if (!info.type().has_tensor_type())
    throw Error("value '" + type.name + "' is no tensor");
  const onnx::TypeProto::Tensor &tensor = info.type().tensor_type();
  if (!tensor.has_shape())
    throw Error("value '" + type.name + "' has no rank");
  type.type = static_cast<DataType>(tensor.elem_type());
  int64_t count = 1;
  for (const auto &dim : tensor.shape().dim()) {
    type.dims.push_back(dimensionOf(dim));
    int64_t size = dim.has_dim_value() ? dim.dim_value() : 1;
    if (size < 0 || __builtin_mul_overflow(count, size, &count) ||
        count > INT64_MAX / 64)
      throw Error("value '" + type.name + "' has a shape that no memory holds");
  }
  return type;
}

int64_t countElements(const onnx::TensorProto &proto,
                      const std::string &where) {
  int64_t count = 1;
  for (int64_t size : proto.dims())
    if (size < 0 || __builtin_mul_overflow(count, size, &count) ||
        count > INT64_MAX / 64)
      throw Error(where + " has a shape that no memory holds");
  return count;
}

/// The elements of a typed field, each in the low bytes of a wider one.
template <typename Field>
std::vector<std::byte> narrowed(const Field &field, size_t bytes) {
  std::vector<std::byte> out;
  out.reserve(bytes * static_cast<size_t>(field.size()));
  for (auto element : field) {
    std::byte raw[sizeof(element)];
    std::memcpy(raw, &element, sizeof(element));
    out.insert(out.end(), raw, raw + bytes);
  }
  return out;
}

std::vector<std::byte> typedContents(const onnx::TensorProto &proto,
                                     DataType type) {
  size_t bytes = std::max(1u, elementBits(type) / 8);
  if (proto.float_data_size())
    return narrowed(proto.float_data(), sizeof(float));
  if (proto.double_data_size())
    return narrowed(proto.double_data(), sizeof(double));
  if (proto.int64_data_size())
    return narrowed(proto.int64_data(), bytes);
  if (proto.uint64_data_size())
    return narrowed(proto.uint64_data(), bytes);
  return narrowed(proto.int32_data(), std::min(bytes, sizeof(int32_t)));
}

std::vector<std::byte> inlineContents(const onnx::TensorProto &proto,
                                      DataType type, int64_t bytes,
                                      const std::string &where) {
  std::vector<std::byte> contents;
  if (proto.has_raw_data()) {
    contents.resize(proto.raw_data().size());
    std::memcpy(contents.data(), proto.raw_data().data(), contents.size());
  } else {
    contents = typedContents(proto, type);
  }
  if (static_cast<int64_t>(contents.size()) != bytes)
    throw Error(where + " holds " + std::to_string(contents.size()) +
                " bytes, and its type and shape take " + std::to_string(bytes));
  return contents;
}

int64_t byteCount(const std::string &text, const std::string &where) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    throw Error(where + " has external data with '" + text +
                "' for a count of bytes");
  return number;
}

ExternalRange externalRange(const onnx::TensorProto &proto,
                            const std::string &where) {
  ExternalRange range;
  range.tensor = proto.name();
  for (const auto &entry : proto.external_data()) {
    if (entry.key() == "location")
      range.location = entry.value();
    else if (entry.key() == "offset")
      range.offset = byteCount(entry.value(), where);
    else if (entry.key() == "length")
      range.length = byteCount(entry.value(), where);
  }
  if (range.location.empty())
    throw Error(where + " has external data without a location");
  return range;
}

RawConstant constantOf(const onnx::TensorProto &proto, DataFiles &files) {
  RawConstant constant;
  constant.type.name = proto.name();
  constant.type.type = static_cast<DataType>(proto.data_type());
  for (int64_t size : proto.dims())
    constant.type.dims.push_back({size, ""});
  std::string where = "tensor '" + proto.name() + "'";
  if (elementBits(constant.type.type) == 0)
    throw Error(where + " has elements of type " +
                std::string(dataTypeName(constant.type.type)) +
                ", which have no fixed size");
  int64_t bytes = packedBytes(constant.type.type, countElements(proto, where));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    constant.contents = files.find(externalRange(proto, where), bytes);
  else
    constant.contents =
        files.keep(inlineContents(proto, constant.type.type, bytes, where));
  return constant;
}

AttributeValue attributeOf(const onnx::AttributeProto &proto,
                           const std::string &node) {
  switch (proto.type()) {
  case onnx::AttributeProto::INT:
    return proto.i();
  case onnx::AttributeProto::FLOAT:
    return proto.f();
  case onnx::AttributeProto::STRING:
    return proto.s();
  case onnx::AttributeProto::INTS:
    return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
  case onnx::AttributeProto::FLOATS:
    return std::vector<float>(proto.floats().begin(), proto.floats().end());
  case onnx::AttributeProto::STRINGS:
    return std::vector<std::string>(proto.strings().begin(),
                                    proto.strings().end());
  case onnx::AttributeProto::TENSOR: {
    const onnx::TensorProto &tensor = proto.t();
    std::string where = "[" + node + "]: attribute '" + proto.name() + "'";
    TensorAttribute attribute;
    attribute.type = static_cast<DataType>(tensor.data_type());
    attribute.dims.assign(tensor.dims().begin(), tensor.dims().end());
    std::vector<std::byte> bytes = inlineContents(
        tensor, attribute.type,
        packedBytes(attribute.type, countElements(tensor, where)), where);
    auto *first = reinterpret_cast<const uint8_t *>(bytes.data());
    attribute.bytes.assign(first, first + bytes.size());
    return attribute;
  }
  default:
    throw Error("[" + node + "]: attribute '" + proto.name() +
                "' is of a kind that no operator here takes");
  }
}

RawNode nodeOf(const onnx::NodeProto &proto) {
  RawNode node;
  node.name = proto.name();
  node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  node.op = proto.op_type();
  node.overload = proto.overload();
  node.operands.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto &attribute : proto.attribute())
    node.attributes[attribute.name()] = attributeOf(attribute, node.name);
  return node;
}

/// Of a model or a function.
template <typename Proto> std::map<std::string, int> opsetsOf(const Proto &in) {
  std::map<std::string, int> opsets;
  for (const auto &import : in.opset_import()) {
    std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    auto version = static_cast<int>(import.version());
    if (opsets.emplace(domain, version).first->second != version)
      throw Error("imports domain '" + domain + "' at two versions");
  }
  return opsets;
}

FoldedFunction foldedOf(const onnx::FunctionProto &proto) {
  FoldedFunction function;
  function.opsets = opsetsOf(proto);
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto &node : proto.node())
    function.nodes.push_back(nodeOf(node));
  return function;
}

onnx::ModelProto parse(const std::string &path) {
  FileMapping file(path);
  onnx::ModelProto model;
  if (file.bytes().size() > INT_MAX)
    throw Error("is over 2 GiB, which no ONNX model is");
  if (!model.ParseFromArray(file.bytes().data(),
                            static_cast<int>(file.bytes().size())) ||
      !model.has_graph())
    throw Error("is no ONNX model, or is cut off");
  return model;
}

} // namespace

RawModel readModel(const std::string &path, DataFiles &files) {
  onnx::ModelProto proto = parse(path);
  RawModel model;
  model.opsets = opsetsOf(proto);
  for (const auto &entry : proto.metadata_props())
    if (!model.properties.emplace(entry.key(), entry.value()).second)
      throw Error("property '" + entry.key() + "' is there twice");
  for (const auto &input : proto.graph().input())
    model.inputs.push_back(typeOf(input));
  for (const auto &output : proto.graph().output())
    model.outputs.push_back(typeOf(output));
  for (const auto &tensor : proto.graph().initializer())
    model.constants.push_back(constantOf(tensor, files));
  for (const auto &node : proto.graph().node())
    model.nodes.push_back(nodeOf(node));
  for (const auto &function : proto.functions())
    if (function.domain() != "offload" || function.name() != "Folded")
      model.functions.push_back({function.domain(), function.name(),
                                 function.overload(), functionText(function),
                                 opsetsOf(function)});
    else if (model.folded)
      throw Error("has the function 'offload.Folded' twice");
    else
      model.folded = foldedOf(function);
  for (const auto &info : proto.graph().value_info())
    if (info.type().has_tensor_type() && info.type().tensor_type().has_shape())
      model.declared.push_back(typeOf(info));
  return model;
}

} // namespace offload::rt
