// Memory and sizes of tensors that the caller or the library owns.

#include "offload/Runtime/Tensor.h"

namespace offload::rt {

Tensor Tensor::allocate(DataType type, std::vector<int64_t> dims) {
  Tensor tensor;
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.bytes = std::shared_ptr<std::byte[]>(
      new std::byte[static_cast<size_t>(tensor.sizeBytes())]);
  return tensor;
}

int64_t Tensor::numElements() const {
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  return count;
}

} // namespace offload::rt
