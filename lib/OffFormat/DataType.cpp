// Sizes and names of element types.
//
// In:  a type number of ONNX.
// Out: bits and bytes as in raw_data, ONNX's text name and back.

#include "offload/OffFormat/DataType.h"

#include <cassert>

namespace offload {

namespace {

struct TypeRow {
  std::string_view name;
  unsigned bits;
};

/// By number of the type.
constexpr TypeRow kTypes[] = {
    {"undefined", 0},      {"float", 32},     {"uint8", 8},
    {"int8", 8},           {"uint16", 16},    {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"string", 0},
    {"bool", 8},           {"float16", 16},   {"double", 64},
    {"uint32", 32},        {"uint64", 64},    {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16},  {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4},          {"int4", 4},       {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},      {"int2", 2},
};
constexpr int32_t kNumTypes = sizeof(kTypes) / sizeof(kTypes[0]);

/// A number read from a file may be none of the enum's.
const TypeRow &rowOf(DataType type) {
  auto number = static_cast<int32_t>(type);
  return kTypes[number >= 0 && number < kNumTypes ? number : 0];
}

} // namespace

unsigned elementBits(DataType type) { return rowOf(type).bits; }

int64_t packedBytes(DataType type, int64_t count) {
  assert(count >= 0 && "a tensor has no negative number of elements");
  unsigned bits = elementBits(type);
  if (bits >= 8)
    return count * (bits / 8);
  return bits == 0 ? 0 : (count * bits + 7) / 8;
}

std::string_view dataTypeName(DataType type) { return rowOf(type).name; }

std::optional<DataType> parseDataType(std::string_view name) {
  for (int32_t i = 1; i < kNumTypes; ++i)
    if (kTypes[i].name == name)
      return static_cast<DataType>(i);
  return std::nullopt;
}

} // namespace offload
