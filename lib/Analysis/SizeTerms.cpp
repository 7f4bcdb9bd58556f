// Arithmetic of sizes that holds whatever dynamic dimensions are.
//
// In:  sizes as numbers times names of dimensions.
// Out: products, quotients where they exist for every size, the sizes that a
//      Reshape gives.
// Not: sums ("seq + 1" is a name like any other); which sizes make a view
//      (ValueLayout).

#include "SizeTerms.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace offload {

SizeTerm times(const SizeTerm &a, const SizeTerm &b) {
  SizeTerm product = a;
  product.factor *= b.factor;
  product.names.append(b.names.begin(), b.names.end());
  llvm::sort(product.names);
  return product;
}

std::optional<SizeTerm> dividedBy(const SizeTerm &a, const SizeTerm &b) {
  if (b.factor == 0 || a.factor % b.factor != 0)
    return std::nullopt;
  SizeTerm rest = a;
  rest.factor /= b.factor;
  for (const std::string &name : b.names) {
    auto found = llvm::find(rest.names, name);
    if (found == rest.names.end())
      return std::nullopt;
    rest.names.erase(found);
  }
  return rest;
}

std::optional<SizeTerm> termOf(const Dim &dim) {
  if (dim.isStatic())
    return SizeTerm{dim.bound, {}};
  if (dim.name.empty())
    return std::nullopt;
  return SizeTerm{1, {dim.name}};
}

std::optional<llvm::SmallVector<SizeTerm, 4>>
reshapedSizes(const TensorType &to, llvm::ArrayRef<SizeTerm> from) {
  llvm::SmallVector<SizeTerm, 4> sizes;
  SizeTerm rest;
  for (const SizeTerm &size : from)
    rest = times(rest, size);
  std::optional<size_t> open;
  for (const Dim &dim : to.dims) {
    std::optional<SizeTerm> size = termOf(dim);
    bool isKnown =
        size && (size->names.empty() || llvm::is_contained(from, *size));
    if (!isKnown && open)
      return std::nullopt;
    if (!isKnown) {
      open = sizes.size();
      sizes.emplace_back();
      continue;
    }
    std::optional<SizeTerm> left = dividedBy(rest, *size);
    if (!left)
      return std::nullopt;
    rest = *left;
    sizes.push_back(*size);
  }
  if (open)
    sizes[*open] = rest;
  else if (!rest.isOne())
    return std::nullopt;
  return sizes;
}

std::optional<int64_t> constantInteger(const Value *value) {
  if (!value || !value->isConstant())
    return std::nullopt;
  llvm::ArrayRef<uint8_t> bytes = value->data.bytes();
  if (value->type.elem == DataType::Int64 && bytes.size() == sizeof(int64_t)) {
    int64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }
  if (value->type.elem == DataType::Int32 && bytes.size() == sizeof(int32_t)) {
    int32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }
  return std::nullopt;
}

} // namespace offload
