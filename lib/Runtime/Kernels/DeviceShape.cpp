// Operators that make elements from numbers of the launch, for devices.
//
// In:  shapes, values and ranges as launch operands or attributes.
// Out: contiguous.
// How: fills and ranges of ATen. A range is computed in the type of its numbers
//      (integers or double) and then converted.

#include "Kernel.h"

#include <cmath>

namespace offload::rt {

namespace {

at::Tensor rangeOf(const at::Scalar &start, const at::Scalar &delta,
                   int64_t count, at::ScalarType type) {
  at::ScalarType wide = start.isFloatingPoint() ? at::kDouble : at::kLong;
  at::Tensor out = makeEmpty({count}, type);
  at::Tensor steps = at::arange(count, out.options().dtype(wide));
  return out.copy_(steps.mul_(delta).add_(start));
}

template <typename T>
at::Tensor range(T start, T limit, T delta, at::ScalarType type) {
  if (delta == 0)
    throw Error("delta of a range is 0");
  double span = (static_cast<double>(limit) - static_cast<double>(start)) /
                static_cast<double>(delta);
  auto count = std::max<int64_t>(static_cast<int64_t>(std::ceil(span)), 0);
  return rangeOf(start, delta, count, type);
}

} // namespace

OFFLOAD_DEVICE_KERNEL(EyeLike) {
  const Dims &dims = context.dims(0);
  auto type = static_cast<DataType>(
      context.intAttr("dtype", static_cast<int64_t>(context.type(0))));
  std::optional<at::ScalarType> scalar = scalarTypeOf(type);
  if (!scalar || dims.size() != 2)
    throw Error("makes matrices of number types only");
  at::Tensor out = makeEmpty(dims, *scalar).zero_();
  int64_t offset = context.intAttr("k", 0);
  if (offset < dims[1] && -offset < dims[0])
    out.diagonal(offset).fill_(1);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(ConstantOfShape) {
  std::optional<Dims> dims = context.launchInts(0);
  if (!dims)
    throw Error("the shape is missing");
  const TensorAttribute *value = context.tensorAttr("value");
  DataType type = value ? value->type : DataType::Float;
  std::optional<at::ScalarType> scalar = scalarTypeOf(type);
  if (!scalar)
    throw Error("does not make elements of type " +
                std::string(dataTypeName(type)));
  at::Tensor out = makeEmpty(*dims, *scalar);
  if (!value)
    return {out.zero_()};
  return {out.fill_(at::from_blob(const_cast<uint8_t *>(value->bytes.data()),
                                  {}, at::TensorOptions(*scalar)))};
}

OFFLOAD_DEVICE_KERNEL(Range) {
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
