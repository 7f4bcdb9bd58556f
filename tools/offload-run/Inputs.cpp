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

/// Numbers in bytes, two of them in one. `what`: the tensor, for errors.
Tensor packed(const Tensor &wide, DataType type, const std::string &what) {
  Tensor tensor = Tensor::allocate(type, wide.dims);
  std::memset(tensor.bytes.get(), 0, static_cast<size_t>(tensor.sizeBytes()));
  bool isSigned = type == DataType::Int4;
  for (int64_t i = 0; i < wide.numElements(); ++i) {
    int number = isSigned ? wide.data<int8_t>()[i] : wide.data<uint8_t>()[i];
    if (isSigned ? number < -8 || number > 7 : number > 15)
      throw Error(what + " holds " + std::to_string(number) +
                  ", which is out of range: give numbers of 4 bits, " +
                  (isSigned ? "-8 to 7" : "0 to 15"));
    tensor.data<uint8_t>()[i / 2] |=
        static_cast<uint8_t>((number & 15) << (i % 2 ? 4 : 0));
  }
  return tensor;
}

const ValueInfo *findInfo(const std::vector<ValueInfo> &infos,
                          const std::string &name) {
  for (const ValueInfo &info : infos)
    if (info.name == name)
      return &info;
  return nullptr;
}

Tensor asType(Tensor tensor, const ValueInfo *info, const std::string &kind,
              const std::string &file) {
  if (!info)
    return tensor;
  if (info->type == DataType::BFloat16 && tensor.type == DataType::UInt16)
    tensor.type = DataType::BFloat16;
  if ((info->type == DataType::Int4 && tensor.type == DataType::Int8) ||
      (info->type == DataType::UInt4 && tensor.type == DataType::UInt8))
    return packed(tensor, info->type,
                  kind + " '" + info->name + "' from '" + file + "'");
  return tensor;
}

/// The feeds of one run; `archive` may be null.
rt::TensorMap readRun(const Arguments &arguments,
                      const std::vector<ValueInfo> &inputs,
                      const std::string *archive) {
  rt::TensorMap feeds = readNamed(archive, arguments.inputs, inputs, "input");
  if (arguments.randomSeed)
    for (const ValueInfo &input : inputs)
      if (!input.optional && !feeds.count(input.name))
        feeds[input.name] = drawTensor(input, *arguments.randomSeed);
  return feeds;
}

} // namespace

rt::TensorMap readNamed(const std::string *archive,
                        const std::vector<NamedFile> &files,
                        const std::vector<ValueInfo> &infos,
                        const std::string &kind) {
  rt::TensorMap tensors;
  if (archive)
    tensors = rt::readNpz(*archive);
  for (const auto &[name, file] : files)
    tensors.erase(name);
  for (auto &[name, tensor] : tensors)
    tensor = asType(std::move(tensor), findInfo(infos, name), kind, *archive);
  for (const auto &[name, file] : files)
    tensors[name] =
        asType(rt::readNpy(file), findInfo(infos, name), kind, file);
  return tensors;
}

std::vector<rt::TensorMap> readFeeds(const Arguments &arguments,
                                     const rt::Session &session) {
  std::vector<ValueInfo> inputs = session.inputs();
  std::vector<rt::TensorMap> runs;
  for (const std::string &archive : arguments.inputsArchives)
    runs.push_back(readRun(arguments, inputs, &archive));
  if (runs.empty())
    runs.push_back(readRun(arguments, inputs, nullptr));
  return runs;
}

void setStates(const Arguments &arguments, rt::Session &session) {
  rt::TensorMap states =
      readNamed(nullptr, arguments.states, session.states(), "state");
  for (const auto &[name, file] : arguments.states)
    session.setState(name, states[name]);
}

} // namespace offload::run
