// Binds each row of the operator table to its kernel and runs it.
//
// In:  a call (operands as memory, launch values, attributes), and for a real
//      run the profile of its dry run and the places of its outputs.
// Out: outputs at their places; of a dry run, the profile.
// Not: order, queues and names: what fails is thrown without the node's name.
// How: outputs are brought into one form, each contiguous in a request of its
//      own, so that placing that request places the output.

#include "Allocation.h"
#include "CudaKernels.h"
#include "DeviceForms.h"
#include "Kernel.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <cstring>
#include <numeric>

namespace offload::rt {

namespace {

using KernelFunction = KernelOutputs (*)(const KernelContext &);

constexpr bool runsKernel(Op id, Queue queue) {
  return (queue == Queue::Compute || queue == Queue::Host) &&
         id != Op::Offload_Wait && id != Op::Offload_Release;
}

template <Op id, Queue queue> constexpr KernelFunction bound() {
  if constexpr (runsKernel(id, queue))
    return &kernel<id>;
  else
    return nullptr;
}

KernelFunction kernelOf(Op op) {
  static constexpr KernelFunction table[] = {
#define OPERATOR(Id, Domain, Name, Since, Types, Where, ...)                   \
  bound<Op::Id, Queue::Where>(),
#include "offload/OffFormat/Operators.def"
  };
  return table[static_cast<unsigned>(op)];
}

constexpr bool isDeviceForm(Op id) {
#define OFFLOAD_DEVICE_FORM(Id)                                                \
  if (id == Op::Id)                                                            \
    return true;
  OFFLOAD_DEVICE_FORMS
#undef OFFLOAD_DEVICE_FORM
  return false;
}

template <Op id> constexpr KernelFunction boundOnDevice() {
  if constexpr (isDeviceForm(id))
    return &deviceKernel<id>;
  else
    return nullptr;
}

KernelFunction deviceFormOf(Op op) {
  static constexpr KernelFunction table[] = {
#define OPERATOR(Id, ...) boundOnDevice<Op::Id>(),
#include "offload/OffFormat/Operators.def"
  };
  return table[static_cast<unsigned>(op)];
}

/// Where kernels of this thread make tensors.
thread_local at::Device currentDevice(at::kCPU);
thread_local bool currentForms = false;

/// Makes the place current on this thread for its own lifetime.
class PlaceGuard {
public:
  explicit PlaceGuard(const KernelPlace &place)
      : before(currentDevice), stream(makeStreamScope(place)) {
    currentDevice = deviceOf(place);
    currentForms = place.usesDeviceForms();
  }
  PlaceGuard(const PlaceGuard &) = delete;
  PlaceGuard &operator=(const PlaceGuard &) = delete;
  ~PlaceGuard() {
    currentDevice = before;
    currentForms = false;
  }

private:
  at::Device before;
  std::unique_ptr<StreamScope> stream;
};

/// An unsigned element type that kernels read as signed.
bool isRetyped(DataType type) {
  return type == DataType::UInt16 || type == DataType::UInt32 ||
         type == DataType::UInt64;
}

/// The operand whose elements an operator moves into its output.
unsigned movedOperand(Op op) { return op == Op::Where ? 1 : 0; }

void giveTypesBack(const KernelCall &call, KernelOutputs &outputs) {
  unsigned moved = movedOperand(call.op);
  if (call.op == Op::Cast || call.op == Op::CastLike ||
      moved >= call.operands.size() || !isRetyped(call.operands[moved].type))
    return;
  at::ScalarType type = *scalarTypeOf(call.operands[moved].type);
  for (KernelOutput &output : outputs)
    if (output.tensor.dtype().itemsize() == c10::elementSize(type) &&
        c10::isIntegralType(output.tensor.scalar_type(), false))
      output.tensor = output.tensor.view(type);
}

/// Whether the memory is an operand's. What an allocator gave has a context; an
/// output that takes over an operand's place is not meant.
bool isOperandMemory(const at::Tensor &tensor) {
  return !tensor.storage().data_ptr().get_context();
}

/// Makes every output contiguous at the start of memory that nothing else has.
void separate(KernelOutputs &outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    at::Tensor &tensor = outputs[i].tensor;
    bool shared = tensor.storage_offset() != 0 || isOperandMemory(tensor) ||
                  tensor.storage().nbytes() > tensor.nbytes();
    for (size_t j = 0; j < i; ++j)
      shared |= outputs[j].tensor.storage().data() == tensor.storage().data() &&
                tensor.numel() != 0;
    // Of a matrix, a transposed copy would go through a tile of its own; with
    // one dimension more it goes element by element, without scratch.
    if (shared || !tensor.is_contiguous())
      tensor =
          tensor.unsqueeze(0).clone(at::MemoryFormat::Contiguous).squeeze(0);
  }
}

KernelOutputs callKernel(const KernelCall &call) {
  KernelFunction function = kernelOf(call.op);
  if (!function)
    throw Error("no kernel is bound to this operator");
  if (KernelFunction form = deviceFormOf(call.op);
      form && call.place.usesDeviceForms())
    function = form;
  KernelOutputs outputs = function(KernelContext(call));
  outputs.resize(std::min<size_t>(outputs.size(), call.numOutputs),
                 at::Tensor());
  if (outputs.size() != call.numOutputs)
    throw Error("makes " + std::to_string(outputs.size()) + " outputs, not " +
                std::to_string(call.numOutputs));
  giveTypesBack(call, outputs);
  separate(outputs);
  return outputs;
}

OutputProfile profileOf(const KernelOutput &output, int request) {
  OutputProfile profile;
  profile.request = request;
  if (output.packedType != DataType::Undefined) {
    profile.type = output.packedType;
    profile.dims = output.packedDims;
  } else {
    profile.type = dataTypeOf(output.tensor.scalar_type());
    profile.dims = output.tensor.sizes().vec();
  }
  return profile;
}

int64_t outputBytes(const OutputProfile &profile) {
  int64_t count = std::accumulate(profile.dims.begin(), profile.dims.end(),
                                  int64_t(1), std::multiplies<>());
  return packedBytes(profile.type, count);
}

/// Brings an output to its place where no request made it there.
void moveTo(const KernelPlace &place, void *to, const at::Tensor &tensor) {
  if (place.onHost())
    std::memmove(to, tensor.data_ptr(), tensor.nbytes());
  else
    tensorAt(to, tensor.sizes(), tensor.strides(), tensor.scalar_type())
        .copy_(tensor);
}

/// ATen's message without its trace: one line.
[[noreturn]] void rethrow(const c10::Error &error) {
  std::string text = error.what_without_backtrace();
  throw Error(text.substr(0, text.find('\n')));
}

} // namespace

