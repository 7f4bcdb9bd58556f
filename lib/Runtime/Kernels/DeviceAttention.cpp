// Scaled dot product attention and rotary embedding, for devices.
//
// In:  as on the host.
// Out: as on the host.
// How: scores of as many heads at once as kScoreBytes hold, as matrix products
//      and a softmax in float. Which keys a row may attend to is one bias of
//      zeros and minus infinities, added to the scores.

#include "Attention.h"

#include <algorithm>
#include <limits>

namespace offload::rt {

namespace {

/// Scores that exist at one time, in bytes of float.
constexpr int64_t kScoreBytes = int64_t(64) << 20;
constexpr double kNever = -std::numeric_limits<double>::infinity();

at::ScalarType scoreType(const at::Tensor &x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// True where a row must not attend to a key; undefined where all may. Of shape
/// [batch or 1, 1, rows, total].
at::Tensor hiddenKeys(const AttentionCall &call) {
  int64_t rows = call.query.size(2);
  auto options = call.query.options().dtype(at::kLong);
  at::Tensor keys = at::arange(call.total, options);
  at::Tensor hidden;
  auto hide = [&](const at::Tensor &more) {
    hidden = hidden.defined() ? at::logical_or(hidden, more) : more;
  };
  at::Tensor position = at::arange(rows, options).view({1, 1, rows, 1});
  if (call.validKeys.defined()) {
    at::Tensor valid = call.validKeys.to(at::kLong).view({-1, 1, 1, 1});
    hide(at::ge(keys.view({1, 1, 1, -1}), valid));
    position = at::add(position, at::sub(valid, rows));
  } else {
    position = at::add(position, call.past);
  }
  at::Tensor distance = at::sub(keys.view({1, 1, 1, -1}), position);
  if (call.causal)
    hide(at::gt(distance, 0));
  if (call.left >= 0)
    hide(at::lt(distance, -call.left));
  if (call.right >= 0)
    hide(at::gt(distance, call.right));
  return hidden;
}

/// The mask as what is added to scores; undefined where there is none.
at::Tensor maskBias(const AttentionCall &call) {
  if (!call.mask.defined())
    return {};
  at::Tensor mask = call.mask, bias;
  while (mask.dim() < 4)
    mask = mask.unsqueeze(0);
  at::ScalarType type = scoreType(call.query);
  if (mask.scalar_type() == at::kBool) {
    bias = makeEmpty(mask.sizes(), type).zero_();
    bias.masked_fill_(at::logical_not(mask), kNever);
  } else {
    bias = mask.to(type);
  }
  // From opset 24 on a mask that is too short is one of keys left out.
  int64_t missing = call.total - bias.size(3);
  if (call.shortMasks && missing > 0)
    bias = at::constant_pad_nd(bias, {0, missing}, kNever);
  return bias;
}

at::Tensor biasOf(const AttentionCall &call) {
  at::Tensor bias = maskBias(call), hidden = hiddenKeys(call);
  if (!hidden.defined())
    return bias;
  if (bias.defined())
    return at::masked_fill(bias, hidden, kNever);
  at::Tensor zeros = makeEmpty(hidden.sizes(), scoreType(call.query)).zero_();
  return zeros.masked_fill_(hidden, kNever);
}

/// Heads [first, first + count) of one batch.
struct HeadRange {
  int64_t batch, first, count;
};

at::Tensor headsOf(const at::Tensor &x, const HeadRange &range,
                   int64_t groupSize, at::ScalarType type) {
  at::Tensor all = x.select(0, range.batch);
  if (groupSize > 1) {
    Dims dims = {all.size(0), groupSize, all.size(1), all.size(2)};
    all = all.unsqueeze(1).expand(dims).reshape(
        {dims[0] * groupSize, dims[2], dims[3]});
  }
  return all.narrow(0, range.first, range.count).to(type).contiguous();
}

at::Tensor partOf(const at::Tensor &bias, const HeadRange &range) {
  at::Tensor part = bias.select(0, bias.size(0) == 1 ? 0 : range.batch);
  return part.size(0) == 1 ? part : part.narrow(0, range.first, range.count);
}

/// Softmax over the last dimension; a row of minus infinities becomes zeros.
void softmaxRows(at::Tensor &scores, bool mayBeEmpty) {
  at::Tensor result = at::softmax(scores, -1);
  if (mayBeEmpty)
    result.masked_fill_(at::isnan(result), 0);
  scores = result;
}

void attendHeads(const AttentionCall &call, const at::Tensor &key,
                 const at::Tensor &value, const at::Tensor &bias,
                 const HeadRange &range, at::Tensor out, at::Tensor seen) {
  at::ScalarType type = scoreType(call.query);
  auto part = [&](const at::Tensor &x) {
    return x.select(0, range.batch).narrow(0, range.first, range.count);
  };
  auto show = [&](int64_t mode, const at::Tensor &scores) {
    if (seen.defined() && call.scoresMode == mode)
      part(seen).copy_(scores);
  };
  at::Tensor query = headsOf(call.query, range, 1, type);
  at::Tensor scores = at::bmm(
      query, headsOf(key, range, call.groupSize(), type).transpose(1, 2));
  scores.mul_(call.scale);
  show(0, scores);
  if (call.softcap != 0)
    scores.div_(call.softcap).tanh_().mul_(call.softcap);
  show(1, scores);
  if (bias.defined())
    scores.add_(partOf(bias, range));
  show(2, scores);
  softmaxRows(scores, bias.defined());
  show(3, scores);
  part(out).copy_(
      at::bmm(scores, headsOf(value, range, call.groupSize(), type)));
}

/// cos or sin as [batch or 1, 1, sequence, half] in the type of the arithmetic.
at::Tensor cacheRows(const KernelContext &context, const at::Tensor &cache,
                     const at::Tensor &positions, at::ScalarType type) {
  if (!positions.defined())
    return cache.unsqueeze(1).to(type);
  at::Tensor ids = positions.to(at::kLong);
  if (int32_t *problem = context.problem()) {
    at::Tensor wrong = at::ge(ids, cache.size(0)).logical_or_(at::lt(ids, 0));
    tensorAt(problem, {1}, {1}, at::kInt).logical_or_(wrong.any().unsqueeze(0));
  }
  ids = at::clamp(ids, 0, cache.size(0) - 1);
  at::Tensor rows = cache.index_select(0, ids.reshape(-1));
  return rows.view({ids.size(0), 1, ids.size(1), cache.size(1)}).to(type);
}

} // namespace

OFFLOAD_DEVICE_KERNEL(Attention) {
  AttentionCall call = attentionCall(context);
  int64_t batches = call.query.size(0), heads = call.query.size(1);
  int64_t rows = call.query.size(2), valueSize = call.value.size(3);
  at::ScalarType type = call.query.scalar_type();
  bool flat = context.dims(0).size() == 3;
  at::Tensor out = flat ? makeEmpty({batches, rows, heads * valueSize}, type)
                        : makeEmpty({batches, heads, rows, valueSize}, type);
  KernelOutputs outputs = {out};
  at::Tensor key = call.key, value = call.value;
  if (call.past || context.numOutputs() > 1)
    key = joined(call.pastKey, call.key);
  if (call.past || context.numOutputs() > 2)
    value = joined(call.pastValue, call.value);
  if (context.numOutputs() > 1)
    outputs.push_back(key);
  if (context.numOutputs() > 2)
    outputs.push_back(value);
  at::Tensor scores;
  if (context.numOutputs() > 3) {
    scores = makeEmpty({batches, heads, rows, call.total}, type);
    outputs.push_back(scores);
  }
  if (out.numel() == 0)
    return outputs;
  at::Tensor bias = biasOf(call), byHeads = byHead(out, heads);
  int64_t each = std::max<int64_t>(rows * call.total, 1) * 4;
  int64_t most = std::clamp<int64_t>(kScoreBytes / each, 1, heads);
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t first = 0; first < heads; first += most)
      attendHeads(call, key, value, bias,
                  {batch, first, std::min(most, heads - first)}, byHeads,
                  scores);
  return outputs;
}

OFFLOAD_DEVICE_KERNEL(RotaryEmbedding) {
  at::Tensor x = context.contiguous(0), positions = context.optionalOperand(3);
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
  at::ScalarType type =
      x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor cos = cacheRows(context, context[1], positions, type);
  at::Tensor sin = cacheRows(context, context[2], positions, type);
  auto halfOf = [&](const at::Tensor &of, int64_t which) {
    return interleaved ? of.slice(3, which, 2 * half, 2)
                       : of.narrow(3, which * half, half);
  };
  at::Tensor a = halfOf(from, 0).to(type), b = halfOf(from, 1).to(type);
  halfOf(to, 0).copy_(at::mul(cos, a).sub_(at::mul(sin, b)));
  halfOf(to, 1).copy_(at::mul(sin, a).add_(at::mul(cos, b)));
  if (2 * half < size)
    to.slice(3, 2 * half).copy_(from.slice(3, 2 * half));
  return {out};
}

} // namespace offload::rt
