// A tensor on the host that the caller or the library owns. Standard library
// only.

#ifndef OFFLOAD_RUNTIME_TENSOR_H
#define OFFLOAD_RUNTIME_TENSOR_H

#include "offload/OffFormat/DataType.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace offload::rt {

/// Contiguous, row-major; 4-bit types packed as in ONNX's raw_data. Copies
/// share the bytes.
struct Tensor {
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  std::shared_ptr<std::byte[]> bytes;

  static Tensor allocate(DataType type, std::vector<int64_t> dims);
  int64_t numElements() const;
  int64_t sizeBytes() const { return packedBytes(type, numElements()); }
  template <typename T> T *data() const {
    return reinterpret_cast<T *>(bytes.get());
  }
};

using TensorMap = std::map<std::string, Tensor>;

/// Whether names, types, sizes and all bytes are equal.
bool sameBits(const TensorMap &a, const TensorMap &b);

/// Every error of the runtime: one line that names the node, operator and queue
/// (or the feed, or the file), and what to do.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A step was stopped by Session::interrupt().
class Interrupted : public Error {
public:
  using Error::Error;
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_TENSOR_H
