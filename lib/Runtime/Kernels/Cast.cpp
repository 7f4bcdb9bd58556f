// Conversion between element types.
//
// In:  any type that ATen holds, any strides.
// Out: the same elements rounded (floats) or truncated (to integers).
// How: ATen's copy. Unsigned types of 16 to 64 bits are converted here as what
//      they are, not as the signed type that kernels which only move elements
//      read them as.

#include "Kernel.h"

namespace offload::rt {

namespace {

at::Tensor castTo(const KernelContext &context, DataType to) {
  std::optional<at::ScalarType> type = scalarTypeOf(to);
  if (!type)
    throw Error("does not make elements of type " +
                std::string(dataTypeName(to)));
  at::Tensor x = context[0];
  at::ScalarType own = *scalarTypeOf(context.type(0));
  if (x.scalar_type() != own)
    x = x.view(own);
  at::Tensor out = makeEmpty(x.sizes(), *type);
  out.copy_(x);
  return out;
}

} // namespace

OFFLOAD_KERNEL(Cast) {
  return {castTo(context, static_cast<DataType>(context.intAttr("to", 0)))};
}

OFFLOAD_KERNEL(CastLike) { return {castTo(context, context.type(1))}; }

} // namespace offload::rt
