// Sizes of tensors at the bound of their dimensions, and contents of constants.
//
// In:  element types and dimensions, owned bytes, ranges of mapped files.
// Out: byte counts and bytes as in raw_data.
// Not: where dimensions come from (Onnx/InferTypes), who maps files
//      (Onnx/ExternalData).

#include "offload/IR/Graph.h"
#include "offload/IR/MappedFile.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

namespace offload {

bool TensorType::isBounded() const {
  return elem != DataType::Undefined && hasRank &&
         llvm::all_of(dims, [](const Dim &dim) { return dim.bound >= 0; });
}

int64_t TensorType::bytesAtBound() const {
  assert(isBounded() && "a dimension has no bound");
  int64_t elements = 1;
  for (const Dim &dim : dims) {
    if (dim.bound == 0) // however large the others are
      return 0;
    elements *= dim.bound;
  }
  return packedBytes(elem, elements);
}

std::vector<int64_t> TensorType::dimsAtBound() const {
  std::vector<int64_t> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.bound);
  return sizes;
}

TensorData TensorData::owned(std::vector<uint8_t> bytes) {
  TensorData data;
  data.numBytes = static_cast<int64_t>(bytes.size());
  data.storage = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return data;
}

TensorData TensorData::mapped(std::shared_ptr<const MappedFile> file,
                              std::string location, int64_t offset,
                              int64_t bytes) {
  assert(offset >= 0 && bytes >= 0 && offset <= file->sizeBytes() &&
         bytes <= file->sizeBytes() - offset && "range lies outside the file");
  TensorData data;
  data.file = std::move(file);
  data.path = std::move(location);
  data.offset = offset;
  data.numBytes = bytes;
  return data;
}

llvm::ArrayRef<uint8_t> TensorData::bytes() const {
  if (file)
    return file->bytes(offset, numBytes);
  if (storage)
    return *storage;
  return {};
}

} // namespace offload
