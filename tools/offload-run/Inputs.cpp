// Values for a session's inputs: from files, or drawn by a seed.
//
// In:  flags, and what the session says of its inputs.
// Out: feeds by name.
// How: each drawn input has a generator of its own, seeded by the flag's seed
//      and the input's name, so one input's values do not depend on the others.
//      Floats are normal (Box and Muller), integers are 0 or 1 (a row of any
//      table that has two), bools are both. A dynamic dimension takes its
//      bound; one without a bound needs a file.

#include "Inputs.h"

#include "offload/Runtime/Npy.h"

#include <cmath>
#include <cstring>

namespace offload::run {

namespace {

using rt::Error;
using rt::Tensor;
using rt::ValueInfo;

/// SplitMix64 (Steele, Lea, Flood 2014).
class Generator {
public:
  Generator(uint64_t seed, const std::string &name) : state(seed) {
    for (unsigned char c : name) // FNV-1a
      state = (state ^ c) * 0x100000001b3;
  }
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In (0, 1].
  double uniform() { return (static_cast<double>(next() >> 11) + 1) * 0x1p-53; }
  double normal() {
    double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

private:
  uint64_t state;
};

/// A float rounded to nearest even in a 16-bit type.
uint16_t toHalf(float value) {
  auto half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
}

uint16_t toBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void drawFloat(Tensor &tensor, int64_t i, float value) {
  switch (tensor.type) {
  case DataType::Double:
    tensor.data<double>()[i] = value;
    break;
  case DataType::Float16:
    tensor.data<uint16_t>()[i] = toHalf(value);
    break;
  case DataType::BFloat16:
    tensor.data<uint16_t>()[i] = toBFloat16(value);
    break;
  default:
    tensor.data<float>()[i] = value;
  }
}

Tensor drawTensor(const ValueInfo &input, uint64_t seed) {
  for (int64_t size : input.dims)
    if (size < 0)
      throw Error("input '" + input.name +
                  "' has a size without a bound; give it by --input, or bind "
                  "the size by --dim when compiling");
  Tensor tensor = Tensor::allocate(input.type, input.dims);
  std::memset(tensor.bytes.get(), 0, tensor.sizeBytes());
  Generator generator(seed, input.name);
  unsigned bits = elementBits(input.type);
  for (int64_t i = 0; i < tensor.numElements(); ++i) {
    if (isFloating(input.type))
      drawFloat(tensor, i, static_cast<float>(generator.normal()));
    else if (generator.next() >> 63) // little-endian 1 of any width
      tensor.data<uint8_t>()[i * bits / 8] |= bits == 4 && i % 2 ? 0x10 : 1;
  }
  return tensor;
}

/// Numbers in bytes, two of them in one; none is out of range.
Tensor packed(const Tensor &wide, DataType type) {
  Tensor tensor = Tensor::allocate(type, wide.dims);
  std::memset(tensor.bytes.get(), 0, static_cast<size_t>(tensor.sizeBytes()));
  bool isSigned = type == DataType::Int4;
  for (int64_t i = 0; i < wide.numElements(); ++i) {
    int number = isSigned ? wide.data<int8_t>()[i] : wide.data<uint8_t>()[i];
    if (isSigned ? number < -8 || number > 7 : number > 15)
      throw Error("a number of 4 bits is given as " + std::to_string(number));
    tensor.data<uint8_t>()[i / 2] |=
        static_cast<uint8_t>((number & 15) << (i % 2 ? 4 : 0));
  }
  return tensor;
}

} // namespace

const ValueInfo *findInfo(const std::vector<ValueInfo> &infos,
                          const std::string &name) {
  for (const ValueInfo &info : infos)
    if (info.name == name)
      return &info;
  return nullptr;
}

Tensor asType(Tensor tensor, const ValueInfo *info) {
  if (!info)
    return tensor;
  if (info->type == DataType::BFloat16 && tensor.type == DataType::UInt16)
    tensor.type = DataType::BFloat16;
  if ((info->type == DataType::Int4 && tensor.type == DataType::Int8) ||
      (info->type == DataType::UInt4 && tensor.type == DataType::UInt8))
    return packed(tensor, info->type);
  return tensor;
}

static rt::TensorMap readFeeds(const Arguments &arguments,
                               const std::vector<ValueInfo> &inputs,
                               rt::TensorMap feeds) {
  for (const auto &[name, file] : arguments.inputs)
    feeds[name] = rt::readNpy(file);
  for (auto &[name, tensor] : feeds)
    tensor = asType(std::move(tensor), findInfo(inputs, name));
  if (arguments.randomSeed)
    for (const ValueInfo &input : inputs)
      if (!input.optional && !feeds.count(input.name))
        feeds[input.name] = drawTensor(input, *arguments.randomSeed);
  return feeds;
}

std::vector<rt::TensorMap> readFeeds(const Arguments &arguments,
                                     const rt::Session &session) {
  std::vector<ValueInfo> inputs = session.inputs();
  std::vector<rt::TensorMap> runs;
  for (const std::string &archive : arguments.inputsArchives)
    runs.push_back(readFeeds(arguments, inputs, rt::readNpz(archive)));
  if (runs.empty())
    runs.push_back(readFeeds(arguments, inputs, {}));
  return runs;
}

void setStates(const Arguments &arguments, rt::Session &session) {
  std::vector<ValueInfo> states = session.states();
  for (const auto &[name, file] : arguments.states)
    session.setState(name, asType(rt::readNpy(file), findInfo(states, name)));
}

} // namespace offload::run
