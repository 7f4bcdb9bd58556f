// Reads a tensor's contents from raw_data, a typed field or external data.
//
// In:  one TensorProto or AttributeProto.
// Out: little-endian bytes, 4- and 2-bit types packed, as in raw_data.
// Not: which files may be read (ExternalData).
// How: each element type has one typed field, given by onnx.proto; narrow types
//      and the bits of 16- and 8-bit floats come in int32_data, one number an
//      element, or one number a byte for packed types.

#include "TensorReader.h"

#include "ProtoConvert.h"

#include <bit>
#include <cstring>
#include <limits>

namespace offload {

static_assert(std::endian::native == std::endian::little,
              "contents are little-endian in files and used as they are");

namespace {

class ContentsReader {
public:
  ContentsReader(onnx::TensorProto &proto, DataType elem, TensorSize size,
                 const llvm::Twine &where)
      : proto(proto), elem(elem), size(size), where(where) {}

  llvm::Expected<std::vector<uint8_t>> read() {
    if (llvm::Error error = checkFields())
      return error;
    if (!proto.raw_data().empty())
      return readRaw();
    switch (elem) {
    case DataType::Float:
      return readSame<float>(*proto.mutable_float_data());
    case DataType::Double:
      return readSame<double>(*proto.mutable_double_data());
    case DataType::Int64:
      return readSame<int64_t>(*proto.mutable_int64_data());
    case DataType::UInt64:
      return readSame<uint64_t>(*proto.mutable_uint64_data());
    case DataType::UInt32:
      return readNarrow<uint32_t>(*proto.mutable_uint64_data(), 0, UINT32_MAX);
    case DataType::Int32:
      return readSame<int32_t>(*proto.mutable_int32_data());
    case DataType::Int16:
      return readNarrow<int16_t>(*proto.mutable_int32_data(), INT16_MIN,
                                 INT16_MAX);
    case DataType::UInt16:
      return readNarrow<uint16_t>(*proto.mutable_int32_data(), 0, UINT16_MAX);
    case DataType::Float16:
    case DataType::BFloat16:
      // Bits; some writers extend their sign.
      return readNarrow<uint16_t>(*proto.mutable_int32_data(), INT16_MIN,
                                  UINT16_MAX);
    case DataType::Bool:
      return readNarrow<uint8_t>(*proto.mutable_int32_data(), 0, 1);
    case DataType::Int8:
      return readNarrow<int8_t>(*proto.mutable_int32_data(), INT8_MIN,
                                INT8_MAX);
    case DataType::UInt8:
      return readNarrow<uint8_t>(*proto.mutable_int32_data(), 0, UINT8_MAX);
    default:
      // 8-bit floats, and bytes of packed types: bits again.
      return readNarrow<uint8_t>(*proto.mutable_int32_data(), INT8_MIN,
                                 UINT8_MAX);
    }
  }

private:
  /// At most one field holds contents, and it is the one of the type.
  llvm::Error checkFields() {
    struct Field {
      const char *name;
      bool filled;
    };
    const Field fields[] = {{"raw_data", !proto.raw_data().empty()},
                            {"float_data", proto.float_data_size() > 0},
                            {"int32_data", proto.int32_data_size() > 0},
                            {"int64_data", proto.int64_data_size() > 0},
                            {"uint64_data", proto.uint64_data_size() > 0},
                            {"double_data", proto.double_data_size() > 0},
                            {"string_data", proto.string_data_size() > 0}};
    llvm::StringRef expected = typedField();
    const char *first = nullptr;
    for (const Field &field : fields) {
      if (!field.filled)
        continue;
      if (first)
        return makeError(where + " has data in two fields, " + first + " and " +
                         field.name);
      first = field.name;
      if (first != expected && llvm::StringRef(first) != "raw_data")
        return makeError(where + " has elements of type " + dataTypeName(elem) +
                         " in " + first + ", and they belong in " + expected);
    }
    if (!first && size.elements > 0)
      return makeError(where + " has no data");
    return llvm::Error::success();
  }

  llvm::StringRef typedField() const {
    switch (elem) {
    case DataType::Float:
      return "float_data";
    case DataType::Double:
      return "double_data";
    case DataType::Int64:
      return "int64_data";
    case DataType::UInt32:
    case DataType::UInt64:
      return "uint64_data";
    default:
      return "int32_data";
    }
  }

  llvm::Error countError(int64_t has, int64_t needs, const char *what) {
    return makeError(where + " has " + llvm::Twine(has) + " " + what +
                     " of data, and its type and shape need " +
                     llvm::Twine(needs));
  }

  llvm::Expected<std::vector<uint8_t>> readRaw() {
    int64_t has = static_cast<int64_t>(proto.raw_data().size());
    if (has != size.bytes)
      return countError(has, size.bytes, "bytes");
    std::vector<uint8_t> bytes(proto.raw_data().begin(),
                               proto.raw_data().end());
    delete proto.release_raw_data();
    return bytes;
  }

