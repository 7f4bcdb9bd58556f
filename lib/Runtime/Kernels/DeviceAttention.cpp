// Scaled dot product attention, for devices.
//
// In:  as on the host.
// Out: as on the host.
// How: ATen's fused kernels where they take the call, which is known from
//      operator, types, shapes and attributes: their scratch does not grow with
//      the scores. Which keys a row may attend to is told by their causal flag
//      where it says all, else by a bias of zeros and minus infinities. The
//      rest (soft caps, scores as an output, other sizes and types) is products
//      and a softmax in float, over as many heads and rows at once as
//      kScoreBytes hold.

#include "Attention.h"

#include <ATen/native/transformers/cuda/sdp_utils.h>

#include <algorithm>
#include <limits>

namespace offload::rt {

namespace {

/// Scores that exist at one time, in bytes of float.
constexpr int64_t kScoreBytes = int64_t(8) << 20;
/// What a fused call may take for a bias or for repeated heads; more where
/// operands are that large anyway.
constexpr int64_t kFusedBytes = int64_t(16) << 20;
/// Rows of a bias start at multiples of this many elements.
constexpr int64_t kBiasAlign = 16;
/// Products and sums of a call from which on a plan of cuDNN is worth its time:
/// it takes some 50 ms for each shape that was not seen yet, where the flash
/// kernel is there at once and needs at most a millisecond for so much.
constexpr double kPlanWork = double(int64_t(1) << 37);
constexpr double kNever = -std::numeric_limits<double>::infinity();

bool is16Bit(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

/// Query rows [first, first + count).
struct RowRange {
  int64_t first, count;
};

RowRange allRows(const AttentionCall &call) { return {0, call.query.size(2)}; }

/// Whether the causal flag hides any key: the first row sees past + 1 of them.
bool hidesFuture(const AttentionCall &call) {
  return call.causal &&
         (call.validKeys.defined() || call.past + 1 < call.total);
}

bool hidesByPosition(const AttentionCall &call) {
  return hidesFuture(call) || call.validKeys.defined() || call.left >= 0 ||
         call.right >= 0;
}

/// True where a row must not attend to a key; undefined where all may. Of shape
/// [batch or 1, 1, rows, total].
at::Tensor hiddenKeys(const AttentionCall &call, RowRange range) {
  if (!hidesByPosition(call))
    return {};
  auto options = call.query.options().dtype(at::kInt);
  at::Tensor keys = at::arange(call.total, options).view({1, 1, 1, -1});
  at::Tensor position =
      at::arange(range.first, range.first + range.count, options)
          .view({1, 1, range.count, 1});
  at::Tensor hidden;
  auto hide = [&](const at::Tensor &more) {
    hidden = hidden.defined() ? hidden.logical_or(more) : more;
  };
  if (call.validKeys.defined()) {
    at::Tensor valid = call.validKeys.to(at::kInt).view({-1, 1, 1, 1});
    hide(at::ge(keys, valid));
    position = at::add(position, at::sub(valid, call.query.size(2)));
  } else {
    position.add_(call.past);
  }
  if (hidesFuture(call))
    hide(at::gt(keys, position));
  if (call.left >= 0)
    hide(at::lt(keys, at::sub(position, call.left)));
  if (call.right >= 0)
    hide(at::gt(keys, at::add(position, call.right)));
  return hidden;
}

at::Tensor maskRows(const AttentionCall &call, RowRange range) {
  at::Tensor mask = call.mask;
  while (mask.defined() && mask.dim() < 4)
    mask = mask.unsqueeze(0);
  if (mask.defined() && mask.size(2) > 1)
    mask = mask.narrow(2, range.first, range.count);
  return mask;
}

/// Dimensions of what is added to the scores; empty where nothing is.
Dims biasDims(const AttentionCall &call, RowRange range) {
  at::Tensor mask = maskRows(call, range);
  bool hides = hidesByPosition(call);
  if (!mask.defined() && !hides)
    return {};
  Dims dims = {1, 1, 1, call.total};
  if (mask.defined())
    dims = {mask.size(0), mask.size(1), mask.size(2), call.total};
  if (hides)
    dims[2] = range.count;
  if (call.validKeys.defined())
    dims[0] = call.query.size(0);
  return dims;
}

/// Whether the mask can be added as it lies.
bool isBias(const at::Tensor &mask, const Dims &dims, at::ScalarType type) {
  bool aligned = mask.stride(3) == 1;
  for (int64_t i = 0; i < 3; ++i)
    aligned &= mask.stride(i) % kBiasAlign == 0;
  return aligned && mask.scalar_type() == type && mask.sizes().equals(dims);
}

/// What is added to the scores of the rows, of biasDims; undefined where
/// nothing is.
at::Tensor biasOf(const AttentionCall &call, RowRange range,
                  at::ScalarType type) {
  Dims dims = biasDims(call, range);
  if (dims.empty())
    return {};
  at::Tensor mask = maskRows(call, range);
  if (mask.defined() && !hidesByPosition(call) && isBias(mask, dims, type))
    return mask;
  Dims padded = dims;
  padded[3] = (call.total + kBiasAlign - 1) / kBiasAlign * kBiasAlign;
  at::Tensor bias = makeEmpty(padded, type).narrow(3, 0, call.total);
  int64_t masked = 0;
  if (mask.defined()) {
    // From opset 24 on a mask that is too short is one of keys left out.
    masked = call.shortMasks ? mask.size(3) : call.total;
    at::Tensor part = bias.narrow(3, 0, masked);
    if (mask.scalar_type() == at::kBool)
      at::where_out(part, mask, at::scalar_tensor(0, bias.options()),
                    at::scalar_tensor(kNever, bias.options()));
    else
      part.copy_(mask);
  }
  if (masked < call.total)
    bias.narrow(3, masked, call.total - masked)
        .fill_(mask.defined() ? kNever : 0);
  if (at::Tensor hidden = hiddenKeys(call, range); hidden.defined())
    bias.masked_fill_(hidden, kNever);
  return bias;
}

/// Every head of keys or values once for each head of the query.
at::Tensor repeated(const at::Tensor &x, int64_t times) {
  Dims dims = {x.size(0), x.size(1), times, x.size(2), x.size(3)};
  return x.unsqueeze(2).expand(dims).reshape(
      {dims[0], dims[1] * times, dims[3], dims[4]});
}

/// One call of a fused kernel.
struct FusedCall {
  at::Tensor query, key, value, bias;
  bool causal = false; // of a square, without a bias
  double scale = 1;
  bool grouped = false;

  /// Whether ATen has a kernel for it. Under a bias that is the one that gives
  /// zeros for a row without keys.
  bool fits() const {
    if (bias.defined() && query.is_cuda())
      return sdp::can_use_mem_efficient_attention(
          {query, key, value, bias, 0, false, false}, false);
    std::optional<at::Tensor> mask;
    if (bias.defined())
      mask = bias;
    int64_t choice = at::_fused_sdp_choice(query, key, value, mask, 0, causal,
                                           scale, grouped);
    return choice != static_cast<int64_t>(sdp::SDPBackend::math) &&
           choice != static_cast<int64_t>(sdp::SDPBackend::error);
  }
  /// Whether the flash kernel is to take it, whatever else could.
  bool isShort() const {
    double work = 2.0 * static_cast<double>(query.numel()) *
                  static_cast<double>(key.size(2));
    return query.is_cuda() && !bias.defined() && work < kPlanWork &&
           query.size(3) == value.size(3) && query.size(3) % 8 == 0 &&
           sdp::can_use_flash_attention(
               {query, key, value, std::nullopt, 0, causal, grouped}, false);
  }
  at::Tensor run() const {
    if (isShort())
      return std::get<0>(at::_scaled_dot_product_flash_attention(
          query, key, value, 0, causal, false, scale));
    if (bias.defined() && query.is_cuda())
      return std::get<0>(at::_scaled_dot_product_efficient_attention(
          query, key, value, bias, false, 0, false, scale));
    std::optional<at::Tensor> mask;
    if (bias.defined())
      mask = bias;
    return at::scaled_dot_product_attention(query, key, value, mask, 0, causal,
                                            scale, grouped);
  }
};

/// Whether what a fused call needs besides its operands stays bounded.
bool isSmall(const AttentionCall &call, const Dims &bias, bool repeats) {
  int64_t itemBytes = static_cast<int64_t>(call.query.element_size());
  int64_t maskElements = call.mask.defined() ? call.mask.numel() : 0;
  int64_t biasElements = product(bias, 0, bias.size());
  if (!bias.empty() && biasElements > maskElements &&
      biasElements * itemBytes > kFusedBytes)
    return false;
  int64_t copied = call.query.size(0) * call.query.size(1) * call.total *
                   (call.key.size(3) + call.value.size(3));
  return !repeats || copied * itemBytes <= kFusedBytes ||
         copied <= 2 * call.query.numel();
}

/// The attention by a fused kernel; undefined where none takes the call.
at::Tensor fused(const AttentionCall &call, at::Tensor key, at::Tensor value) {
  at::ScalarType type = call.query.scalar_type();
  bool isKnown = is16Bit(type) || type == at::kFloat;
  bool maskFits = !call.mask.defined() ||
                  call.mask.scalar_type() == at::kBool ||
                  call.mask.scalar_type() == type;
  if (!isKnown || !maskFits || call.softcap != 0 || call.total == 0)
    return {};
  FusedCall one{call.query, key, value, {}, false, call.scale};
  int64_t rows = call.query.size(2);
  one.causal = hidesFuture(call) && !call.mask.defined() &&
               !call.validKeys.defined() && call.past == 0 && call.left < 0 &&
               call.right < 0 && rows <= call.total;
  if (one.causal && rows < call.total) { // no row sees the keys behind
    one.key = key.narrow(2, 0, rows);
    one.value = value.narrow(2, 0, rows);
  }
  Dims dims = one.causal ? Dims() : biasDims(call, allRows(call));
  bool isGrouped = call.groupSize() > 1;
  bool repeats = isGrouped && (!dims.empty() || type == at::kFloat);
  if (!isSmall(call, dims, repeats))
    return {};
  one.grouped = isGrouped && !repeats;
  if (!dims.empty())
    one.bias =
        biasOf(call, allRows(call), type)
            .expand({call.query.size(0), call.query.size(1), rows, call.total});
  if (repeats) {
    one.key = repeated(one.key, call.groupSize());
    one.value = repeated(one.value, call.groupSize());
  }
  return one.fits() ? one.run() : at::Tensor();
}

/// The call for one batch alone.
AttentionCall batchOf(const AttentionCall &call, int64_t batch) {
  AttentionCall one = call;
  one.query = call.query.narrow(0, batch, 1);
  if (call.validKeys.defined())
    one.validKeys = call.validKeys.narrow(0, batch, 1);
  if (call.mask.defined() && call.mask.dim() == 4 && call.mask.size(0) > 1)
    one.mask = call.mask.narrow(0, batch, 1);
  return one;
}

/// One batch of an attention, in parts of which each tensor is about
/// kScoreBytes or a head of keys and values.
class TiledAttention {
public:
  /// All as [heads, rows, ...]; `seen`: what is shown of the scores, or
  /// undefined.
  TiledAttention(const AttentionCall &call, const at::Tensor &key,
                 const at::Tensor &value, const at::Tensor &out,
                 const at::Tensor &seen)
      : call(call), key(key), value(value), out(out), seen(seen),
        type(call.query.scalar_type() == at::kDouble ? at::kDouble
                                                     : at::kFloat) {
    int64_t widths = key.size(2) + value.size(2);
    int64_t rowBytes = call.groupSize() * std::max(call.total, widths) * 4;
    int64_t keyBytes = std::max<int64_t>(call.total, 1) * widths * 4;
    rowsAtOnce =
        std::clamp<int64_t>(kScoreBytes / rowBytes, 1, call.query.size(2));
    headsAtOnce = std::clamp<int64_t>(
        kScoreBytes / std::max(rowBytes * rowsAtOnce, keyBytes), 1,
        key.size(0));
  }
  void run() const {
    for (int64_t head = 0; head < key.size(0); head += headsAtOnce)
      attendHeads(head, std::min(headsAtOnce, key.size(0) - head));
  }

private:
  void attendHeads(int64_t first, int64_t count) const;
  void attendRows(int64_t firstHead, const at::Tensor &keys,
                  const at::Tensor &values, RowRange range) const;
  at::Tensor biasOfHeads(int64_t first, int64_t count, RowRange range) const;

  const AttentionCall &call;
  at::Tensor key, value, out, seen;
  at::ScalarType type;
  int64_t rowsAtOnce, headsAtOnce; // heads of keys
};

void TiledAttention::attendHeads(int64_t first, int64_t count) const {
  auto part = [&](const at::Tensor &x) {
    return x.narrow(0, first, count).to(type).contiguous();
  };
  at::Tensor keys = part(key).transpose(1, 2), values = part(value);
  int64_t rows = call.query.size(2);
  for (int64_t row = 0; row < rows; row += rowsAtOnce)
    attendRows(first, keys, values, {row, std::min(rowsAtOnce, rows - row)});
}

at::Tensor TiledAttention::biasOfHeads(int64_t first, int64_t count,
                                       RowRange range) const {
  AttentionCall mine = call;
  if (int64_t dim = mine.mask.defined() ? mine.mask.dim() - 3 : -1;
      dim >= 0 && mine.mask.size(dim) > 1)
    mine.mask = mine.mask.narrow(dim, first, count);
  at::Tensor bias = biasOf(mine, range, type);
  return bias.defined() ? bias.squeeze(0) : bias;
}

/// The rows of all query heads of a head of keys are one matrix.
void TiledAttention::attendRows(int64_t firstHead, const at::Tensor &keys,
                                const at::Tensor &values,
                                RowRange range) const {
  int64_t group = call.groupSize(), heads = keys.size(0);
  auto part = [&](const at::Tensor &x) {
    return x.narrow(0, firstHead * group, heads * group)
        .narrow(1, range.first, range.count);
  };
  auto show = [&](int64_t mode, const at::Tensor &x) {
    if (seen.defined() && call.scoresMode == mode)
      part(seen).copy_(x);
  };
  at::Tensor query = part(call.query.select(0, 0))
                         .to(type)
                         .reshape({heads, group * range.count, -1});
  at::Tensor scores = at::bmm(query, keys)
                          .mul_(call.scale)
                          .view({heads * group, range.count, call.total});
  show(0, scores);
  if (call.softcap != 0)
    scores.div_(call.softcap).tanh_().mul_(call.softcap);
  show(1, scores);
  at::Tensor bias = biasOfHeads(firstHead * group, heads * group, range);
  if (bias.defined())
    scores.add_(bias);
  show(2, scores);
  at::Tensor weights = at::softmax(scores, -1);
  if (bias.defined()) // a row of minus infinities becomes zeros
    weights.masked_fill_(at::isnan(weights), 0);
  show(3, weights);
  at::Tensor result =
      at::bmm(weights.view({heads, group * range.count, call.total}), values);
  part(out).copy_(result.view({heads * group, range.count, values.size(2)}));
}

} // namespace

OFFLOAD_DEVICE_KERNEL(Attention) {
  AttentionCall call = attentionCall(context);
  int64_t batches = call.query.size(0), heads = call.query.size(1);
  int64_t rows = call.query.size(2), valueSize = call.value.size(3);
  at::ScalarType type = call.query.scalar_type();
  bool flat = context.dims(0).size() == 3;
  KernelOutputs outputs = {at::Tensor()};
  at::Tensor key = call.key, value = call.value, scores;
  if (call.past || context.numOutputs() > 1)
    key = joined(call.pastKey, call.key);
  if (call.past || context.numOutputs() > 2)
    value = joined(call.pastValue, call.value);
  if (context.numOutputs() > 1)
    outputs.push_back(key);
  if (context.numOutputs() > 2)
    outputs.push_back(value);
  if (context.numOutputs() > 3) {
    scores = makeEmpty({batches, heads, rows, call.total}, type);
    outputs.push_back(scores);
  }
  at::Tensor &out = outputs[0].tensor;
  if (batches * heads * rows * valueSize != 0 && !scores.defined())
    out = fused(call, key, value);
  if (out.defined()) {
    if (flat) // in the fused kernels' own order of rows and heads
      out = out.transpose(1, 2).reshape({batches, rows, heads * valueSize});
    return outputs;
  }
  out = flat ? makeEmpty({batches, rows, heads * valueSize}, type)
             : makeEmpty({batches, heads, rows, valueSize}, type);
  if (out.numel() == 0)
    return outputs;
  at::Tensor each = byHead(out, heads);
  for (int64_t batch = 0; batch < batches; ++batch) {
    AttentionCall one = batchOf(call, batch);
    TiledAttention(one, key.select(0, batch), value.select(0, batch),
                   each.select(0, batch),
                   scores.defined() ? scores.select(0, batch) : scores)
        .run();
  }
  return outputs;
}

} // namespace offload::rt
