// Operators that move elements, or only name their shape anew.
//
// In:  an operand, and launch operands that say which shape or part.
// Out: contiguous.
// Not: arithmetic on shapes themselves (OffFormat/ShapeArithmetic).
// How: what has the operand's elements in order returns it under other
//      dimensions; the caller copies it where it is not a view.

#include "AxisMap.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace offload::rt {

namespace {

/// Operand 0 under other dimensions.
KernelOutputs renamed(const KernelContext &context, const Dims &dims) {
  if (elementBits(context.type(0)) == 4)
    return {{context[0], context.type(0), dims}};
  return {context.contiguous(0).view(dims)};
}

/// Axes of Squeeze and Unsqueeze: an attribute until opset 13.
std::optional<Dims> axesOf(const KernelContext &context) {
  if (const Dims *axes = context.intsAttr("axes"))
    return *axes;
  return context.launchInts(1);
}

/// `blocks` of the operand along an axis, each a new tensor.
KernelOutputs splitAxis(const at::Tensor &x, int64_t axis, const Dims &sizes) {
  KernelOutputs outputs;
  int64_t start = 0;
  for (int64_t size : sizes) {
    if (size < 0 || start + size > x.size(axis))
      throw Error("parts take more than the " + std::to_string(x.size(axis)) +
                  " elements of axis " + std::to_string(axis));
    at::Tensor part = x.narrow(axis, start, size);
    at::Tensor out = makeEmpty(part.sizes(), part.scalar_type());
    outputs.push_back(out.copy_(part));
    start += size;
  }
  return outputs;
}

struct Range {
  int64_t start, count, step;
};

/// ONNX's slice of one axis: ends past the axis are cut to it.
Range sliceRange(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0)
    throw Error("a step of a slice is 0");
  auto wrap = [size](int64_t index) {
    return index < 0 ? std::max(index, -size - 1) + size : index;
  };
  int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  start = std::clamp<int64_t>(wrap(start), step > 0 ? 0 : -1, most);
  end = std::clamp<int64_t>(wrap(end), least, most);
  int64_t distance = step > 0 ? end - start : start - end;
  int64_t stride = std::abs(step);
  return {start, std::max<int64_t>((distance + stride - 1) / stride, 0), step};
}

/// Source index of position `i` (negative in front of the axis) by pad mode.
int64_t paddedIndex(int64_t i, int64_t size, const std::string &mode) {
  if (i >= 0 && i < size)
    return i;
  if (mode == "constant")
    return -1;
  if (size == 0)
    throw Error("pads an axis without elements by its own");
  if (mode == "edge")
    return i < 0 ? 0 : size - 1;
  if (mode == "wrap")
    return ((i % size) + size) % size;
  if (size == 1)
    return 0;
  int64_t period = 2 * (size - 1);
  int64_t folded = ((i % period) + period) % period;
  return folded < size ? folded : period - folded;
}

/// One element of `type` as bytes.
std::vector<uint8_t> oneElement(const HostValue *value, DataType type) {
  HostValue one;
  one.type = type;
  double real = 0;
  int64_t integer = 0;
  if (value && !value->reals.empty())
    real = value->reals[0], integer = static_cast<int64_t>(real);
  if (value && !value->ints.empty())
    integer = value->ints[0], real = static_cast<double>(integer);
  if (isFloating(type))
    one.reals = {real};
  else
    one.ints = {integer};
  return one.toBytes();
}

at::Tensor filled(const Dims &dims, DataType type,
                  const std::vector<uint8_t> &element) {
  std::optional<at::ScalarType> scalar = scalarTypeOf(type);
  if (!scalar)
    throw Error("does not make elements of type " +
                std::string(dataTypeName(type)));
  at::Tensor out = makeEmpty(dims, *scalar);
  auto *to = static_cast<uint8_t *>(out.mutable_data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i)
    std::memcpy(to + i * element.size(), element.data(), element.size());
  return out;
}

template <typename T>
at::Tensor range(T start, T limit, T delta, at::ScalarType type) {
  if (delta == 0)
    throw Error("delta of a range is 0");
  double span = (static_cast<double>(limit) - static_cast<double>(start)) /
                static_cast<double>(delta);
  int64_t count = std::max<int64_t>(static_cast<int64_t>(std::ceil(span)), 0);
  at::Tensor out = makeEmpty({count}, type);
  dispatchNumber(type, [&](auto *tag) {
    using E = std::remove_pointer_t<decltype(tag)>;
    E *to = out.data_ptr<E>();
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<E>(
          static_cast<ComputeType<E>>(start + static_cast<T>(i) * delta));
  });
  return out;
}

} // namespace