std::optional<at::ScalarType> scalarTypeOf(DataType type) {
  switch (type) {
  case DataType::Float:
    return at::kFloat;
  case DataType::Double:
    return at::kDouble;
  case DataType::Float16:
    return at::kHalf;
  case DataType::BFloat16:
    return at::kBFloat16;
  case DataType::Int8:
    return at::kChar;
  case DataType::Int16:
    return at::kShort;
  case DataType::Int32:
    return at::kInt;
  case DataType::Int64:
    return at::kLong;
  case DataType::UInt8:
    return at::kByte;
  case DataType::UInt16:
    return at::kUInt16;
  case DataType::UInt32:
    return at::kUInt32;
  case DataType::UInt64:
    return at::kUInt64;
  case DataType::Bool:
    return at::kBool;
  default:
    return std::nullopt;
  }
}

DataType dataTypeOf(at::ScalarType type) {
  constexpr DataType kTypes[] = {
      DataType::Float, DataType::Double, DataType::Float16, DataType::BFloat16,
      DataType::Int8,  DataType::Int16,  DataType::Int32,   DataType::Int64,
      DataType::UInt8, DataType::UInt16, DataType::UInt32,  DataType::UInt64,
      DataType::Bool};
  for (DataType candidate : kTypes)
    if (scalarTypeOf(candidate) == type)
      return candidate;
  return DataType::Undefined;
}

bool KernelContext::has(unsigned i) const {
  return i < numOperands() &&
         (call.operands[i].type != DataType::Undefined || launch(i));
}

at::Tensor KernelContext::operand(unsigned i) const {
  if (i >= numOperands() || call.operands[i].type == DataType::Undefined)
    throw Error("operand " + std::to_string(i) + " is missing");
  const TensorView &view = call.operands[i];
  if (elementBits(view.type) == 4) {
    int64_t count = product(view.dims, 0, view.dims.size());
    return tensorAt(view.data, {packedBytes(view.type, count)}, {1}, at::kByte);
  }
  std::optional<at::ScalarType> type = scalarTypeOf(view.type);
  if (!type)
    throw Error("does not take elements of type " +
                std::string(dataTypeName(view.type)));
  if (isRetyped(view.type))
    type = view.type == DataType::UInt16   ? at::kShort
           : view.type == DataType::UInt32 ? at::kInt
                                           : at::kLong;
  return tensorAt(view.data, view.dims, view.strides, *type);
}

at::Tensor KernelContext::optionalOperand(unsigned i) const {
  return i < numOperands() && call.operands[i].type != DataType::Undefined
             ? operand(i)
             : at::Tensor();
}

