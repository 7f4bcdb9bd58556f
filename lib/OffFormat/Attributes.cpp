// Typed look-up of a node's attributes.
//
// In:  the attributes and a name.
// Out: the value where it is there and of the kind asked for.

#include "offload/OffFormat/Attributes.h"

namespace offload {

namespace {

template <typename T>
const T *find(const AttributeMap &attributes, std::string_view name) {
  auto it = attributes.find(name);
  return it == attributes.end() ? nullptr : std::get_if<T>(&it->second);
}

} // namespace

int64_t intAttribute(const AttributeMap &attributes, std::string_view name,
                     int64_t fallback) {
  const int64_t *value = find<int64_t>(attributes, name);
  return value ? *value : fallback;
}

float floatAttribute(const AttributeMap &attributes, std::string_view name,
                     float fallback) {
  const float *value = find<float>(attributes, name);
  return value ? *value : fallback;
}

std::string stringAttribute(const AttributeMap &attributes,
                            std::string_view name, std::string_view fallback) {
  const std::string *value = find<std::string>(attributes, name);
  return value ? *value : std::string(fallback);
}

const std::vector<int64_t> *intsAttribute(const AttributeMap &attributes,
                                          std::string_view name) {
  return find<std::vector<int64_t>>(attributes, name);
}

const std::vector<float> *floatsAttribute(const AttributeMap &attributes,
                                          std::string_view name) {
  return find<std::vector<float>>(attributes, name);
}

const TensorAttribute *tensorAttribute(const AttributeMap &attributes,
                                       std::string_view name) {
  return find<TensorAttribute>(attributes, name);
}

} // namespace offload
