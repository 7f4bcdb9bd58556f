// Rotary position embedding, for devices.
//
// In:  as on the host.
// Out: as on the host.
// How: two calls of ATen for each half, into the output where it lies: a
//      product in the type of the arithmetic, and another one added to it with
//      the one rounding. Operands of 16 bits are read as they are, never
//      converted to a copy.

#include "Attention.h"
#include "Indices.h"

namespace offload::rt {

namespace {

/// cos or sin as [batch or 1, 1, sequence, half] in the type of the arithmetic.
at::Tensor angles(const at::Tensor &cache, const at::Tensor &ids,
                  at::ScalarType type) {
  if (!ids.defined())
    return cache.unsqueeze(1).to(type);
  at::Tensor rows = cache.index_select(0, ids.reshape(-1));
  return rows.view({ids.size(0), 1, ids.size(1), cache.size(1)}).to(type);
}

} // namespace

OFFLOAD_DEVICE_KERNEL(RotaryEmbedding) {
  at::Tensor x = context[0], positions = context.optionalOperand(3);
  bool interleaved = context.intAttr("interleaved", 0);
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  int64_t heads = context.intAttr("num_heads", 0);
  at::Tensor from = byHead(x, heads), to = byHead(out, heads);
  int64_t size = from.size(3);
  int64_t rotated = context.intAttr("rotary_embedding_dim", 0);
  int64_t half = (rotated ? rotated : size) / 2;
  if (context.dims(1).back() != half || context.dims(2).back() != half)
    throw Error("the caches have rows of " +
                std::to_string(context.dims(1).back()) + ", not of " +
                std::to_string(half));
  if (out.numel() == 0)
    return {out};
  if (positions.defined())
    positions = rowsInRange(context, positions, context.dims(1)[0], false);
  at::ScalarType type =
      x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor cos = angles(context[1], positions, type);
  at::Tensor sin = angles(context[2], positions, type);
  auto halfOf = [&](const at::Tensor &of, int64_t which) {
    return interleaved ? of.slice(3, which, 2 * half, 2)
                       : of.narrow(3, which * half, half);
  };
  at::Tensor a = halfOf(from, 0), b = halfOf(from, 1);
  at::Tensor first = halfOf(to, 0), second = halfOf(to, 1);
  at::addcmul_out(first, at::mul(cos, a), sin, b, -1);
  at::addcmul_out(second, at::mul(sin, a), cos, b);
  if (2 * half < size)
    to.slice(3, 2 * half).copy_(from.slice(3, 2 * half));
  return {out};
}

} // namespace offload::rt
