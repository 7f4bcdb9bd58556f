// Runs one kernel for a test in another language.
//
// In:  a JSON text that describes a call; operands as addresses.
// Out: a JSON text: outputs as addresses (valid until the next call), the
//      requests and scratch of the dry run, the scratch that the operator's row
//      plans; or the error.
// How: as the runtime does it: dry run, then a real run with every output at a
//      place of its own and exactly the scratch that the dry run told. Guards
//      behind each place and behind the scratch tell of writes past their end.
//      The run is repeated with other places; the bytes must be the same.

#include "CudaProbe.h"

#include "offload/OffFormat/Operators.h"
#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Tensor.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

namespace {

using namespace offload;
using namespace offload::rt;
using Json = nlohmann::json;

constexpr int64_t kGuardBytes = 512;
constexpr int kGuard = 0xa5, kPoison = 0xff; // 0xff..ff is NaN

/// Aligned memory with a guard behind it.
class Guarded {
public:
  Guarded(int64_t bytes, int64_t shift)
      : memory(new std::byte[bytes + shift + 2 * kGuardBytes]), bytes(bytes) {
    auto address = reinterpret_cast<uintptr_t>(memory.get());
    start = memory.get() + (kGuardBytes - address % kGuardBytes) + shift;
    std::memset(start, kPoison, bytes);
    std::memset(start + bytes, kGuard, guardBytes());
  }
  std::byte *data() const { return start; }
  bool isWhole() const {
    return std::all_of(start + bytes, start + bytes + guardBytes(),
                       [](std::byte b) { return b == std::byte(kGuard); });
  }

private:
  static int64_t guardBytes() { return 64; }
  std::unique_ptr<std::byte[]> memory;
  std::byte *start = nullptr;
  int64_t bytes;
};

int64_t elements(const std::vector<int64_t> &dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1),
                         std::multiplies<>());
}

