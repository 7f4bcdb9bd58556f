// Quantization to 8- and 4-bit integers, and back, for devices.
//
// In:  as on the host.
// Out: as on the host, the same bits.
// How: operations on whole tensors, as few as there can be, for each is a
// launch
//      on a card. A product reads integers and writes the type asked for by
//      itself: 8-bit values expand in one launch, 4-bit ones in three
//      (unsigned) or four, after each byte became two in scratch. A zero point
//      adds what its own type takes (3, 4 or 5). Blocks are a dimension of
//      their own, so that nothing is repeated; a last block that is short is a
//      second call.

#include "Kernel.h"

namespace offload::rt {

namespace {

bool isPacked(DataType type) { return elementBits(type) == 4; }

/// 4-bit integers, a byte each in the same order.
at::Tensor unpacked(const at::Tensor &bytes, DataType type, const Dims &dims) {
  const bool isSigned = type == DataType::Int4;
  const at::ScalarType byte = isSigned ? at::kChar : at::kByte;
  at::Tensor packed = isSigned ? bytes.view(at::kChar) : bytes;
  at::Tensor pairs = makeEmpty({bytes.numel(), 2}, byte);
  at::Tensor low = pairs.select(1, 0), high = pairs.select(1, 1);
  at::bitwise_right_shift_out(high, packed, 4); // brings the sign with it
  if (isSigned) {
    at::bitwise_left_shift_out(low, packed, 4);
    low.bitwise_right_shift_(4);
  } else {
    at::bitwise_and_out(low, packed, 15);
  }
  return pairs.view(-1).narrow(0, 0, product(dims, 0, dims.size())).view(dims);
}

/// Stored integers in a type that operations take: their own of 8, 16 and 32
/// bits, 8 bits for 4, 32 for unsigned 16. Over the operand's memory where the
/// type is its own.
at::Tensor integersOf(const KernelContext &context, unsigned i) {
  DataType stored = context.type(i);
  if (isPacked(stored))
    return unpacked(context[i], stored, context.dims(i));
  std::optional<at::ScalarType> own = scalarTypeOf(stored);
  if (!own)
    throw Error("does not take elements of type " +
                std::string(dataTypeName(stored)));
  at::Tensor x = context.contiguous(i);
  if (x.scalar_type() != *own)
    x = x.view(*own);
  return stored == DataType::UInt16 ? x.to(at::kInt) : x;
}

/// Which scale and zero point belong to which elements of operand 0.
class Groups {
public:
  explicit Groups(const KernelContext &context)
      : dims(context.dims(0)), block(context.intAttr("block_size", 0)) {
    const Dims &scale = context.dims(1);
    int64_t given = product(scale, 0, scale.size());
    if (given == 1 && block == 0)
      return;
    axis =
        wrapAxis(context.intAttr("axis", 1), static_cast<int64_t>(dims.size()));
    groupDims = block ? dims : Dims(dims.size(), 1);
    groupDims[axis] = block ? (dims[axis] + block - 1) / block : dims[axis];
    int64_t wanted = product(groupDims, 0, groupDims.size());
    if (given != wanted)
      throw Error("the scale has " + std::to_string(given) + " values, not " +
                  std::to_string(wanted));
  }

