// Reads and writes states between runs.
//
// In:  a state's name; a tensor of its type and size.
// Out: its bytes, from the host or from the arena.
// Not: tokens, which have no bytes.

#include "States.h"

#include <cstring>

namespace offload::rt {

namespace {

std::vector<int64_t> dimsOf(const ProgramValue &value) {
  std::vector<int64_t> dims;
  for (const Dimension &dim : value.dims)
    dims.push_back(dim.size);
  return dims;
}

} // namespace

States::States(const Program &program, Storage &storage, Device &device)
    : program(program), storage(storage), device(device) {
  for (uint32_t input : program.inputs) {
    const ProgramValue &value = program.values[input];
    if (!value.isState() || value.home == Home::Token)
      continue;
    inputs.push_back(input);
    if (value.home != Home::Launch)
      continue;
    Tensor first = Tensor::allocate(value.type, dimsOf(value));
    auto bytes = static_cast<size_t>(first.sizeBytes());
    if (value.hasContents)
      std::memcpy(first.bytes.get(), value.contents.data(), bytes);
    else
      std::memset(first.bytes.get(), 0, bytes);
    launched[input] = hostValueOf(first.type, first.dims, first.bytes.get());
  }
}

std::vector<ValueInfo> States::list() const {
  std::vector<ValueInfo> states;
  for (uint32_t input : inputs)
    states.push_back(describeValue(program.values[input]));
  return states;
}

uint32_t States::find(const std::string &name) const {
  std::string known;
  for (uint32_t input : inputs) {
    if (program.values[input].name == name)
      return input;
    known += (known.empty() ? "" : ", ") + program.values[input].name;
  }
  throw Error("there is no state '" + name +
              "'; states are: " + (known.empty() ? "none" : known));
}

Tensor States::read(const std::string &name) const {
  uint32_t input = find(name);
  const ProgramValue &value = program.values[input];
  Tensor tensor = Tensor::allocate(value.type, dimsOf(value));
  auto bytes = static_cast<size_t>(tensor.sizeBytes());
  if (value.home == Home::Launch) {
    std::vector<uint8_t> held = launched.at(input)->toBytes();
    std::memcpy(tensor.bytes.get(), held.data(), bytes);
  } else if (value.resident) {
    device.copy(Queue::D2H, tensor.bytes.get(), storage.deviceAddress(input),
                tensor.sizeBytes());
    device.drain();
  } else if (bytes) {
    std::memcpy(tensor.bytes.get(), storage.hostAddress(input), bytes);
  }
  return tensor;
}

void States::write(const std::string &name, const Tensor &tensor) {
  uint32_t input = find(name);
  const ProgramValue &value = program.values[input];
  if (tensor.type != value.type || tensor.dims != dimsOf(value))
    throw Error("state '" + name + "' is set to " +
                printShape(tensor.type, tensor.dims) + " and is " +
                printExpected(value));
  if (value.home == Home::Launch) {
    launched[input] = hostValueOf(tensor.type, tensor.dims, tensor.bytes.get());
  } else if (value.resident) {
    device.copy(Queue::H2D, storage.deviceAddress(input), tensor.bytes.get(),
                tensor.sizeBytes());
    device.drain();
  } else if (tensor.sizeBytes()) {
    std::memcpy(storage.hostAddress(input), tensor.bytes.get(),
                static_cast<size_t>(tensor.sizeBytes()));
  }
}

std::map<std::string, Tensor> States::readAll() const {
  std::map<std::string, Tensor> values;
  for (uint32_t input : inputs) {
    const std::string &name = program.values[input].name;
    values[name] = read(name);
  }
  return values;
}

void States::writeAll(const std::map<std::string, Tensor> &values) {
  for (const auto &[name, tensor] : values)
    write(name, tensor);
}

} // namespace offload::rt
