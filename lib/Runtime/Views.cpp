// Layouts of values that share another value's bytes.
//
// In:  a node that only renames bytes (Reshape, Flatten, Squeeze, Unsqueeze,
//      Identity, Transpose; Gather of one constant index) and its operand's
//      layout.
// Out: the result's dimensions and strides, and where its first element lies.
// Not: bytes; no kernel runs for a view.

#include "Shapes.h"

#include <algorithm>
#include <numeric>

namespace offload::rt {

namespace {

using Dims = std::vector<int64_t>;

int64_t countOf(const Dims &dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1),
                         std::multiplies<>());
}

int64_t wrapAxis(int64_t axis, size_t rank) {
  int64_t wrapped = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (wrapped < 0 || wrapped > static_cast<int64_t>(rank))
    throw Error("axis " + std::to_string(axis) + " is out of range for rank " +
                std::to_string(rank));
  return wrapped;
}

Dims reshaped(const ProgramNode &node, const Dims &from,
              const HostValue *shape) {
  if (!shape)
    throw Error("the new shape is not known");
  bool allowZero = intAttribute(node.attributes, "allowzero", 0) != 0;
  Dims dims = shape->ints;
  int64_t rest = 1;
  int64_t *free = nullptr;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allowZero) {
      if (i >= from.size())
        throw Error("there is no axis " + std::to_string(i) + " to copy");
      dims[i] = from[i];
    }
    if (dims[i] == -1)
      free = &dims[i];
    else
      rest *= dims[i];
  }
  if (free)
    *free = rest ? countOf(from) / rest : 0;
  for (int64_t size : dims)
    if (size < 0)
      throw Error("makes an axis of size " + std::to_string(size));
  return dims;
}

Dims axesOf(const ProgramNode &node, const HostValue *launch) {
  if (launch)
    return launch->ints;
  const Dims *attribute = intsAttribute(node.attributes, "axes");
  return attribute ? *attribute : Dims();
}

BoundValue squeezed(const ProgramNode &node, const BoundValue &operand,
                    const HostValue *launch) {
  Dims axes = axesOf(node, launch);
  for (int64_t &axis : axes)
    axis = wrapAxis(axis, operand.dims.size());
  BoundValue result = operand;
  result.dims.clear();
  result.strides.clear();
  for (size_t i = 0; i < operand.dims.size(); ++i) {
    bool isNamed = std::count(axes.begin(), axes.end(), int64_t(i)) != 0;
    if (axes.empty() ? operand.dims[i] == 1 : isNamed) {
      if (operand.dims[i] != 1)
        throw Error("axis " + std::to_string(i) + " has size " +
                    std::to_string(operand.dims[i]) + ", not 1");
      continue;
    }
    result.dims.push_back(operand.dims[i]);
    result.strides.push_back(operand.strides[i]);
  }
  return result;
}

BoundValue unsqueezed(const ProgramNode &node, const BoundValue &operand,
                      const HostValue *launch) {
  Dims axes = axesOf(node, launch);
  size_t rank = operand.dims.size() + axes.size();
  for (int64_t &axis : axes)
    axis = wrapAxis(axis, rank);
  BoundValue result = operand;
  result.dims.clear();
  result.strides.clear();
  size_t from = 0;
  for (size_t i = 0; i < rank; ++i) {
    if (std::count(axes.begin(), axes.end(), int64_t(i))) {
      result.dims.push_back(1);
      result.strides.push_back(1);
    } else if (from < operand.dims.size()) {
      result.dims.push_back(operand.dims[from]);
      result.strides.push_back(operand.strides[from++]);
    }
  }
  return result;
}

BoundValue transposed(const ProgramNode &node, const BoundValue &operand) {
  size_t rank = operand.dims.size();
  Dims permutation(rank);
  for (size_t i = 0; i < rank; ++i)
    permutation[i] = static_cast<int64_t>(rank - 1 - i);
  if (const Dims *given = intsAttribute(node.attributes, "perm"))
    permutation = *given;
  if (permutation.size() != rank)
    throw Error("its permutation is not of rank " + std::to_string(rank));
  BoundValue result = operand;
  for (size_t i = 0; i < rank; ++i) {
    auto axis = static_cast<size_t>(wrapAxis(permutation[i], rank));
    if (axis >= rank)
      throw Error("its permutation names axis " + std::to_string(axis));
    result.dims[i] = operand.dims[axis];
    result.strides[i] = operand.strides[axis];
  }
  return result;
}

