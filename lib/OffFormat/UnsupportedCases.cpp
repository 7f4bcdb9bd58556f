// Cases of covered operators that no kernel covers, told from attributes alone.
//
// In:  a row, the since-version in force, a node's attributes.
// Out: one line that names the attribute and its value, or an empty text.
// Not: types (OperatorInfo::supportsType) and shapes (the kernels).
// How: one small function for each operator that has such a case. Every case
//      here has its refusal test; every case not here has a kernel.

#include "offload/OffFormat/Operators.h"

#include <algorithm>
#include <array>

namespace offload {

namespace {

const std::string *text(const AttributeMap &attributes, std::string_view name) {
  auto it = attributes.find(name);
  return it == attributes.end() ? nullptr
                                : std::get_if<std::string>(&it->second);
}

int64_t number(const AttributeMap &attributes, std::string_view name,
               int64_t fallback) {
  auto it = attributes.find(name);
  if (it == attributes.end())
    return fallback;
  const int64_t *value = std::get_if<int64_t>(&it->second);
  return value ? *value : fallback;
}

std::string refuse(std::string_view name, std::string_view value) {
  return "attribute " + std::string(name) + "=" + std::string(value) +
         " is not supported";
}

/// Refuses a text attribute whose value is in none of `known`.
template <size_t N>
std::string oneOf(const AttributeMap &attributes, std::string_view name,
                  const std::array<std::string_view, N> &known) {
  const std::string *value = text(attributes, name);
  if (!value || std::find(known.begin(), known.end(), *value) != known.end())
    return {};
  return refuse(name, *value);
}

bool canHold(int64_t number) {
  auto type = static_cast<DataType>(number);
  return isFloating(type) || isIntegral(type);
}

/// Refuses an element type that kernels do not produce.
std::string typeAttribute(const AttributeMap &attributes,
                          std::string_view name) {
  int64_t type = number(attributes, name, 0);
  if (type == 0 || canHold(type))
    return {};
  std::string_view spelled = dataTypeName(static_cast<DataType>(type));
  return refuse(name, spelled);
}

std::string resize(const AttributeMap &attributes) {
  constexpr std::array<std::string_view, 3> kModes = {"nearest", "linear",
                                                      "cubic"};
  constexpr std::array<std::string_view, 6> kTransforms = {
      "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
      "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};
  std::string why = oneOf(attributes, "mode", kModes);
  if (why.empty())
    why = oneOf(attributes, "coordinate_transformation_mode", kTransforms);
  if (why.empty() && number(attributes, "antialias", 0) != 0)
    why = refuse("antialias", "1");
  return why;
}

std::string floatOutput(const AttributeMap &attributes, std::string_view name) {
  int64_t type = number(attributes, name, 0);
  if (type == 0 || isFloating(static_cast<DataType>(type)))
    return {};
  return refuse(name, dataTypeName(static_cast<DataType>(type)));
}

std::string quantizedOutput(const AttributeMap &attributes) {
  int64_t type = number(attributes, "output_dtype", 0);
  switch (static_cast<DataType>(type)) {
  case DataType::Undefined:
  case DataType::Int8:
  case DataType::UInt8:
  case DataType::Int16:
  case DataType::UInt16:
  case DataType::Int4:
  case DataType::UInt4:
    break;
  default:
    return refuse("output_dtype", dataTypeName(static_cast<DataType>(type)));
  }
  return {};
}

std::string training(const AttributeMap &attributes, unsigned numOutputs) {
  if (number(attributes, "training_mode", 0) != 0)
    return refuse("training_mode", "1");
  if (numOutputs > 1)
    return "the outputs of training mode are not supported";
  return {};
}

/// The value of ConstantOfShape.
std::string filling(const AttributeMap &attributes) {
  auto it = attributes.find("value");
  const TensorAttribute *value =
      it == attributes.end() ? nullptr
                             : std::get_if<TensorAttribute>(&it->second);
  if (!value || canHold(static_cast<int64_t>(value->type)))
    return {};
  return "a value of type " + std::string(dataTypeName(value->type)) +
         " is not supported";
}

std::string constant(const AttributeMap &attributes) {
  for (std::string_view name :
       {"sparse_value", "value_string", "value_strings"})
    if (attributes.count(name))
      return "attribute " + std::string(name) + " is not supported";
  return {};
}

} // namespace

std::string unsupportedReason(const OperatorInfo &op, int /*sinceVersion*/,
                              const AttributeMap &attributes,
                              unsigned numOutputs) {
  switch (op.id) {
  case Op::Resize:
    return resize(attributes);
  case Op::Cast:
    return typeAttribute(attributes, "to");
  case Op::EyeLike:
    return typeAttribute(attributes, "dtype");
  case Op::BatchNormalization:
    return training(attributes, numOutputs);
  case Op::DequantizeLinear:
    return floatOutput(attributes, "output_dtype");
  case Op::QuantizeLinear:
    return quantizedOutput(attributes);
  case Op::ConstantOfShape:
    return filling(attributes);
  case Op::Constant:
    return constant(attributes);
  default:
    return {};
  }
}

} // namespace offload
