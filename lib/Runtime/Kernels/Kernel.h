// What one kernel sees: its operands, launch values and attributes.
//
// A kernel is the specialization `kernel<Op::Id>` in the file of its kind. It
// returns its outputs as tensors of any layout; the caller makes them
// contiguous and separate. A row without its kernel does not link.

#ifndef OFFLOAD_RUNTIME_KERNELS_KERNEL_H
#define OFFLOAD_RUNTIME_KERNELS_KERNEL_H

#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Tensor.h"

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offload::rt {

using Dims = std::vector<int64_t>;

/// ATen's type for `type`; nothing for those that ATen cannot hold.
std::optional<at::ScalarType> scalarTypeOf(DataType type);
DataType dataTypeOf(at::ScalarType type);

/// One result. A packed type (4-bit) has its bytes in `tensor` (uint8, one
/// dimension) and its shape in `packedDims`.
struct KernelOutput {
  KernelOutput(at::Tensor tensor) : tensor(std::move(tensor)) {}
  KernelOutput(at::Tensor tensor, DataType type, Dims dims)
      : tensor(std::move(tensor)), packedType(type),
        packedDims(std::move(dims)) {}

  at::Tensor tensor;
  DataType packedType = DataType::Undefined;
  Dims packedDims;
};
using KernelOutputs = std::vector<KernelOutput>;

class KernelContext {
public:
  explicit KernelContext(const KernelCall &call) : call(call) {}

  int since() const { return call.sinceVersion; }
  unsigned numOutputs() const { return call.numOutputs; }
  unsigned numOperands() const {
    return static_cast<unsigned>(call.operands.size());
  }
  /// Whether output `i` exists and somebody wants it.
  bool wants(unsigned i) const {
    return i < call.numOutputs && (call.wanted.empty() || call.wanted[i]);
  }
  const KernelPlace &place() const { return call.place; }
  int32_t *problem() const { return call.problem; }
  int64_t plannedScratchBytes() const { return call.plannedScratchBytes; }
  bool deterministic() const { return call.deterministic; }

  /// Whether the operand is there, as data or as a launch value.
  bool has(unsigned i) const;
  DataType type(unsigned i) const { return call.operands[i].type; }
  const Dims &dims(unsigned i) const { return call.operands[i].dims; }
  const TensorView &view(unsigned i) const { return call.operands[i]; }

  /// The operand over its own memory, strides kept. 16- to 64-bit unsigned
  /// integers read as the signed type of the same width: kernels that only
  /// move elements work on both, and the result gets its type back.
  at::Tensor operand(unsigned i) const;
  at::Tensor operator[](unsigned i) const { return operand(i); }
  /// An undefined tensor where the operand is absent.
  at::Tensor optionalOperand(unsigned i) const;
  /// Operand with C-order strides; copies only where it has others.
  at::Tensor contiguous(unsigned i) const { return operand(i).contiguous(); }

  const HostValue *launch(unsigned i) const {
    return i < call.launch.size() ? call.launch[i] : nullptr;
  }
  /// The integers of a launch operand; nothing where it is absent.
  std::optional<Dims> launchInts(unsigned i) const;
  int64_t launchInt(unsigned i, int64_t fallback) const;
  double launchReal(unsigned i, double fallback) const;

  int64_t intAttr(std::string_view name, int64_t fallback) const {
    return intAttribute(*call.attributes, name, fallback);
  }
  float floatAttr(std::string_view name, float fallback) const {
    return floatAttribute(*call.attributes, name, fallback);
  }
  std::string textAttr(std::string_view name, std::string_view fallback) const {
    return stringAttribute(*call.attributes, name, fallback);
  }
  const Dims *intsAttr(std::string_view name) const {
    return intsAttribute(*call.attributes, name);
  }
  const std::vector<float> *floatsAttr(std::string_view name) const {
    return floatsAttribute(*call.attributes, name);
  }
  const TensorAttribute *tensorAttr(std::string_view name) const {
    return tensorAttribute(*call.attributes, name);
  }

private:
  const KernelCall &call;
};

template <Op id> KernelOutputs kernel(const KernelContext &context);
/// The form for devices of a row whose kernel reads elements on the host:
/// DeviceForms.h names these rows.
template <Op id> KernelOutputs deviceKernel(const KernelContext &context);

/// Starts a kernel's definition: OFFLOAD_KERNEL(Relu) { return {...}; }
#define OFFLOAD_KERNEL(Id)                                                     \
  template <> KernelOutputs kernel<Op::Id>(const KernelContext &context)

/// Starts the definition of a form for devices.
#define OFFLOAD_DEVICE_KERNEL(Id)                                              \
  template <> KernelOutputs deviceKernel<Op::Id>(const KernelContext &context)

/// `axis` counted from the front. Throws Error where it is out of range.
int64_t wrapAxis(int64_t axis, int64_t rank);

/// A new contiguous tensor where the kernel of this thread runs.
at::Tensor makeEmpty(at::IntArrayRef dims, at::ScalarType type);

/// A tensor over memory where the kernel of this thread runs.
at::Tensor tensorAt(void *data, at::IntArrayRef dims, at::IntArrayRef strides,
                    at::ScalarType type);

/// Whether the kernel of this thread may not read elements on the host.
bool usesDeviceForms();

/// Product of dims[first, last).
int64_t product(at::IntArrayRef dims, size_t first, size_t last);

/// Calls `body` with a null pointer of the C++ type of the elements.
template <typename Body>
void dispatchFloat(at::ScalarType type, const Body &body) {
  switch (type) {
  case at::kFloat:
    return body(static_cast<float *>(nullptr));
  case at::kDouble:
    return body(static_cast<double *>(nullptr));
  case at::kHalf:
    return body(static_cast<at::Half *>(nullptr));
  case at::kBFloat16:
    return body(static_cast<at::BFloat16 *>(nullptr));
  default:
    throw Error(std::string("does not take elements of type ") +
                c10::toString(type));
  }
}

template <typename Body>
void dispatchNumber(at::ScalarType type, const Body &body) {
  switch (type) {
  case at::kByte:
    return body(static_cast<uint8_t *>(nullptr));
  case at::kChar:
    return body(static_cast<int8_t *>(nullptr));
  case at::kShort:
    return body(static_cast<int16_t *>(nullptr));
  case at::kInt:
    return body(static_cast<int32_t *>(nullptr));
  case at::kLong:
    return body(static_cast<int64_t *>(nullptr));
  default:
    return dispatchFloat(type, body);
  }
}

/// The type in which elements of T are computed.
template <typename T>
using ComputeType = std::conditional_t<
    std::is_same_v<T, at::Half> || std::is_same_v<T, at::BFloat16>, float, T>;

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_KERNEL_H