OFFLOAD_KERNEL(Reshape) {
  std::optional<Dims> shape = context.launchInts(1);
  if (!shape)
    throw Error("the shape is missing");
  const Dims &input = context.dims(0);
  bool allowZero = context.intAttr("allowzero", 0);
  int64_t count = product(input, 0, input.size()), known = 1;
  std::optional<size_t> unknown;
  for (size_t i = 0; i < shape->size(); ++i) {
    int64_t &size = (*shape)[i];
    if (size == 0 && !allowZero && i < input.size())
      size = input[i];
    if (size == -1)
      unknown = i;
    else
      known *= size;
  }
  if (unknown)
    (*shape)[*unknown] = known ? count / known : 0;
  if (product(*shape, 0, shape->size()) != count)
    throw Error("the shape does not hold the operand's " +
                std::to_string(count) + " elements");
  return renamed(context, *shape);
}

OFFLOAD_KERNEL(Flatten) {
  const Dims &input = context.dims(0);
  auto rank = static_cast<int64_t>(input.size());
  int64_t axis = context.intAttr("axis", 1);
  axis = axis < 0 ? axis + rank : axis;
  return renamed(context,
                 {product(input, 0, axis), product(input, axis, input.size())});
}

OFFLOAD_KERNEL(Squeeze) {
  const Dims &input = context.dims(0);
  std::vector<bool> dropped(input.size(), false);
  if (std::optional<Dims> axes = axesOf(context))
    for (int64_t axis : *axes)
      dropped[wrapAxis(axis, static_cast<int64_t>(input.size()))] = true;
  else
    for (size_t i = 0; i < input.size(); ++i)
      dropped[i] = input[i] == 1;
  Dims dims;
  for (size_t i = 0; i < input.size(); ++i)
    if (!dropped[i])
      dims.push_back(input[i]);
    else if (input[i] != 1)
      throw Error("axis " + std::to_string(i) + " to squeeze has " +
                  std::to_string(input[i]) + " elements");
  return renamed(context, dims);
}

OFFLOAD_KERNEL(Unsqueeze) {
  const Dims &input = context.dims(0);
  std::optional<Dims> axes = axesOf(context);
  if (!axes)
    throw Error("the axes are missing");
  size_t rank = input.size() + axes->size();
  std::vector<bool> added(rank, false);
  for (int64_t axis : *axes)
    added[wrapAxis(axis, static_cast<int64_t>(rank))] = true;
  Dims dims;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(added[i] ? 1 : input.at(next++));
  return renamed(context, dims);
}

OFFLOAD_KERNEL(Transpose) {
  at::Tensor x = context[0];
  Dims permutation(x.dim());
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  if (const Dims *given = context.intsAttr("perm"))
    permutation = *given;
  return {x.permute(permutation)};
}

OFFLOAD_KERNEL(Concat) {
  at::Tensor first = context[0];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), first.dim());
  Dims dims = first.sizes().vec();
  for (unsigned i = 1; i < context.numOperands(); ++i)
    dims[axis] += context.dims(i).at(axis);
  at::Tensor out = makeEmpty(dims, first.scalar_type());
  int64_t start = 0;
  for (unsigned i = 0; i < context.numOperands(); ++i) {
    at::Tensor part = context[i];
    // One dimension more, as in Kernels.cpp: no tile for a transposed matrix.
    out.narrow(axis, start, part.size(axis))
        .unsqueeze(0)
        .copy_(part.unsqueeze(0));
    start += part.size(axis);
  }
  return {out};
}

OFFLOAD_KERNEL(Split) {
  at::Tensor x = context[0];
  int64_t axis = wrapAxis(context.intAttr("axis", 0), x.dim());
  if (const Dims *sizes = context.intsAttr("split"))
    return splitAxis(x, axis, *sizes);
  if (std::optional<Dims> sizes = context.launchInts(1))
    return splitAxis(x, axis, *sizes);
  // Equal parts; from opset 18 on the last one may be smaller.
  int64_t parts = context.intAttr("num_outputs", context.numOutputs());
  int64_t part = (x.size(axis) + parts - 1) / parts;
  Dims sizes(parts, part);
  sizes.back() = x.size(axis) - part * (parts - 1);
  return splitAxis(x, axis, sizes);
}

OFFLOAD_KERNEL(Slice) {
  at::Tensor x = context[0];
  std::optional<Dims> starts = context.launchInts(1);
  std::optional<Dims> ends = context.launchInts(2);
  if (!starts || !ends || starts->size() != ends->size())
    throw Error("starts and ends differ in length or are missing");
  std::optional<Dims> axes = context.launchInts(3);
  std::optional<Dims> steps = context.launchInts(4);
  AxisMap map = identityMap(x);
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis =
        wrapAxis(axes ? axes->at(i) : static_cast<int64_t>(i), x.dim());
    Range range = sliceRange((*starts)[i], (*ends)[i], steps ? steps->at(i) : 1,
                             x.size(axis));
    Dims &table = map[axis];
    table.resize(range.count);
    for (int64_t k = 0; k < range.count; ++k)
      table[k] = range.start + k * range.step;
  }
  return {takeByAxis(x, map)};
}

OFFLOAD_KERNEL(Expand) {
  at::Tensor x = context[0];
  std::optional<Dims> shape = context.launchInts(1);
  if (!shape)
    throw Error("the shape is missing");
  Dims dims = at::infer_size(x.sizes(), *shape);
  at::Tensor out = makeEmpty(dims, x.scalar_type());
  return {out.copy_(x.expand(dims))};
}

