// Memory and sizes of tensors that the caller or the library owns.

#include "offload/Runtime/Tensor.h"

#include <algorithm>
#include <cstring>

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

bool sameBits(const TensorMap &a, const TensorMap &b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
        return x.first == y.first && x.second.type == y.second.type &&
               x.second.dims == y.second.dims &&
               !std::memcmp(x.second.bytes.get(), y.second.bytes.get(),
                            static_cast<size_t>(x.second.sizeBytes()));
      });
}

} // namespace offload::rt
