// Answers of ONNX's inference functions: types, contents, symbols.
//
// In:  a node, and the facts of its operands.
// Out: the messages that ONNX's functions read and fill.
// Not: what is made of the answers (InferTypes), computing contents
//      (InferValues).
// How: a type is written twice, by name and at the bound; contents of small
//      constants are read when a function asks for them, so that external
//      data is not touched for nothing.

#include "InferContext.h"

#include "ProtoConvert.h"

#include "llvm/ADT/STLExtras.h"

#include <stdexcept>

namespace offload {

bool isHostType(DataType type) { return isFloating(type) || isIntegral(type); }

ValueFacts &FactTable::of(const Value *value) {
  std::unique_ptr<ValueFacts> &known = facts[value];
  if (known)
    return *known;
  known = std::make_unique<ValueFacts>();
  known->isFixed = value->isConstant();
  return *known;
}

const onnx::TypeProto *FactTable::type(const Value *value, Dims dims) {
  if (!value || value->type.elem == DataType::Undefined)
    return nullptr;
  std::unique_ptr<onnx::TypeProto> &proto =
      of(value).types[static_cast<unsigned>(dims)];
  if (proto)
    return proto.get();
  TensorType type = value->type;
  if (dims == Dims::AtBound)
    for (Dim &dim : type.dims)
      if (dim.bound >= 0)
        dim.name.clear();
  proto = std::make_unique<onnx::TypeProto>();
  typeToProto(type, *proto);
  return proto.get();
}

const HostValue *FactTable::contents(const Value *value, Dims dims) {
  if (!value)
    return nullptr;
  ValueFacts &known = of(value);
  if (!known.contents && value->isConstant() && isHostType(value->type.elem) &&
      value->data.sizeBytes() <= kMostKnownBytes)
    known.contents = HostValue::fromBytes(
        value->type.elem, value->type.dimsAtBound(), value->data.bytes());
  if (!known.contents || (dims == Dims::ByName && !known.isFixed))
    return nullptr;
  return &*known.contents;
}

const onnx::TensorProto *FactTable::tensor(const Value *value, Dims dims) {
  if (!value)
    return nullptr;
  ValueFacts &known = of(value);
  bool isSmallConstant =
      value->isConstant() && value->data.sizeBytes() <= kMostKnownBytes;
  const HostValue *computed = contents(value, dims);
  if (!isSmallConstant && !computed)
    return nullptr;
  if (known.tensor)
    return known.tensor.get();
  known.tensor = std::make_unique<onnx::TensorProto>();
  if (isSmallConstant)
    tensorToProto(value->name(), value->type.elem, value->type.dimsAtBound(),
                  value->data.bytes(), *known.tensor);
  else
    tensorToProto(value->name(), computed->type, computed->dims,
                  computed->toBytes(), *known.tensor);
  return known.tensor.get();
}

AttributeProtos attributeProtos(const Node &node) {
  AttributeProtos protos;
  for (const auto &[name, value] : node.attributes)
    attributeToProto(name, value, protos[name]);
  return protos;
}

static const onnx::AttributeProto *find(const AttributeProtos &attributes,
                                        const std::string &name) {
  auto known = attributes.find(name);
  return known == attributes.end() ? nullptr : &known->second;
}

//===-- NodeInference -----------------------------------------------------===//

const onnx::AttributeProto *
NodeInference::getAttribute(const std::string &name) const {
  return find(attributes, name);
}

const onnx::TypeProto *NodeInference::getInputType(size_t index) const {
  return facts.type(node.operand(index), dims);
}

const onnx::TensorProto *NodeInference::getInputData(size_t index) const {
  return facts.tensor(node.operand(index), dims);
}

onnx::TypeProto *NodeInference::getOutputType(size_t index) {
  if (index >= outputs.size())
    throw std::out_of_range("there is no result " + std::to_string(index));
  return &outputs[index];
}

const onnx::TensorShapeProto *
NodeInference::getSymbolicInput(size_t index) const {
  const Value *value = node.operand(index);
  if (!value)
    return nullptr;
  ValueFacts &known = facts.of(value);
  return known.symbols ? &*known.symbols : nullptr;
}

//===-- NodePropagation ---------------------------------------------------===//

const onnx::AttributeProto *
NodePropagation::getAttribute(const std::string &name) const {
  return find(attributes, name);
}

const onnx::TypeProto *NodePropagation::getInputType(size_t index) const {
  return facts.type(node.operand(index), Dims::ByName);
}

const onnx::TypeProto *NodePropagation::getOutputType(size_t index) const {
  return facts.type(node.result(index), Dims::ByName);
}

const onnx::TensorShapeProto *NodePropagation::getInputData(size_t index) {
  const Value *value = node.operand(index);
  if (!value)
    return nullptr;
  if (ValueFacts &known = facts.of(value); known.symbols)
    return &*known.symbols;
  bool isShape = (value->type.elem == DataType::Int64 ||
                  value->type.elem == DataType::Int32) &&
                 value->type.hasRank && value->type.dims.size() <= 1;
  if (!isShape)
    return nullptr;
  auto shape = std::make_unique<onnx::TensorShapeProto>();
  if (const HostValue *contents = facts.contents(value, Dims::ByName)) {
    for (int64_t element : contents->ints)
      shape->add_dim()->set_dim_value(element);
  } else if (value->type.dims.size() == 1 && value->type.dims[0].isStatic() &&
             value->type.dims[0].bound <= onnx::kMaxMaterializedRank) {
    // As many elements as it has, nothing known of any.
    for (int64_t i = 0; i < value->type.dims[0].bound; ++i)
      shape->add_dim();
  } else {
    return nullptr;
  }
  made.push_back(std::move(shape));
  return made.back().get();
}

void NodePropagation::addOutputData(size_t index,
                                    onnx::TensorShapeProto &&data) {
  if (index == 0)
    result = std::move(data);
}

} // namespace offload
