// Dry runs of kernels, one a signature.
//
// In:  a call: operator, attributes, operands' types and layouts, launch
// values. Out: its profile. Not: whether the profile fits the plan (Shapes).
// How: every operand reads one block of zeros that is never written, so a dry
//      run of any size takes no memory for operands; zero is a valid id.

#include "DryRun.h"

#include "offload/Runtime/Tensor.h"

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <new>
#include <optional>

namespace offload::rt {

namespace {

/// A signature as text: equal where two calls do the same.
class Signature {
public:
  explicit Signature(const KernelCall &call) {
    add(static_cast<int64_t>(call.op));
    add(call.sinceVersion);
    add(call.numOutputs);
    add(call.plannedScratchBytes);
    for (bool wanted : call.wanted)
      add(wanted);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const TensorView &view = call.operands[i];
      add(static_cast<int64_t>(view.type));
      add(view.dims);
      add(view.strides);
      bool matters = launchValuesMatter(call.op);
      add(call.launch[i] != nullptr);
      if (call.launch[i] && matters)
        add(*call.launch[i]);
    }
    for (const auto &[name, value] : *call.attributes) {
      add(name);
      std::visit([this](const auto &held) { add(held); }, value);
    }
  }
  std::string text;

private:
  void addBytes(const void *data, size_t bytes) {
    text.append(static_cast<const char *>(data), bytes);
  }
  void add(std::integral auto number) {
    auto wide = static_cast<int64_t>(number);
    addBytes(&wide, sizeof(wide));
  }
  void add(float number) { addBytes(&number, sizeof(number)); }
  void add(double number) { addBytes(&number, sizeof(number)); }
  void add(const std::string &held) {
    add(static_cast<int64_t>(held.size()));
    text += held;
  }
  template <typename T> void add(const std::vector<T> &list) {
    add(static_cast<int64_t>(list.size()));
    for (const T &element : list)
      add(element);
  }
  void add(const TensorAttribute &tensor) {
    add(static_cast<int64_t>(tensor.type));
    add(tensor.dims);
    add(static_cast<int64_t>(tensor.bytes.size()));
    addBytes(tensor.bytes.data(), tensor.bytes.size());
  }
  void add(const HostValue &value) {
    add(static_cast<int64_t>(value.type));
    add(value.dims);
    add(value.ints);
    add(value.reals);
  }
};

/// Zeros that the kernel of the system gives without taking memory for them.
class Zeros {
public:
  explicit Zeros(int64_t bytes)
      : start(std::calloc(static_cast<size_t>(bytes + 2 * kAlignBytes), 1)) {
    if (!start)
      throw Error("no " + std::to_string(bytes) +
                  " bytes of address space for a dry run");
  }
  Zeros(const Zeros &) = delete;
  Zeros &operator=(const Zeros &) = delete;
  ~Zeros() { std::free(start); }
  void *data() const {
    auto address = reinterpret_cast<uintptr_t>(start);
    return static_cast<std::byte *>(start) +
           (kAlignBytes - address % kAlignBytes);
  }

private:
  void *start;
};

} // namespace

bool launchValuesMatter(Op op) {
  return op != Op::Offload_SGD && op != Op::Offload_AdamW;
}

int64_t spannedBytes(const TensorView &view) {
  int64_t last = 0, count = 1;
  for (size_t i = 0; i < view.dims.size(); ++i) {
    count *= view.dims[i];
    last += (view.dims[i] - 1) * view.strides[i];
  }
  return count == 0 ? 0 : packedBytes(view.type, last + 1);
}

std::shared_ptr<const KernelProfile> DryRun::profile(Queue queue,
                                                     const KernelCall &call) {
  std::string signature = Signature(call).text;
  if (queue == Queue::Host) // another place than a device's
    signature += 'h';
  auto found = known.find(signature);
  if (found != known.end())
    return found->second;
  std::shared_ptr<const KernelProfile> made = runOn(queue, call);
  if (known.size() >= kMostProfiles)
    known.clear();
  return known[std::move(signature)] = made;
}

static void readWhereUnplaced(KernelCall &call, void *zeros) {
  for (TensorView &view : call.operands)
    if (!view.data)
      view.data = zeros;
}

/// Operands without a place read the front of the memory for dry runs, what the
/// kernel makes lies behind. Returns memory of their own where that is too
/// small.
std::unique_ptr<Memory> DryRun::zerosOnDevice(KernelCall &call, int64_t bytes) {
  device.drain();
  std::unique_ptr<Memory> own;
  int64_t front = alignUp(bytes);
  if (front > memoryBytes) {
    own = device.allocateDevice(bytes);
    front = 0;
  }
  std::byte *zeros = own ? own->data() : memory;
  device.fill(Queue::Compute, zeros, 0, bytes);
  readWhereUnplaced(call, zeros);
  // Requests that tell of a problem belong to the profile; none is found here.
  call.problem = reinterpret_cast<int32_t *>(zeros);
  call.place.profileMemory = memory + front;
  call.place.profileBytes = memoryBytes - front;
  return own;
}

std::shared_ptr<const KernelProfile> DryRun::runOn(Queue queue,
                                                   KernelCall call) {
  int64_t most = sizeof(int32_t);
  for (const TensorView &view : call.operands)
    if (view.type != DataType::Undefined && !view.data)
      most = std::max(most, spannedBytes(view));
  std::optional<Zeros> zeros;
  std::unique_ptr<Memory> more;
  call.place = device.kernelPlace(queue);
  if (call.place.onHost()) {
    zeros.emplace(most);
    readWhereUnplaced(call, zeros->data());
  } else {
    more = zerosOnDevice(call, most);
  }
  std::shared_ptr<const KernelProfile> made;
  std::exception_ptr failed;
  device.launch(queue, [&] {
    try {
      made = std::make_shared<KernelProfile>(profileKernel(call));
    } catch (...) {
      failed = std::current_exception(); // not an error of the step
    }
  });
  device.record(queue, *done);
  device.synchronize(*done);
  if (failed)
    std::rethrow_exception(failed);
  if (device.error())
    std::rethrow_exception(device.error());
  if (!made)
    throw Error("was not tried out, since the step before it has failed");
  return made;
}

} // namespace offload::rt