  /// Calls `body` with parts of two tensors of operand 0's shape, which hold
  /// the same elements, and the part of `factors` that goes over them.
  template <typename Body>
  void forEach(const at::Tensor &to, const at::Tensor &from,
               const at::Tensor &factors, const Body &body) const {
    at::Tensor over = factors.reshape(groupDims);
    if (!block)
      return body(to, from, over);
    int64_t whole = dims[axis] / block, rest = dims[axis] % block;
    if (whole) {
      auto split = [&](const at::Tensor &x) {
        return x.narrow(axis, 0, whole * block).unflatten(axis, {whole, block});
      };
      body(split(to), split(from),
           over.narrow(axis, 0, whole).unsqueeze(axis + 1));
    }
    if (rest)
      body(to.narrow(axis, whole * block, rest),
           from.narrow(axis, whole * block, rest), over.narrow(axis, whole, 1));
  }

private:
  Dims dims;
  int64_t block, axis = 0;
  Dims groupDims; // of scale and zero point, to broadcast; empty: one value
};

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

/// The type of DequantizeLinear's result.
at::ScalarType expandedType(const KernelContext &context,
                            at::ScalarType scale) {
  int64_t asked = context.intAttr("output_dtype", 0);
  if (!asked)
    return scale;
  std::optional<at::ScalarType> type =
      scalarTypeOf(static_cast<DataType>(asked));
  if (!type)
    throw Error("does not make elements of type " +
                std::string(dataTypeName(static_cast<DataType>(asked))));
  return *type;
}

/// `values` less their zero points, in a type that holds every difference;
/// where that can be, in memory that is there: of 8 bits `out`, of 4 bits and
/// of unsigned 16 the scratch in which they lie.
at::Tensor withoutZeros(const KernelContext &context, const Groups &groups,
                        at::Tensor values, const at::Tensor &out) {
  DataType stored = context.type(0);
  at::Tensor zeros = integersOf(context, 2), difference;
  if (isPacked(stored)) {
    values = difference = values.view(at::kChar);
    zeros = zeros.view(at::kChar);
  } else if (elementBits(stored) == 8) {
    difference = out; // every float type holds -255 to 255
    zeros = zeros.to(out.scalar_type());
  } else {
    difference = stored == DataType::UInt16
                     ? values
                     : makeEmpty(values.sizes(), at::kInt);
    zeros = zeros.to(at::kInt);
  }
  groups.forEach(difference, values, zeros,
                 [](at::Tensor to, const at::Tensor &x, const at::Tensor &z) {
                   at::sub_out(to, x, z);
                 });
  return difference;
}

} // namespace

OFFLOAD_DEVICE_KERNEL(DequantizeLinear) {
  Groups groups(context);
  at::Tensor scales = context.contiguous(1);
  at::ScalarType type = expandedType(context, scales.scalar_type());
  at::Tensor out = makeEmpty(context.dims(0), type);
  at::Tensor values = integersOf(context, 0);
  // Each product is rounded once, to the result's type. 16-bit floats hold
  // 8-bit integers exactly, but no longer ones.
  if (scales.scalar_type() != type || elementBits(context.type(0)) > 8)
    scales = scales.to(type == at::kDouble ? at::kDouble : at::kFloat);
  if (context.has(2))
    values = withoutZeros(context, groups, values, out);
  groups.forEach(out, values, scales,
                 [](at::Tensor to, const at::Tensor &x, const at::Tensor &s) {
                   at::mul_out(to, x, s);
                 });
  return {out};
}

OFFLOAD_DEVICE_KERNEL(QuantizeLinear) {
  Groups groups(context);
  at::Tensor x = context.contiguous(0);
  int64_t asked = context.intAttr("output_dtype", 0);
  DataType type = context.has(2) ? context.type(2)
                  : asked        ? static_cast<DataType>(asked)
                                 : DataType::UInt8;
  auto [least, most] = rangeOf(type);
  Dims dims = x.sizes().vec();
  at::Tensor values = makeEmpty(dims, at::kFloat);
  groups.forEach(values, x.to(at::kFloat), context.contiguous(1).to(at::kFloat),
                 [](at::Tensor to, const at::Tensor &x, const at::Tensor &s) {
                   at::div_out(to, x, s);
                 });
  values.round_();
  if (context.has(2))
    groups.forEach(values, values, integersOf(context, 2).to(at::kFloat),
                   [](at::Tensor to, const at::Tensor &x, const at::Tensor &z) {
                     at::add_out(to, x, z);
                   });
  values.clamp_(least, most);
  if (isPacked(type))
    return {{packPairs(values.to(at::kShort)), type, dims}};
  at::Tensor out = makeEmpty(dims, *scalarTypeOf(type));
  out.copy_(values.to(at::kInt));
  return {out};
}

} // namespace offload::rt