OFFLOAD_KERNEL(Tile) {
  at::Tensor x = context[0];
  std::optional<Dims> repeats = context.launchInts(1);
  if (!repeats || repeats->size() != static_cast<size_t>(x.dim()))
    throw Error("repeats has not one number for each dimension");
  AxisMap map(x.dim());
  for (size_t axis = 0; axis < map.size(); ++axis)
    for (int64_t i = 0; i < x.sizes()[axis] * (*repeats)[axis]; ++i)
      map[axis].push_back(i % x.sizes()[axis]);
  return {takeByAxis(x, map)};
}

OFFLOAD_KERNEL(Pad) {
  at::Tensor x = context[0];
  std::string mode = context.textAttr("mode", "constant");
  std::optional<Dims> pads = context.launchInts(1);
  std::optional<Dims> axes = context.launchInts(3);
  size_t count = axes ? axes->size() : static_cast<size_t>(x.dim());
  if (!pads || pads->size() != 2 * count)
    throw Error("pads has not two numbers for each axis");
  AxisMap map = identityMap(x);
  for (size_t i = 0; i < count; ++i) {
    int64_t axis =
        wrapAxis(axes ? (*axes)[i] : static_cast<int64_t>(i), x.dim());
    int64_t begin = (*pads)[i], end = (*pads)[count + i];
    // Negative pads cut first; what is left is what other pads repeat.
    int64_t first = std::max<int64_t>(-begin, 0);
    int64_t size = x.size(axis) - first - std::max<int64_t>(-end, 0);
    map[axis].clear();
    for (int64_t k = -std::max<int64_t>(begin, 0);
         k < size + std::max<int64_t>(end, 0); ++k) {
      int64_t index = paddedIndex(k, size, mode);
      map[axis].push_back(index < 0 ? index : index + first);
    }
  }
  return {takeByAxis(x, map,
                     oneElement(context.launch(2), context.type(0)).data())};
}

OFFLOAD_KERNEL(DepthToSpace) {
  at::Tensor x = context.contiguous(0);
  int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  int64_t block = context.intAttr("blocksize", 1);
  int64_t channels = c / (block * block);
  at::Tensor moved;
  if (context.textAttr("mode", "DCR") == "CRD")
    moved =
        x.view({n, channels, block, block, h, w}).permute({0, 1, 4, 2, 5, 3});
  else
    moved =
        x.view({n, block, block, channels, h, w}).permute({0, 3, 4, 1, 5, 2});
  return {moved.clone(at::MemoryFormat::Contiguous)
              .view({n, channels, h * block, w * block})};
}

OFFLOAD_KERNEL(SpaceToDepth) {
  at::Tensor x = context.contiguous(0);
  int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  int64_t block = context.intAttr("blocksize", 1);
  at::Tensor moved = x.view({n, c, h / block, block, w / block, block});
  // From opset 28 on there are two orders of the new channels.
  moved = context.textAttr("mode", "DCR") == "CRD"
              ? moved.permute({0, 1, 3, 5, 2, 4})
              : moved.permute({0, 3, 5, 1, 2, 4});
  return {moved.clone(at::MemoryFormat::Contiguous)
              .view({n, c * block * block, h / block, w / block})};
}

OFFLOAD_KERNEL(EyeLike) {
  const Dims &dims = context.dims(0);
  int64_t type =
      context.intAttr("dtype", static_cast<int64_t>(context.type(0)));
  std::optional<at::ScalarType> scalar =
      scalarTypeOf(static_cast<DataType>(type));
  if (!scalar || dims.size() != 2)
    throw Error("makes matrices of number types only");
  at::Tensor out = makeEmpty(dims, *scalar).zero_();
  int64_t offset = context.intAttr("k", 0);
  for (int64_t i = 0; i < dims[0]; ++i)
    if (i + offset >= 0 && i + offset < dims[1])
      out.select(0, i).select(0, i + offset).fill_(1);
  return {out};
}

OFFLOAD_KERNEL(ConstantOfShape) {
  std::optional<Dims> dims = context.launchInts(0);
  if (!dims)
    throw Error("the shape is missing");
  if (const TensorAttribute *value = context.tensorAttr("value"))
    return {filled(*dims, value->type, value->bytes)};
  return {filled(*dims, DataType::Float, oneElement(nullptr, DataType::Float))};
}

OFFLOAD_KERNEL(Range) {
  const HostValue *start = context.launch(0), *limit = context.launch(1),
                  *delta = context.launch(2);
  if (!start || !limit || !delta)
    throw Error("start, limit or delta is missing");
  std::optional<at::ScalarType> type = scalarTypeOf(start->type);
  if (!type)
    throw Error("makes numbers only");
  if (start->isReal())
    return {range(start->reals.at(0), limit->reals.at(0), delta->reals.at(0),
                  *type)};
  return {
      range(start->ints.at(0), limit->ints.at(0), delta->ints.at(0), *type)};
}

} // namespace offload::rt