std::optional<Dims> KernelContext::launchInts(unsigned i) const {
  const HostValue *value = launch(i);
  if (!value)
    return std::nullopt;
  return value->ints;
}

int64_t KernelContext::launchInt(unsigned i, int64_t fallback) const {
  const HostValue *value = launch(i);
  if (!value)
    return fallback;
  if (value->isReal())
    return value->reals.empty() ? fallback
                                : static_cast<int64_t>(value->reals[0]);
  return value->ints.empty() ? fallback : value->ints[0];
}

double KernelContext::launchReal(unsigned i, double fallback) const {
  const HostValue *value = launch(i);
  if (!value)
    return fallback;
  if (value->isReal())
    return value->reals.empty() ? fallback : value->reals[0];
  return value->ints.empty() ? fallback : static_cast<double>(value->ints[0]);
}

int64_t wrapAxis(int64_t axis, int64_t rank) {
  int64_t wrapped = axis < 0 ? axis + rank : axis;
  if (wrapped < 0 || wrapped >= std::max<int64_t>(rank, 1))
    throw Error("axis " + std::to_string(axis) + " is out of range for rank " +
                std::to_string(rank));
  return wrapped;
}

at::Tensor makeEmpty(at::IntArrayRef dims, at::ScalarType type) {
  return at::empty(dims, at::TensorOptions(type).device(currentDevice));
}

at::Tensor tensorAt(void *data, at::IntArrayRef dims, at::IntArrayRef strides,
                    at::ScalarType type) {
  return at::for_blob(data, dims)
      .strides(strides)
      .target_device(currentDevice)
      .options(at::TensorOptions(type).device(currentDevice))
      .make_tensor();
}

bool usesDeviceForms() { return currentForms; }

int64_t product(at::IntArrayRef dims, size_t first, size_t last) {
  int64_t count = 1;
  for (size_t i = first; i < last; ++i)
    count *= dims[i];
  return count;
}

bool hasKernel(Op op) { return kernelOf(op) != nullptr; }

bool hasDeviceForm(Op op) { return deviceFormOf(op) != nullptr; }

bool choosesAlgorithm(Op op) {
  return op == Op::Conv || op == Op::ConvTranspose;
}

KernelProfile profileKernel(const KernelCall &call) {
  c10::InferenceMode inference;
  PlaceGuard guard(call.place);
  ProfilingFrame frame(call.place);
  KernelProfile profile;
  try {
    KernelOutputs outputs = callKernel(call);
    std::vector<int> placed;
    for (unsigned i = 0; i < outputs.size(); ++i) {
      int request = frame.requestOf(outputs[i].tensor.storage().data());
      profile.outputs.push_back(profileOf(outputs[i], request));
      if (call.wanted.empty() || call.wanted[i])
        placed.push_back(request);
    }
    profile.requests = frame.numRequests();
    outputs.clear();
    profile.scratchBytes = frame.scratchBytes(placed);
  } catch (const c10::Error &error) {
    rethrow(error);
  }
  return profile;
}

void runKernel(const KernelCall &call, const KernelProfile &profile,
               std::span<void *const> places, void *scratch,
               int64_t scratchBytes) {
  c10::InferenceMode inference;
  PlaceGuard guard(call.place);
  std::vector<PlacedFrame::Place> outputPlaces;
  for (unsigned i = 0; i < profile.outputs.size(); ++i)
    if (places[i] && profile.outputs[i].request >= 0)
      outputPlaces.push_back({profile.outputs[i].request, places[i],
                              outputBytes(profile.outputs[i])});
  // A library that chooses may ask for a workspace or for none, behind the
  // output's request; it must fit all the same.
  bool isFree = !call.deterministic && choosesAlgorithm(call.op);
  PlacedFrame frame(!call.place.onHost(), std::move(outputPlaces), scratch,
                    scratchBytes,
                    isFree ? PlacedFrame::kAnyRequests : profile.requests);
  try {
    KernelOutputs outputs = callKernel(call);
    if (!isFree && frame.numRequests() != profile.requests)
      throw Error("asks for memory " + std::to_string(frame.numRequests()) +
                  " times, its dry run " + std::to_string(profile.requests) +
                  " times");
    for (unsigned i = 0; i < outputs.size(); ++i) {
      const at::Tensor &tensor = outputs[i].tensor;
      if (places[i] && tensor.numel() && tensor.data_ptr() != places[i])
        moveTo(call.place, places[i], tensor);
    }
  } catch (const c10::Error &error) {
    rethrow(error);
  }
}

void setKernelThreads(int threads) { at::set_num_threads(threads); }

} // namespace offload::rt
