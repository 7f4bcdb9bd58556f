// Types, shapes, tensors and attributes between messages and the graph.
//
// In:  one message, or one of the graph's values.
// Out: the other form, or an error that names whose it is.
// Not: contents in typed fields and external data (TensorReader,
//      ExternalData), whole models (Import, Export).

#include "ProtoConvert.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cstring>

namespace offload {

std::string normalizedDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? std::string() : domain.str();
}

std::string protoTypeName(int32_t dataType) {
  if (!onnx::TensorProto_DataType_IsValid(dataType))
    return "type " + std::to_string(dataType);
  return llvm::StringRef(onnx::TensorProto_DataType_Name(
                             static_cast<onnx::TensorProto_DataType>(dataType)))
      .lower();
}

llvm::Expected<DataType> elementTypeFromProto(int32_t dataType,
                                              const llvm::Twine &where) {
  auto type = static_cast<DataType>(dataType);
  switch (type) {
  case DataType::Undefined:
    return makeError(where + " has no element type");
  case DataType::String:
  case DataType::Complex64:
  case DataType::Complex128:
    return makeError(where + " has elements of type " +
                     protoTypeName(dataType) + ", which is not supported");
  default:
    break;
  }
  if (dataType < 0 || dataType > static_cast<int32_t>(DataType::Int2))
    return makeError(where + " has elements of type " +
                     protoTypeName(dataType) + ", which is not supported");
  return type;
}

std::string typeText(const TensorType &type) {
  std::string text(dataTypeName(type.elem));
  if (!type.hasRank)
    return text;
  std::vector<std::string> dims;
  for (const Dim &dim : type.dims)
    dims.push_back(!dim.name.empty() ? dim.name
                   : dim.bound >= 0  ? std::to_string(dim.bound)
                                     : "?");
  return text + "[" + llvm::join(dims, ",") + "]";
}

/// Multiplies sizes; nothing where the product passes 63 bits.
static std::optional<int64_t> product(llvm::ArrayRef<int64_t> factors) {
  int64_t result = 1;
  for (int64_t factor : factors) {
    // A zero makes all of it zero, however large the others are.
    if (factor == 0)
      return 0;
  }
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result))
      return std::nullopt;
  return result;
}

static std::string dimsText(llvm::ArrayRef<int64_t> dims) {
  std::vector<std::string> texts;
  for (int64_t dim : dims)
    texts.push_back(std::to_string(dim));
  return "[" + llvm::join(texts, ",") + "]";
}

llvm::Expected<TensorSize> checkedSize(DataType elem,
                                       llvm::ArrayRef<int64_t> dims,
                                       const llvm::Twine &where) {
  for (int64_t dim : dims)
    if (dim < 0)
      return makeError(where + " has the shape " + dimsText(dims) +
                       ", and a size cannot be negative");
  std::optional<int64_t> elements = product(dims);
  constexpr int64_t kLargestElementBytes = 16;
  if (!elements || *elements > INT64_MAX / kLargestElementBytes)
    return makeError(where + " has the shape " + dimsText(dims) +
                     ", which is more than can be counted in bytes");
  int64_t bytes = packedBytes(elem, *elements);
  if (bytes > kMostTensorBytes)
    return makeError(where + " has the shape " + dimsText(dims) +
                     ", which is " + llvm::Twine(bytes) +
                     " bytes, and a process can address no more than " +
                     llvm::Twine(kMostTensorBytes));
  return TensorSize{*elements, bytes};
}

llvm::Expected<TensorType> typeFromProto(const onnx::TypeProto &proto,
                                         const llvm::Twine &where) {
  switch (proto.value_case()) {
  case onnx::TypeProto::kTensorType:
    break;
  case onnx::TypeProto::VALUE_NOT_SET:
    return makeError(where + " has no type");
  case onnx::TypeProto::kSequenceType:
  case onnx::TypeProto::kMapType:
  case onnx::TypeProto::kOptionalType:
    return makeError(where + " is a sequence, map or optional: like control "
                             "flow, these are not supported yet");
  default:
    return makeError(where + " is no dense tensor, which is not supported");
  }
  const onnx::TypeProto::Tensor &tensor = proto.tensor_type();
  llvm::Expected<DataType> elem =
      elementTypeFromProto(tensor.elem_type(), where);
  if (!elem)
    return elem.takeError();
  TensorType type;
  type.elem = *elem;
  if (!tensor.has_shape())
    return type;
  type.hasRank = true;
  llvm::SmallVector<int64_t, 4> known;
  for (const onnx::TensorShapeProto::Dimension &dim : tensor.shape().dim()) {
    Dim &made = type.dims.emplace_back();
    // Some exporters write -1 for a size that they do not know.
    if (dim.has_dim_value() && dim.dim_value() == Dim::kUnbound)
      continue;
    if (dim.has_dim_value()) {
      made.bound = dim.dim_value();
      known.push_back(made.bound);
    } else {
      made.name = dim.dim_param();
    }
  }
  if (llvm::Error error = checkedSize(type.elem, known, where).takeError())
    return error;
  return type;
}

void typeToProto(const TensorType &type, onnx::TypeProto &proto) {
  onnx::TypeProto::Tensor &tensor = *proto.mutable_tensor_type();
  tensor.Clear();
  tensor.set_elem_type(static_cast<int32_t>(type.elem));
  if (!type.hasRank)
    return;
  onnx::TensorShapeProto &shape = *tensor.mutable_shape();
  for (const Dim &dim : type.dims) {
    onnx::TensorShapeProto::Dimension &made = *shape.add_dim();
    if (!dim.name.empty())
      made.set_dim_param(dim.name);
    else if (dim.bound >= 0)
      made.set_dim_value(dim.bound);
  }
}

void tensorToProto(llvm::StringRef name, DataType elem,
                   llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<uint8_t> bytes,
                   onnx::TensorProto &proto) {
  proto.Clear();
  if (!name.empty())
    proto.set_name(name.str());
  proto.set_data_type(static_cast<int32_t>(elem));
  for (int64_t dim : dims)
    proto.add_dims(dim);
  proto.set_raw_data(bytes.data(), bytes.size());
}

namespace {

/// Writes each kind of attribute value into its field.
struct AttributeWriter {
  onnx::AttributeProto &proto;

  void operator()(int64_t value) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(float value) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(value);
  }
  void operator()(const std::string &value) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<int64_t> &values) {
    proto.set_type(onnx::AttributeProto::INTS);
    proto.mutable_ints()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<float> &values) {
    proto.set_type(onnx::AttributeProto::FLOATS);
    proto.mutable_floats()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string> &values) {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string &value : values)
      proto.add_strings(value);
  }
  void operator()(const TensorAttribute &value) {
    proto.set_type(onnx::AttributeProto::TENSOR);
    tensorToProto("", value.type, value.dims, value.bytes, *proto.mutable_t());
  }
};

} // namespace

void attributeToProto(llvm::StringRef name, const AttributeValue &value,
                      onnx::AttributeProto &proto) {
  proto.Clear();
  proto.set_name(name.str());
  std::visit(AttributeWriter{proto}, value);
}

std::string describe(const std::exception &error) {
  llvm::StringRef text = error.what();
  // "/path/to/file.cc:123: function: Assertion `...` failed: message"
  size_t failed = text.find("failed: ");
  if (failed != llvm::StringRef::npos && text.contains("Assertion `"))
    text = text.drop_front(failed + std::strlen("failed: "));
  text.consume_front("[TypeInferenceError] ");
  text.consume_front("[ShapeInferenceError] ");
  return text.trim().str();
}

} // namespace offload
