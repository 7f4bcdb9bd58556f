// Element types of tensors and how many bytes a tensor takes.
//
// The numbers are those of onnx.TensorProto.DataType, so a value of the enum
// may be written to and read from a model as it is. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_DATATYPE_H
#define OFFLOAD_OFFFORMAT_DATATYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace offload {

enum class DataType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
};

/// Bits of one element as stored in raw_data: 4 for the 4-bit types (two a
/// byte, the first in the low half), 0 for String and Undefined, which have no
/// fixed size.
unsigned elementBits(DataType type);

/// Bytes of `count` elements, packed as in raw_data (the last byte may be
/// partly used). `count` must not be negative.
int64_t packedBytes(DataType type, int64_t count);

/// ONNX's text name ("float", "bfloat16", "int4"); "undefined" for others.
std::string_view dataTypeName(DataType type);

/// Inverse of dataTypeName.
std::optional<DataType> parseDataType(std::string_view name);

inline bool isFloating(DataType type) {
  return type == DataType::Float || type == DataType::Double ||
         type == DataType::Float16 || type == DataType::BFloat16;
}

/// Whole numbers of whole bytes, and bool. What neither this nor isFloating
/// names takes part in no arithmetic: it is copied, or expanded to one that
/// does.
inline bool isIntegral(DataType type) {
  switch (type) {
  case DataType::Bool:
  case DataType::Int8:
  case DataType::Int16:
  case DataType::Int32:
  case DataType::Int64:
  case DataType::UInt8:
  case DataType::UInt16:
  case DataType::UInt32:
  case DataType::UInt64:
    return true;
  default:
    return false;
  }
}

/// Every offset in the arena and every part of a copy of several values is a
/// multiple of this many bytes.
inline constexpr int64_t kAlignBytes = 512;

inline constexpr int64_t alignUp(int64_t bytes) {
  return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_DATATYPE_H
