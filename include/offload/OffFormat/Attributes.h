// Attributes of a node as both halves hold them. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_ATTRIBUTES_H
#define OFFLOAD_OFFFORMAT_ATTRIBUTES_H

#include "offload/OffFormat/DataType.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace offload {

/// A tensor as an attribute holds it.
struct TensorAttribute {
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes; // as in raw_data
  bool operator==(const TensorAttribute &) const = default;
};
using AttributeValue =
    std::variant<int64_t, float, std::string, std::vector<int64_t>,
                 std::vector<float>, std::vector<std::string>, TensorAttribute>;
using AttributeMap = std::map<std::string, AttributeValue, std::less<>>;

/// Typed access with a default; the wrong kind counts as absent.
int64_t intAttribute(const AttributeMap &attributes, std::string_view name,
                     int64_t fallback);
float floatAttribute(const AttributeMap &attributes, std::string_view name,
                     float fallback);
std::string stringAttribute(const AttributeMap &attributes,
                            std::string_view name, std::string_view fallback);
const std::vector<int64_t> *intsAttribute(const AttributeMap &attributes,
                                          std::string_view name);
const std::vector<float> *floatsAttribute(const AttributeMap &attributes,
                                          std::string_view name);
const TensorAttribute *tensorAttribute(const AttributeMap &attributes,
                                       std::string_view name);

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_ATTRIBUTES_H
