// Rules that make a tensor from attributes, shapes or scalars.

#include "ShapeArithmeticParts.h"

#include <algorithm>
#include <cmath>

namespace offload::shape {

namespace {

HostValue fromAttribute(const TensorAttribute &tensor) {
  if (!isFloating(tensor.type) && !isInteger(tensor.type) &&
      tensor.type != DataType::Bool)
    refuse("shape arithmetic does not hold the type " +
           std::string(dataTypeName(tensor.type)));
  int64_t count = countElements(tensor.dims);
  if (static_cast<int64_t>(tensor.bytes.size()) !=
      packedBytes(tensor.type, count))
    refuse("a constant of shape " + printDims(tensor.dims) + " has " +
           std::to_string(tensor.bytes.size()) + " bytes");
  return HostValue::fromBytes(tensor.type, tensor.dims, tensor.bytes);
}

HostValue fromIntegers(const std::vector<int64_t> &numbers, Dims dims) {
  HostValue value = makeValue(DataType::Int64, std::move(dims));
  value.ints = numbers;
  return value;
}

HostValue fromFloats(const std::vector<float> &numbers, Dims dims) {
  HostValue value = makeValue(DataType::Float, std::move(dims));
  value.reals.assign(numbers.begin(), numbers.end());
  return value;
}

const Dims &shapeOfOperand(const Evaluation &e) {
  if (e.operands[0].dims)
    return *e.operands[0].dims;
  if (e.operands[0].value)
    return e.operands[0].value->dims;
  refuse("the shape of operand 0 is not known");
}

/// How many steps of `delta` lead from `start` to before `limit`.
int64_t rangeCount(const HostValue &start, const HostValue &limit,
                   const HostValue &delta) {
  if (start.isReal()) {
    if (delta.reals[0] == 0)
      refuse("delta is 0");
    double count =
        std::ceil((limit.reals[0] - start.reals[0]) / delta.reals[0]);
    if (!(count < double(int64_t(1) << 40)))
      refuse("has no finite number of elements");
    return std::max<int64_t>(0, static_cast<int64_t>(count));
  }
  // 128 bits hold any difference of two 64-bit numbers.
  __int128 step = delta.ints[0];
  if (step == 0)
    refuse("delta is 0");
  __int128 span = __int128(limit.ints[0]) - start.ints[0];
  __int128 count = span / step + (span % step != 0 && (span < 0) == (step < 0));
  if (count <= 0)
    return 0;
  return count > (int64_t(1) << 40) ? int64_t(1) << 40
                                    : static_cast<int64_t>(count);
}

} // namespace

std::vector<HostValue> constant(const Evaluation &e) {
  if (const TensorAttribute *tensor = tensorAttribute(e.attributes, "value"))
    return {fromAttribute(*tensor)};
  if (const Dims *numbers = intsAttribute(e.attributes, "value_ints"))
    return {fromIntegers(*numbers, {static_cast<int64_t>(numbers->size())})};
  if (auto *numbers = floatsAttribute(e.attributes, "value_floats"))
    return {fromFloats(*numbers, {static_cast<int64_t>(numbers->size())})};
  auto single = e.attributes.find("value_int");
  if (single != e.attributes.end())
    if (const auto *number = std::get_if<int64_t>(&single->second))
      return {fromIntegers({*number}, {})};
  single = e.attributes.find("value_float");
  if (single != e.attributes.end())
    if (const auto *number = std::get_if<float>(&single->second))
      return {fromFloats({*number}, {})};
  refuse("has no value that shape arithmetic holds");
}

std::vector<HostValue> constantOfShape(const Evaluation &e) {
  HostValue fill = makeValue(DataType::Float, {1});
  if (const TensorAttribute *tensor = tensorAttribute(e.attributes, "value"))
    fill = fromAttribute(*tensor);
  if (fill.numElements() != 1)
    refuse("attribute value must have one element");
  HostValue result = makeValue(fill.type, e.integers(0));
  for (int64_t i = 0, count = result.numElements(); i < count; ++i)
    copyElement(result, i, fill, 0);
  return {result};
}

std::vector<HostValue> shapeOf(const Evaluation &e) {
  const Dims &dims = shapeOfOperand(e);
  auto rank = static_cast<int64_t>(dims.size());
  auto clamp = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = clamp(intAttribute(e.attributes, "start", 0));
  int64_t end = clamp(intAttribute(e.attributes, "end", rank));
  Dims part;
  if (start < end)
    part.assign(dims.begin() + start, dims.begin() + end);
  return {fromIntegers(part, {static_cast<int64_t>(part.size())})};
}

std::vector<HostValue> sizeOf(const Evaluation &e) {
  int64_t count = 1;
  for (int64_t dim : shapeOfOperand(e))
    count *= dim;
  return {fromIntegers({count}, {})};
}

std::vector<HostValue> range(const Evaluation &e) {
  const HostValue &start = e.value(0);
  const HostValue &delta = e.value(2);
  for (unsigned i : {0u, 1u, 2u}) {
    needSameType(start, e.value(i));
    if (e.value(i).numElements() != 1)
      refuse("operand " + std::to_string(i) +
             " must be one number, has shape " + printDims(e.value(i).dims));
  }
  int64_t count = rangeCount(start, e.value(1), delta);
  HostValue result = makeValue(start.type, {count});
  for (int64_t i = 0; i < count; ++i) {
    if (start.isReal())
      result.reals[i] =
          roundTo(start.type, start.reals[0] + double(i) * delta.reals[0]);
    else
      result.ints[i] = start.ints[0] + i * delta.ints[0];
  }
  return {result};
}

std::vector<HostValue> oneHot(const Evaluation &e) {
  const HostValue &indices = e.value(0);
  const HostValue &values = e.value(2);
  if (e.value(1).numElements() != 1 || values.numElements() != 2)
    refuse("depth must have one element and values two");
  HostValue depth = makeValue(DataType::Int64, {1});
  castElement(depth, 0, e.value(1), 0);
  auto rank = static_cast<int64_t>(indices.dims.size());
  int64_t axis =
      normalizeAxis(intAttribute(e.attributes, "axis", -1), rank + 1);
  Dims dims = indices.dims;
  dims.insert(dims.begin() + axis, depth.ints[0]);
  HostValue result = makeValue(values.type, dims);
  Dims strides = rowMajorStrides(indices.dims);
  HostValue wanted = makeValue(DataType::Int64, {1});
  walk(dims, [&](int64_t i, const Dims &index) {
    Dims at = index;
    at.erase(at.begin() + axis);
    castElement(wanted, 0, indices, offsetOf(at, strides));
    if (wanted.ints[0] < 0)
      wanted.ints[0] += depth.ints[0];
    copyElement(result, i, values, wanted.ints[0] == index[axis]);
  });
  return {result};
}

} // namespace offload::shape
