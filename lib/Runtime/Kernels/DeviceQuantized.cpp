// Quantization to 8- and 4-bit integers, and back, for devices.
//
// In:  as on the host.
// Out: as on the host.
// How: 4-bit elements are taken out of their bytes, and put back, by operations
//      on whole tensors. Scales and zero points are brought to a shape that
//      broadcasts over the elements.

#include "Kernel.h"

namespace offload::rt {

namespace {

bool isPacked(DataType type) { return elementBits(type) == 4; }

/// Stored integers in a type that holds them all, of the operand's shape.
at::Tensor integersOf(const KernelContext &context, unsigned i,
                      at::ScalarType type) {
  DataType stored = context.type(i);
  const Dims &dims = context.dims(i);
  if (!isPacked(stored)) {
    std::optional<at::ScalarType> own = scalarTypeOf(stored);
    if (!own)
      throw Error("does not take elements of type " +
                  std::string(dataTypeName(stored)));
    at::Tensor x = context.contiguous(i);
    return (x.scalar_type() == *own ? x : x.view(*own)).to(type);
  }
  at::Tensor bytes = context[i];
  int64_t count = product(dims, 0, dims.size());
  at::Tensor pairs = makeEmpty({bytes.numel(), 2}, at::kByte);
  pairs.select(1, 0).copy_(at::bitwise_and(bytes, 15));
  pairs.select(1, 1).copy_(at::bitwise_right_shift(bytes, 4));
  at::Tensor values =
      pairs.view(-1).narrow(0, 0, count).to(at::kShort).view(dims);
  if (stored == DataType::Int4) // 8 to 15 stand for -8 to -1
    values.sub_(at::ge(values, 8).to(at::kShort).mul_(16));
  return values.to(type);
}

/// A scale or zero point with a shape that broadcasts over the data.
at::Tensor overData(const KernelContext &context, at::Tensor x) {
  const Dims &data = context.dims(0);
  int64_t block = context.intAttr("block_size", 0);
  if (x.numel() == 1 && block == 0)
    return x.reshape({});
  int64_t axis =
      wrapAxis(context.intAttr("axis", 1), static_cast<int64_t>(data.size()));
  if (block == 0) {
    if (x.numel() != data[axis])
      throw Error("the scale has " + std::to_string(x.numel()) +
                  " values, not " + std::to_string(data[axis]));
    Dims shape(data.size(), 1);
    shape[axis] = data[axis];
    return x.reshape(shape);
  }
  Dims shape = data;
  shape[axis] = (data[axis] + block - 1) / block;
  if (x.numel() != product(shape, 0, shape.size()))
    throw Error("the scale has " + std::to_string(x.numel()) + " values, not " +
                std::to_string(product(shape, 0, shape.size())));
  Dims repeated = shape;
  repeated.insert(repeated.begin() + axis + 1, block);
  Dims joined = shape;
  joined[axis] *= block;
  return x.reshape(shape)
      .unsqueeze(axis + 1)
      .expand(repeated)
      .reshape(joined)
      .narrow(axis, 0, data[axis]);
}

/// The least and the largest integer of a quantized type.
std::pair<int64_t, int64_t> rangeOf(DataType type) {
  unsigned bits = elementBits(type);
  bool isSigned = type == DataType::Int8 || type == DataType::Int16 ||
                  type == DataType::Int4;
  bool isUnsigned = type == DataType::UInt8 || type == DataType::UInt16 ||
                    type == DataType::UInt4;
  if (!isSigned && !isUnsigned)
    throw Error("does not make elements of type " +
                std::string(dataTypeName(type)));
  int64_t count = int64_t(1) << bits;
  return isSigned ? std::pair(-count / 2, count / 2 - 1)
                  : std::pair(int64_t(0), count - 1);
}

/// Two elements a byte, the first one in the low half.
at::Tensor packPairs(const at::Tensor &values) {
  int64_t count = values.numel(), bytes = (count + 1) / 2;
  at::Tensor pairs = makeEmpty({bytes, 2}, at::kByte).zero_();
  pairs.view(-1)
      .narrow(0, 0, count)
      .copy_(at::bitwise_and(values.reshape(-1), 15));
  at::Tensor out = makeEmpty({bytes}, at::kByte);
  at::bitwise_left_shift_out(out, pairs.select(1, 1), 4);
  return out.bitwise_or_(pairs.select(1, 0));
}

} // namespace

OFFLOAD_DEVICE_KERNEL(DequantizeLinear) {
  at::Tensor scales = context.contiguous(1);
  int64_t asked = context.intAttr("output_dtype", 0);
  at::ScalarType type = scales.scalar_type();
  if (asked) {
    std::optional<at::ScalarType> given =
        scalarTypeOf(static_cast<DataType>(asked));
    if (!given)
      throw Error("does not make elements of type " +
                  std::string(dataTypeName(static_cast<DataType>(asked))));
    type = *given;
  }
  at::Tensor out = makeEmpty(context.dims(0), type);
  at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor values;
  if (context.has(2)) {
    values = integersOf(context, 0, at::kInt);
    values.sub_(overData(context, integersOf(context, 2, at::kInt)));
    values = values.to(wide);
  } else {
    values = integersOf(context, 0, wide);
  }
  at::Tensor product = at::mul(values, overData(context, scales.to(wide)));
  return {out.copy_(product)};
}

OFFLOAD_DEVICE_KERNEL(QuantizeLinear) {
  at::Tensor x = context.contiguous(0), scales = context.contiguous(1);
  int64_t asked = context.intAttr("output_dtype", 0);
  DataType type = context.has(2) ? context.type(2)
                  : asked        ? static_cast<DataType>(asked)
                                 : DataType::UInt8;
  auto [least, most] = rangeOf(type);
  Dims dims = x.sizes().vec();
  at::Tensor values =
      at::div(x.to(at::kFloat), overData(context, scales.to(at::kFloat)))
          .round_();
  if (context.has(2))
    values.add_(overData(context, integersOf(context, 2, at::kFloat)));
  values.clamp_(least, most);
  if (isPacked(type))
    return {{packPairs(values.to(at::kShort)), type, dims}};
  at::Tensor out = makeEmpty(dims, *scalarTypeOf(type));
  out.copy_(values.to(at::kInt));
  return {out};
}

} // namespace offload::rt
