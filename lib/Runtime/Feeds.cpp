// Compares feeds with the inputs of a program.
//
// In:  tensors by name.
// Out: their dimensions in order of the inputs, or one error that says what was
//      expected.
// Not: values of feeds; nothing has run when this refuses.

#include "Feeds.h"

#include <map>

namespace offload::rt {

namespace {

std::string printDimension(const Dimension &dim) {
  if (dim.isFixed())
    return std::to_string(dim.size);
  std::string name = dim.name.empty() ? "?" : dim.name;
  return dim.size < 0 ? name : name + "<=" + std::to_string(dim.size);
}

std::string listInputs(const Program &program) {
  std::string list;
  for (uint32_t input : program.inputs) {
    const ProgramValue &value = program.values[input];
    if (value.isFeed())
      list +=
          (list.empty() ? "" : ", ") + value.name + " " + printExpected(value);
  }
  return list.empty() ? "none" : list;
}

void checkNames(const Program &program, const TensorMap &feeds) {
  for (const auto &[name, tensor] : feeds) {
    uint32_t number = program.findValue(name);
    if (number == kNone || !program.values[number].isInput)
      throw Error("there is no input '" + name +
                  "'; inputs are: " + listInputs(program));
    if (program.values[number].isState())
      throw Error("input '" + name +
                  "' is a state: it is set with setState, not fed");
  }
}

void checkTensor(const ProgramValue &input, const Tensor &tensor,
                 std::map<std::string, int64_t> &sizes) {
  auto refuse = [&](const std::string &why) {
    throw Error("input '" + input.name + "' is fed " +
                printShape(tensor.type, tensor.dims) + " and expects " +
                printExpected(input) + ": " + why);
  };
  if (tensor.type != input.type)
    refuse("another type");
  if (tensor.dims.size() != input.dims.size())
    refuse("another rank");
  for (size_t axis = 0; axis < input.dims.size(); ++axis) {
    const Dimension &dim = input.dims[axis];
    int64_t size = tensor.dims[axis];
    std::string where = "axis " + std::to_string(axis);
    if (size < 0)
      refuse(where + " is negative");
    if (dim.isFixed() && size != dim.size)
      refuse(where + " is " + std::to_string(size) + ", not " +
             std::to_string(dim.size));
    if (dim.size >= 0 && size > dim.size)
      refuse(where + " is over its bound");
    if (dim.name.empty())
      continue;
    auto [known, isNew] = sizes.emplace(dim.name, size);
    if (!isNew && known->second != size)
      refuse("'" + dim.name + "' is " + std::to_string(known->second) +
             " in another input");
  }
  if (!tensor.bytes && tensor.sizeBytes())
    refuse("there are no bytes");
}

} // namespace

std::string printExpected(const ProgramValue &input) {
  std::string text(dataTypeName(input.type));
  text += '[';
  for (size_t i = 0; i < input.dims.size(); ++i)
    text += (i ? "," : "") + printDimension(input.dims[i]);
  return text + ']';
}

std::vector<std::vector<int64_t>> checkFeeds(const Program &program,
                                             const TensorMap &feeds) {
  checkNames(program, feeds);
  std::vector<std::vector<int64_t>> dims;
  std::map<std::string, int64_t> sizes; // of dimensions, by name
  for (uint32_t number : program.inputs) {
    const ProgramValue &input = program.values[number];
    std::vector<int64_t> &fed = dims.emplace_back();
    if (!input.isFeed())
      continue;
    auto found = feeds.find(input.name);
    if (found != feeds.end()) {
      checkTensor(input, found->second, sizes);
      fed = found->second.dims;
    } else if (input.hasContents) {
      fed = input.contentDims;
    } else {
      throw Error("input '" + input.name + "' is not fed: it expects " +
                  printExpected(input));
    }
  }
  return dims;
}

ValueInfo describeValue(const ProgramValue &value) {
  ValueInfo info;
  info.name = value.name;
  info.type = value.type;
  info.optional = value.hasContents;
  for (const Dimension &dim : value.dims) {
    info.dims.push_back(dim.size);
    info.dimNames.push_back(dim.isFixed()      ? ""
                            : dim.name.empty() ? "?"
                                               : dim.name);
  }
  return info;
}

HostValuePointer hostValueOf(DataType type, const std::vector<int64_t> &dims,
                             const void *data) {
  auto bytes = static_cast<size_t>(contiguousValue(type, dims).bytes);
  return std::make_shared<HostValue>(HostValue::fromBytes(
      type, dims, {static_cast<const uint8_t *>(data), bytes}));
}

} // namespace offload::rt