/// Gives the axes before `end` strides until they fill a run of `count`
/// elements, `stride` apart.
void fillRun(int64_t count, int64_t stride, BoundValue &result, size_t &end) {
  int64_t filled = 1;
  while (end > 0 && (filled < count || result.dims[end - 1] == 1)) {
    result.strides[--end] = filled * stride;
    filled *= result.dims[end];
  }
  if (filled != count)
    throw Error("cannot be a view: no strides reach the elements of " +
                printShape(result.type, result.dims) + " in their order");
}

/// The elements of `from` in their order under other dimensions, as many: axes
/// of `from` that lie one behind the other are a run, and the result's axes
/// fill run after run.
BoundValue strided(const BoundValue &from, Dims dims) {
  BoundValue result = from;
  result.dims = std::move(dims);
  result.strides.assign(result.dims.size(), 1);
  size_t end = result.dims.size();
  int64_t run = 1, stride = from.strides.empty() ? 1 : from.strides.back();
  for (size_t i = from.dims.size(); i-- > 0;) {
    run *= from.dims[i];
    if (i > 0 && (from.dims[i - 1] == 1 || from.strides[i - 1] == run * stride))
      continue;
    fillRun(run, stride, result, end);
    if (i > 0)
      stride = from.strides[i - 1];
    run = 1;
  }
  return result;
}

/// One place along an axis, which gives way to the index's axes of size 1.
BoundValue part(const ProgramNode &node, const BoundValue &operand,
                const HostValue *index) {
  if (!index || index->ints.size() != 1)
    throw Error("the index is not known");
  size_t rank = operand.dims.size();
  auto axis = static_cast<size_t>(
      wrapAxis(intAttribute(node.attributes, "axis", 0), rank));
  if (axis >= rank)
    throw Error("there is no axis " + std::to_string(axis));
  int64_t size = operand.dims[axis], at = index->ints[0];
  if (at < -size || at >= size)
    throw Error("index " + std::to_string(at) +
                " is out of range for an axis of size " + std::to_string(size));
  BoundValue result = operand;
  auto place = static_cast<ptrdiff_t>(axis);
  result.dims.erase(result.dims.begin() + place);
  result.strides.erase(result.strides.begin() + place);
  result.dims.insert(result.dims.begin() + place, index->dims.size(), 1);
  result.strides.insert(result.strides.begin() + place, index->dims.size(), 1);
  int64_t skipped = (at < 0 ? at + size : at) * operand.strides[axis];
  result.offsetBytes += packedBytes(operand.type, skipped);
  result.bytes = packedBytes(operand.type, countOf(result.dims));
  return result;
}

Dims flattened(const ProgramNode &node, const Dims &from) {
  auto axis = static_cast<ptrdiff_t>(
      wrapAxis(intAttribute(node.attributes, "axis", 1), from.size()));
  return {countOf(Dims(from.begin(), from.begin() + axis)),
          countOf(Dims(from.begin() + axis, from.end()))};
}

} // namespace

BoundValue contiguousValue(DataType type, Dims dims) {
  BoundValue value;
  value.isKnown = true;
  value.type = type;
  value.strides.resize(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    value.strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  value.bytes = packedBytes(type, countOf(dims));
  value.dims = std::move(dims);
  return value;
}

bool isContiguous(const BoundValue &value) {
  int64_t stride = 1;
  for (size_t i = value.dims.size(); i-- > 0;) {
    if (value.dims[i] != 1 && value.strides[i] != stride && value.bytes)
      return false;
    stride *= value.dims[i];
  }
  return true;
}

std::string printShape(DataType type, const Dims &dims) {
  std::string text(dataTypeName(type));
  text += '[';
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "," : "") + std::to_string(dims[i]);
  return text + ']';
}

BoundValue viewOf(const ProgramNode &node, const BoundValue &operand,
                  const HostValue *launch) {
  if (node.is(Op::Identity) || node.is(Op::Dropout) ||
      node.is(Op::Offload_Wait))
    return operand;
  if (node.is(Op::Squeeze))
    return squeezed(node, operand, launch);
  if (node.is(Op::Unsqueeze))
    return unsqueezed(node, operand, launch);
  if (node.is(Op::Transpose))
    return transposed(node, operand);
  if (node.is(Op::Gather))
    return part(node, operand, launch);
  Dims dims = node.is(Op::Flatten) ? flattened(node, operand.dims)
                                   : reshaped(node, operand.dims, launch);
  if (countOf(dims) != countOf(operand.dims))
    throw Error("makes " + printShape(operand.type, dims) + " of " +
                printShape(operand.type, operand.dims));
  if (operand.bytes && !isContiguous(operand))
    return strided(operand, std::move(dims));
  BoundValue result = contiguousValue(operand.type, std::move(dims));
  result.offsetBytes = operand.offsetBytes;
  return result;
}

} // namespace offload::rt