std::vector<uint8_t> bytesFromHex(const std::string &hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(
        static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

AttributeMap attributesOf(const Json &given) {
  AttributeMap attributes;
  for (const auto &[name, value] : given.items()) {
    if (value.contains("i"))
      attributes[name] = value["i"].get<int64_t>();
    else if (value.contains("f"))
      attributes[name] = value["f"].get<float>();
    else if (value.contains("s"))
      attributes[name] = value["s"].get<std::string>();
    else if (value.contains("ints"))
      attributes[name] = value["ints"].get<std::vector<int64_t>>();
    else if (value.contains("floats"))
      attributes[name] = value["floats"].get<std::vector<float>>();
    else
      attributes[name] =
          TensorAttribute{static_cast<DataType>(value["type"].get<int>()),
                          value["dims"].get<std::vector<int64_t>>(),
                          bytesFromHex(value["bytes"].get<std::string>())};
  }
  return attributes;
}

/// A call and what it points at.
struct Probe {
  AttributeMap attributes;
  std::vector<std::unique_ptr<HostValue>> values;
  std::vector<Guarded> operandCopies;
  KernelCall call;
};

void addOperand(Probe &probe, const OperatorInfo &row, unsigned index,
                const Json &given) {
  TensorView view;
  const HostValue *launch = nullptr;
  if (!given.is_null()) {
    view.type = static_cast<DataType>(given["type"].get<int>());
    view.dims = given["dims"].get<std::vector<int64_t>>();
    view.strides = given["strides"].get<std::vector<int64_t>>();
    auto *data = reinterpret_cast<uint8_t *>(given["address"].get<uint64_t>());
    int64_t bytes = given["bytes"].get<int64_t>();
    if (row.isLaunchOperand(index) || given.value("launch", false)) {
      probe.values.push_back(std::make_unique<HostValue>(HostValue::fromBytes(
          view.type, view.dims, std::span(data, static_cast<size_t>(bytes)))));
      launch = probe.values.back().get();
    } else {
      probe.operandCopies.emplace_back(bytes, 0);
      std::memcpy(probe.operandCopies.back().data(), data, bytes);
      view.data = probe.operandCopies.back().data();
    }
  }
  probe.call.operands.push_back(view);
  probe.call.launch.push_back(launch);
}

struct Run {
  std::vector<Guarded> outputs;
  std::vector<int64_t> bytes;
};

Run runAt(const KernelCall &call, const KernelProfile &profile, int64_t shift) {
  Run run;
  std::vector<void *> places;
  for (const OutputProfile &output : profile.outputs) {
    run.bytes.push_back(packedBytes(output.type, elements(output.dims)));
    run.outputs.emplace_back(run.bytes.back(), shift);
    places.push_back(run.outputs.back().data());
  }
  Guarded scratch(profile.scratchBytes, shift);
  runKernel(call, profile, places, scratch.data(), profile.scratchBytes);
  for (const Guarded &output : run.outputs)
    if (!output.isWhole())
      throw Error("wrote past the end of an output");
  if (!scratch.isWhole())
    throw Error("wrote past the end of its scratch");
  return run;
}

bool isContiguous(const TensorView &view) {
  int64_t stride = 1;
  for (size_t i = view.dims.size(); i-- > 0;) {
    if (view.dims[i] != 1 && view.strides[i] != stride)
      return false;
    stride *= view.dims[i];
  }
  return true;
}

/// Once more with output 0 at the bytes of the operand that the row names.
void checkInPlace(Probe &probe, const OperatorInfo &row,
                  const KernelProfile &profile, const Run &expected) {
  const TensorView &operand = probe.call.operands[row.inPlaceOperand];
  const OutputProfile &output = profile.outputs[0];
  if (operand.type != output.type || operand.dims != output.dims ||
      !isContiguous(operand))
    return;
  Run run;
  std::vector<void *> places = {operand.data};
  for (size_t i = 1; i < profile.outputs.size(); ++i) {
    run.outputs.emplace_back(expected.bytes[i], 0);
    places.push_back(run.outputs.back().data());
  }
  Guarded scratch(profile.scratchBytes, 0);
  runKernel(probe.call, profile, places, scratch.data(), profile.scratchBytes);
  for (size_t i = 0; i < places.size(); ++i)
    if (std::memcmp(places[i], expected.outputs[i].data(), expected.bytes[i]))
      throw Error("in place, output " + std::to_string(i) + " differs");
}

Json describe(const KernelProfile &profile, const Run &run,
              const OperatorInfo &row, const KernelCall &call) {
  Json outputs = Json::array();
  int64_t outputBytes = 0, operandBytes = 0;
  for (size_t i = 0; i < profile.outputs.size(); ++i) {
    outputBytes += run.bytes[i];
    outputs.push_back(
        {{"type", static_cast<int>(profile.outputs[i].type)},
         {"dims", profile.outputs[i].dims},
         {"bytes", run.bytes[i]},
         {"address", reinterpret_cast<uint64_t>(run.outputs[i].data())}});
  }
  const ScratchFormula formula =
      call.place.usesDeviceForms()
          ? deviceScratch(row.id, call.operands[0].type)
          : row.scratch;
  for (size_t i = 0; i < call.operands.size(); ++i)
    if (const TensorView &view = call.operands[i];
        view.data && formula.counts(i))
      operandBytes += packedBytes(view.type, elements(view.dims));
  return {{"outputs", outputs},
          {"requests", profile.requests},
          {"scratch", profile.scratchBytes},
          {"operand_bytes", operandBytes},
          {"output_bytes", outputBytes},
          {"planned_scratch", formula.inputPercent * operandBytes / 100 +
                                  formula.outputPercent * outputBytes / 100 +
                                  formula.constantBytes}};
}

Json probeCall(const Json &given, Run &kept) {
  int since = 0;
  const OperatorInfo *row = findOperatorAtOpset(
      given["domain"].get<std::string>(), given["op"].get<std::string>(),
      given["opset"].get<int>(), &since);
  if (!row)
    throw Error("no row for this operator");
  Probe probe;
  probe.attributes = attributesOf(given["attributes"]);
  std::string reason =
      unsupportedReason(*row, since, probe.attributes, given["outputs"]);
  if (!reason.empty())
    throw Error("refused: " + reason);
  if (!hasKernel(row->id))
    throw Error("no kernel");
  probe.call.op = row->id;
  probe.call.sinceVersion = since;
  probe.call.attributes = &probe.attributes;
  probe.call.numOutputs = given["outputs"].get<unsigned>();
  probe.call.place.deviceForms = given.value("device_forms", false);
  static int32_t problem;
  problem = 0;
  probe.call.problem = &problem;
  unsigned index = 0;
  for (const Json &operand : given["operands"])
    addOperand(probe, *row, index++, operand);
  if (!probe.call.launch.front() &&
      !row->supportsType(probe.call.operands[0].type))
    throw Error("the row does not take this type");
  if (!row->takesStrides)
    for (const TensorView &view : probe.call.operands)
      if (!isContiguous(view))
        throw Error("the row does not take strides");
  if (given.value("cuda", false)) {
    CudaProbe onCuda = probeOnCuda(probe.call);
    kept = {};
    for (const std::vector<std::byte> &output : onCuda.outputs) {
      kept.bytes.push_back(static_cast<int64_t>(output.size()));
      kept.outputs.emplace_back(kept.bytes.back(), 0);
      std::copy(output.begin(), output.end(), kept.outputs.back().data());
    }
    probe.call.place.deviceForms = true;
    return describe(onCuda.profile, kept, *row, probe.call);
  }
  KernelProfile profile = profileKernel(probe.call);
  if (problem)
    throw Error("an index is out of range");
  Run first = runAt(probe.call, profile, 0);
  kept = runAt(probe.call, profile, 2048);
  for (size_t i = 0; i < first.bytes.size(); ++i)
    if (std::memcmp(first.outputs[i].data(), kept.outputs[i].data(),
                    first.bytes[i]))
      throw Error("output " + std::to_string(i) + " differs by its place");
  Json result = describe(profile, kept, *row, probe.call);
  if (row->inPlaceOperand >= 0 && given.value("inplace", true))
    checkInPlace(probe, *row, profile, first);
  return result;
}

} // namespace

/// One call; the text lives until the next one.
extern "C" const char *offloadProbeKernel(const char *text) {
  static Run kept;
  static std::string answer;
  try {
    answer = probeCall(Json::parse(text), kept).dump();
  } catch (const std::exception &error) {
    answer = Json{{"error", error.what()}}.dump();
  }
  return answer.c_str();
}

extern "C" void offloadSetThreads(int threads) { setKernelThreads(threads); }
