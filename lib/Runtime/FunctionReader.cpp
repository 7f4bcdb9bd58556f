// Prints functions as withoutBlanks(offFunctionText()) spells them.
//
// In:  a function as protobuf has it.
// Out: its text.
// Not: which functions a file may have (ProgramFunctions).
// How: ONNX's own printer is not part of what the runtime links, and prints
//      more than has meaning. One text for one meaning: contents of constants
//      are printed from their bytes, whichever field holds them.

#include "FunctionReader.h"

#include "offload/OffFormat/DataType.h"

#include <onnx/onnx_pb.h>

#include <cstdio>
#include <cstring>

namespace offload::rt {

namespace {

template <typename List> std::string joined(const List &list) {
  std::string text;
  for (const auto &name : list) {
    text += text.empty() ? "" : ",";
    text += name;
  }
  return text;
}

std::string printNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", number);
  return text;
}

template <typename List> std::string printNumbers(const List &list) {
  std::vector<std::string> texts;
  for (auto number : list)
    texts.push_back(printNumber(static_cast<double>(number)));
  return joined(texts);
}

template <typename T> std::string printBytes(const std::string &bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return printNumbers(numbers);
}

std::string printContents(const onnx::TensorProto &tensor) {
  bool isRaw = tensor.has_raw_data();
  switch (static_cast<DataType>(tensor.data_type())) {
  case DataType::Float:
    return isRaw ? printBytes<float>(tensor.raw_data())
                 : printNumbers(tensor.float_data());
  case DataType::Double:
    return isRaw ? printBytes<double>(tensor.raw_data())
                 : printNumbers(tensor.double_data());
  case DataType::Int64:
    return isRaw ? printBytes<int64_t>(tensor.raw_data())
                 : printNumbers(tensor.int64_data());
  case DataType::Int32:
    return isRaw ? printBytes<int32_t>(tensor.raw_data())
                 : printNumbers(tensor.int32_data());
  case DataType::Bool:
    return isRaw ? printBytes<uint8_t>(tensor.raw_data())
                 : printNumbers(tensor.int32_data());
  default:
    return "?";
  }
}

std::string printTensor(const onnx::TensorProto &tensor) {
  std::string text(dataTypeName(static_cast<DataType>(tensor.data_type())));
  if (tensor.dims_size())
    text += "[" + printNumbers(tensor.dims()) + "]";
  return text + "{" + printContents(tensor) + "}";
}

/// "to:int=11", "alpha:float=@alpha".
std::string printAttribute(const onnx::AttributeProto &attribute) {
  auto print = [&](const char *type, const std::string &value) {
    return attribute.name() + ":" + type + "=" +
           (attribute.ref_attr_name().empty()
                ? value
                : "@" + attribute.ref_attr_name());
  };
  switch (attribute.type()) {
  case onnx::AttributeProto::INT:
    return print("int", printNumber(static_cast<double>(attribute.i())));
  case onnx::AttributeProto::FLOAT:
    return print("float", printNumber(attribute.f()));
  case onnx::AttributeProto::STRING:
    return print("string", "\"" + attribute.s() + "\"");
  case onnx::AttributeProto::INTS:
    return print("ints", "[" + printNumbers(attribute.ints()) + "]");
  case onnx::AttributeProto::FLOATS:
    return print("floats", "[" + printNumbers(attribute.floats()) + "]");
  case onnx::AttributeProto::TENSOR:
    return print("tensor", printTensor(attribute.t()));
  default:
    return attribute.name() + ":?";
  }
}

std::string printNode(const onnx::NodeProto &node) {
  std::string text = joined(node.output()) + "=";
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    text += node.domain() + ".";
  text += node.op_type();
  if (!node.overload().empty())
    text += ":" + node.overload();
  std::vector<std::string> attributes;
  for (const onnx::AttributeProto &attribute : node.attribute())
    attributes.push_back(printAttribute(attribute));
  if (!attributes.empty())
    text += "<" + joined(attributes) + ">";
  return text + "(" + joined(node.input()) + ")";
}

} // namespace

std::string functionText(const onnx::FunctionProto &function) {
  std::vector<std::string> attributes(function.attribute().begin(),
                                      function.attribute().end());
  for (const onnx::AttributeProto &attribute : function.attribute_proto())
    attributes.push_back(printAttribute(attribute));
  std::string text = function.name();
  if (!attributes.empty())
    text += "<" + joined(attributes) + ">";
  text += "(" + joined(function.input()) + ")=>(" + joined(function.output()) +
          "){";
  for (const onnx::NodeProto &node : function.node())
    text += printNode(node);
  return text + "}";
}

} // namespace offload::rt