  /// The field's numbers are the elements themselves.
  template <typename T, typename Field>
  llvm::Expected<std::vector<uint8_t>> readSame(Field &field) {
    if (field.size() != size.elements)
      return countError(field.size(), size.elements, "numbers");
    std::vector<uint8_t> bytes(size.bytes);
    if (!bytes.empty())
      std::memcpy(bytes.data(), field.data(), bytes.size());
    Field().Swap(&field);
    return bytes;
  }

  /// Each number of the field is cut to T; it must lie between the two.
  template <typename T, typename Field>
  llvm::Expected<std::vector<uint8_t>> readNarrow(Field &field, int64_t least,
                                                  int64_t most) {
    // A packed type has one number for each of its bytes.
    int64_t needs = size.bytes / static_cast<int64_t>(sizeof(T));
    if (field.size() != needs)
      return countError(field.size(), needs, "numbers");
    std::vector<uint8_t> bytes(size.bytes);
    for (int i = 0; i < field.size(); ++i) {
      auto number = field.Get(i);
      if (!std::in_range<int64_t>(number) ||
          static_cast<int64_t>(number) < least ||
          static_cast<int64_t>(number) > most)
        return makeError(
            where + " has the number " + llvm::Twine(std::to_string(number)) +
            " at " + llvm::Twine(i) + ", which is no " + dataTypeName(elem));
      T narrow = static_cast<T>(number);
      std::memcpy(bytes.data() + i * sizeof(T), &narrow, sizeof(T));
    }
    Field().Swap(&field);
    return bytes;
  }

  onnx::TensorProto &proto;
  DataType elem;
  TensorSize size;
  const llvm::Twine &where;
};

} // namespace

llvm::Expected<ReadTensor> readTensor(onnx::TensorProto &proto,
                                      ExternalFiles &files,
                                      const llvm::Twine &where) {
  llvm::Expected<DataType> elem =
      elementTypeFromProto(proto.data_type(), where);
  if (!elem)
    return elem.takeError();
  std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  llvm::Expected<TensorSize> size = checkedSize(*elem, dims, where);
  if (!size)
    return size.takeError();
  if (proto.has_segment())
    return makeError(where + " is a segment of a tensor, which is not "
                             "supported");

  ReadTensor made;
  made.type.elem = *elem;
  made.type.hasRank = true;
  for (int64_t dim : dims)
    made.type.dims.push_back(Dim{dim, ""});
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    llvm::Expected<TensorData> mapped = files.map(proto, size->bytes, where);
    if (!mapped)
      return mapped.takeError();
    made.data = std::move(*mapped);
    return made;
  }
  llvm::Expected<std::vector<uint8_t>> bytes =
      ContentsReader(proto, *elem, *size, where).read();
  if (!bytes)
    return bytes.takeError();
  made.data = TensorData::owned(std::move(*bytes));
  return made;
}

llvm::Expected<TensorAttribute> readTensorAttribute(onnx::TensorProto &proto,
                                                    ExternalFiles &files,
                                                    const llvm::Twine &where) {
  llvm::Expected<ReadTensor> tensor = readTensor(proto, files, where);
  if (!tensor)
    return tensor.takeError();
  return TensorAttribute{tensor->type.elem, tensor->type.dimsAtBound(),
                         tensor->data.bytes().vec()};
}

llvm::Expected<AttributeValue> readAttribute(onnx::AttributeProto &proto,
                                             ExternalFiles &files,
                                             const llvm::Twine &where) {
  using onnx::AttributeProto;
  if (!proto.ref_attr_name().empty())
    return makeError(where + " refers to attribute '" + proto.ref_attr_name() +
                     "' of a function, and stands in none");
  switch (proto.type()) {
  case AttributeProto::INT:
    return AttributeValue(static_cast<int64_t>(proto.i()));
  case AttributeProto::FLOAT:
    return AttributeValue(proto.f());
  case AttributeProto::STRING:
    return AttributeValue(proto.s());
  case AttributeProto::INTS:
    return AttributeValue(
        std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
  case AttributeProto::FLOATS:
    return AttributeValue(
        std::vector<float>(proto.floats().begin(), proto.floats().end()));
  case AttributeProto::STRINGS:
    return AttributeValue(std::vector<std::string>(proto.strings().begin(),
                                                   proto.strings().end()));
  case AttributeProto::TENSOR: {
    llvm::Expected<TensorAttribute> tensor =
        readTensorAttribute(*proto.mutable_t(), files, where);
    if (!tensor)
      return tensor.takeError();
    return AttributeValue(std::move(*tensor));
  }
  case AttributeProto::GRAPH:
  case AttributeProto::GRAPHS:
    return makeError(where + " holds a graph: control flow is not supported "
                             "yet");
  default:
    return makeError(
        where + " is of kind " +
        llvm::StringRef(AttributeProto::AttributeType_Name(proto.type())) +
        ", which is not supported");
  }
}

} // namespace offload
