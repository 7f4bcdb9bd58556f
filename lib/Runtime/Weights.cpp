// Weights as a caller reads and replaces them.
//
// In:  a weight's name; a tensor of its type and size.
// Out: its contents; or the constant, what was folded from it and what the
//      launching thread knows of both, all replaced.
// Not: where they lie (Storage), what states are (States).
// How: the compiler gives no constant another name, and leaves transposing,
//      casting and expanding to nodes of the step. So a replaced constant is
//      all that such nodes need; only what was folded must be made anew, and
//      that is checked, like sizes, before anything is replaced.

#include "Weights.h"

#include "Folding.h"

#include <algorithm>
#include <cstring>

namespace offload::rt {

namespace {

bool isUpdate(const ProgramNode &node) {
  return node.is(Op::Offload_SGD) || node.is(Op::Offload_AdamW);
}

/// Whether an update makes the state's next value as a weight's, or a kernel
/// computes with its first value: moments and counters are only updated.
bool isTrainedWeight(const Program &program, uint32_t state) {
  std::set<uint32_t> places = {program.values[state].root}; // that hold it
  for (const ProgramNode &node : program.nodes)
    for (unsigned i = 0; i < node.operands.size(); ++i) {
      uint32_t operand = node.operands[i];
      if (operand == kNone || node.isLaunchOperand(i) ||
          !places.contains(program.values[operand].root))
        continue;
      if (node.isCopy() && i < node.numParts())
        places.insert(program.values[node.outputs[i]].root);
      else if (isUpdate(node)
                   ? i == 0
                   : node.isKernel() && program.values[state].hasContents)
        return true;
    }
  return false;
}

/// Whether a queue reads the constant, or a caller gets it. Floats that the
/// launching thread computes with are a small table's: not sizes.
bool isData(const Program &program, uint32_t constant) {
  const ProgramValue &value = program.values[constant];
  if (value.isResult())
    return true;
  for (uint32_t reader : value.readers) {
    const ProgramNode &node = program.nodes[reader];
    for (unsigned i = 0; i < node.operands.size(); ++i)
      if (node.operands[i] == constant && !node.isLaunchOperand(i) &&
          (node.queue != Queue::Launch || isFloating(value.type)))
        return true;
  }
  return false;
}

Tensor allocateFor(const ProgramValue &constant) {
  return Tensor::allocate(constant.type, constant.contentDims);
}

} // namespace

Weights::Weights(const Program &program, const Binding &bound, Shapes &shapes,
                 Storage &storage, States &states, Device &device)
    : program(program), bound(bound), shapes(shapes), storage(storage),
      states(states), device(device) {
  for (uint32_t i = 0; i < program.values.size(); ++i) {
    const ProgramValue &value = program.values[i];
    bool isFolded =
        std::count(program.foldedTo.begin(), program.foldedTo.end(), i);
    bool isSource =
        std::count(program.foldedFrom.begin(), program.foldedFrom.end(), i);
    if (isSource)
      derived[i] = foldedFrom(program, i);
    bool leadsToData =
        isSource &&
        std::any_of(derived[i].begin(), derived[i].end(),
                    [&](uint32_t to) { return isData(program, to); });
    bool isUnread = value.readers.empty() && !isSource;
    if (value.isConstant()
            ? !isFolded && (isUnread || leadsToData || isData(program, i))
            : value.isInput && value.isState() && value.home == Home::Host &&
                  isTrainedWeight(program, i))
      weights.push_back(i);
  }
}

std::vector<ValueInfo> Weights::list() const {
  std::vector<ValueInfo> infos;
  for (uint32_t weight : weights) {
    infos.push_back(describeValue(program.values[weight]));
    infos.back().optional = false;
  }
  return infos;
}

uint32_t Weights::find(const std::string &name) const {
  for (uint32_t weight : weights)
    if (program.values[weight].name == name)
      return weight;
  throw Error(whyNot(name));
}

std::string Weights::whyNot(const std::string &name) const {
  uint32_t number = program.findValue(name);
  const ProgramValue *value =
      number == kNone ? nullptr : &program.values[number];
  if (value &&
      std::count(program.foldedTo.begin(), program.foldedTo.end(), number)) {
    std::string sources;
    for (const auto &[source, to] : derived)
      if (to.contains(number))
        sources += (sources.empty() ? "" : ", ") + program.values[source].name;
    return "'" + name + "' is folded from " + sources + ": set these";
  }
  if (value && value->isConstant()) {
    std::string reader = value->readers.empty()
                             ? "what was folded"
                             : program.describe(value->readers.front());
    return "'" + name + "' is no weight: " + reader +
           " reads it before a step starts, as a size, an axis or a bound; "
           "change it in the model and compile again";
  }
  if (value && value->isInput && value->home != Home::Token)
    return "'" + name + "' is no weight but " +
           (value->isState() ? "a state: setState sets it"
                             : "an input: it is fed");
  constexpr size_t kMostNames = 8;
  std::string known;
  for (size_t i = 0; i < std::min(weights.size(), kMostNames); ++i)
    known += (i ? ", " : "") + program.values[weights[i]].name;
  if (weights.size() > kMostNames)
    known += " and " + std::to_string(weights.size() - kMostNames) + " more";
  return "there is no weight '" + name +
         "'; weights are: " + (known.empty() ? "none" : known);
}

Tensor Weights::readConstant(uint32_t constant) const {
  Tensor tensor = allocateFor(program.values[constant]);
  if (tensor.sizeBytes() == 0)
    return tensor;
  if (const std::byte *now = storage.contents(constant)) {
    std::memcpy(tensor.bytes.get(), now,
                static_cast<size_t>(tensor.sizeBytes()));
    return tensor;
  }
  device.copy(Queue::D2H, tensor.bytes.get(), storage.deviceAddress(constant),
              tensor.sizeBytes());
  device.drain();
  if (device.error())
    std::rethrow_exception(device.error());
  return tensor;
}

Tensor Weights::read(const std::string &name) const {
  uint32_t weight = find(name);
  return program.values[weight].isState() ? states.read(name)
                                          : readConstant(weight);
}

void Weights::write(const std::string &name, const Tensor &value) {
  uint32_t number = find(name);
  const ProgramValue &weight = program.values[number];
  std::vector<int64_t> dims = weight.contentDims;
  if (weight.isState())
    return states.write(name, value);
  if (value.type != weight.type || value.dims != dims ||
      (!value.bytes && value.sizeBytes()))
    throw Error("weight '" + name + "' is set to " +
                printShape(value.type, value.dims) +
                (value.bytes || !value.sizeBytes() ? "" : " without bytes") +
                " and is " + printShape(weight.type, dims));
  try {
    writeConstant(number, value);
  } catch (const Error &error) {
    throw Error("weight '" + name + "': " + error.what());
  }
}

void Weights::writeConstant(uint32_t constant, const Tensor &value) {
  auto hostValue = [&](uint32_t number, const void *data) {
    const ProgramValue &of = program.values[number];
    return hostValueOf(of.type, of.contentDims, data);
  };
  std::map<uint32_t, HostValue> folded;
  if (auto made = derived.find(constant); made != derived.end())
    folded = foldAnew(program, made->second, [&](uint32_t source) {
      if (source == constant)
        return *hostValue(source, value.bytes.get());
      Tensor now = readConstant(source);
      return *hostValue(source, now.bytes.get());
    });
  std::map<uint32_t, HostValuePointer> known; // to the launching thread
  if (shapes.readsConstant(constant))
    known[constant] = hostValue(constant, value.bytes.get());
  for (const auto &[number, made] : folded)
    if (shapes.readsConstant(number))
      known[number] = std::make_shared<HostValue>(made);
  if (!known.empty())
    shapes.setConstants(known, bound);
  storage.replace(constant,
                  {value.bytes.get(), static_cast<size_t>(value.sizeBytes())});
  for (const auto &[number, made] : folded) {
    std::vector<uint8_t> bytes = made.toBytes();
    storage.replace(number, std::as_bytes(std::span(bytes)));
  }
}

} // namespace offload::rt
