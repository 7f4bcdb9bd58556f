// Runs a call whose operands lie on the host on the first card of the machine.
//
// In:  a call.
// Out: its outputs, back on the host.
// How: as a session does it: operands are copied to the card, the kernel is
// tried
//      out and then run with its outputs at places that held NaN and with
//      exactly the scratch that the dry run told. The second run has another
//      scratch.

#include "CudaProbe.h"

#include "offload/OffFormat/DataType.h"
#include "offload/Runtime/Device.h"

#include <cstring>
#include <numeric>

namespace offload::rt {

namespace {

int64_t spannedBytes(const TensorView &view) {
  int64_t last = 0, count = 1;
  for (size_t i = 0; i < view.dims.size(); ++i) {
    count *= view.dims[i];
    last += (view.dims[i] - 1) * view.strides[i];
  }
  return count == 0 ? 0 : packedBytes(view.type, last + 1);
}

void throwFailure(Device &device) {
  device.drain();
  if (std::exception_ptr error = device.error()) {
    device.recover();
    std::rethrow_exception(error);
  }
}

/// A card whose compute queue does all the work.
class Card {
public:
  Card() : device(makeCudaDevice(0)) {
    device->prepareKernels({.convolutions = true});
    problem = device->allocateShared(sizeof(int32_t));
  }

  CudaProbe probe(KernelCall call) {
    std::vector<std::unique_ptr<Memory>> operands = bring(call);
    call.place = device->kernelPlace(Queue::Compute);
    call.problem = reinterpret_cast<int32_t *>(problem->data());
    *call.problem = 0;
    CudaProbe result;
    device->launch(Queue::Compute,
                   [&] { result.profile = profileKernel(call); });
    throwFailure(*device);
    result.outputs = run(call, result.profile, 0);
    if (run(call, result.profile, 4096) != result.outputs)
      throw Error("two runs on the card differ");
    if (*call.problem)
      throw Error("an index is out of range");
    return result;
  }

private:
  std::vector<std::unique_ptr<Memory>> bring(KernelCall &call) {
    std::vector<std::unique_ptr<Memory>> all;
    for (TensorView &view : call.operands) {
      if (!view.data)
        continue;
      int64_t bytes = spannedBytes(view);
      all.push_back(device->allocateDevice(bytes));
      device->copy(Queue::H2D, all.back()->data(), view.data, bytes);
      view.data = all.back()->data();
    }
    throwFailure(*device);
    return all;
  }

  std::vector<std::vector<std::byte>>
  run(const KernelCall &call, const KernelProfile &profile, int64_t shift) {
    std::vector<std::unique_ptr<Memory>> memory;
    auto place = [&](int64_t bytes) {
      memory.push_back(device->allocateDevice(bytes + shift + kAlignBytes));
      device->fill(Queue::Compute, memory.back()->data(), 0xff,
                   memory.back()->sizeBytes());
      return memory.back()->data() + shift;
    };
    std::vector<void *> places;
    std::vector<std::vector<std::byte>> outputs;
    for (const OutputProfile &output : profile.outputs) {
      int64_t count = std::accumulate(output.dims.begin(), output.dims.end(),
                                      int64_t(1), std::multiplies<>());
      outputs.emplace_back(packedBytes(output.type, count));
      places.push_back(place(static_cast<int64_t>(outputs.back().size())));
    }
    void *scratch = place(profile.scratchBytes);
    device->launch(Queue::Compute, [&] {
      runKernel(call, profile, places, scratch, profile.scratchBytes);
    });
    throwFailure(*device);
    for (size_t i = 0; i < outputs.size(); ++i)
      device->copy(Queue::D2H, outputs[i].data(), places[i],
                   static_cast<int64_t>(outputs[i].size()));
    throwFailure(*device);
    return outputs;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> problem;
};

} // namespace

CudaProbe probeOnCuda(KernelCall call) {
  static Card &card = *new Card; // the driver may be gone before statics are
  return card.probe(std::move(call));
}

} // namespace offload::rt
