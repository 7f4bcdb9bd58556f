// Scaled dot product attention, and rotary position embedding.
//
// In:  queries, keys, values of three or four dimensions, mask, past keys and
//      values; grouped heads.
// Out: the attention, the keys and values so far, the scores where asked for.
// How: one head at a time, a block of query rows at a time, so that the scores
//      of a block are all that exists of them. They and a head's keys and
//      values in the compute type lie in vectors of the host, not in scratch. A
//      row that may attend to nothing is zero.

#include "Attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace offload::rt {

at::Tensor byHead(const at::Tensor &x, int64_t heads) {
  if (x.dim() == 4)
    return x;
  if (x.dim() != 3 || heads <= 0 || x.size(2) % heads != 0)
    throw Error("an operand of three dimensions needs its number of heads");
  return x.unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2);
}

AttentionCall attentionCall(const KernelContext &context) {
  AttentionCall call;
  call.query = byHead(context[0], context.intAttr("q_num_heads", 0));
  call.key = byHead(context[1], context.intAttr("kv_num_heads", 0));
  call.value = byHead(context[2], context.intAttr("kv_num_heads", 0));
  call.mask = context.optionalOperand(3);
  call.pastKey = context.optionalOperand(4);
  call.pastValue = context.optionalOperand(5);
  call.validKeys = context.optionalOperand(6);
  call.past = call.pastKey.defined() ? call.pastKey.size(2) : 0;
  call.total = call.past + call.key.size(2);
  call.scale = context.floatAttr("scale", 0);
  if (call.scale == 0)
    call.scale = 1 / std::sqrt(static_cast<double>(call.query.size(3)));
  call.softcap = context.floatAttr("softcap", 0);
  call.causal = context.intAttr("is_causal", 0) != 0;
  call.shortMasks = context.since() >= 24;
  call.left = context.intAttr("left_window_size", -1);
  call.right = context.intAttr("right_window_size", -1);
  call.scoresMode = context.intAttr("qk_matmul_output_mode", 0);
  if (call.query.size(1) % call.key.size(1) != 0)
    throw Error("heads of the query are no multiple of the key's");
  return call;
}

at::Tensor joined(const at::Tensor &past, const at::Tensor &present) {
  int64_t pastRows = past.defined() ? past.size(2) : 0;
  Dims dims = present.sizes().vec();
  dims[2] += pastRows;
  at::Tensor out = makeEmpty(dims, present.scalar_type());
  if (pastRows)
    out.narrow(2, 0, pastRows).copy_(past);
  out.narrow(2, pastRows, present.size(2)).copy_(present);
  return out;
}

namespace {

constexpr int64_t kRowsPerBlock = 64;

/// A head's past and present rows in the compute type.
template <typename C>
std::vector<C> headRows(const at::Tensor &past, const at::Tensor &present,
                        int64_t batch, int64_t head) {
  int64_t pastRows = past.defined() ? past.size(2) : 0;
  int64_t rows = present.size(2), size = present.size(3);
  std::vector<C> values((pastRows + rows) * size);
  auto type = c10::CppTypeToScalarType<C>::value;
  if (pastRows)
    at::from_blob(values.data(), {pastRows, size}, type)
        .copy_(past.select(0, batch).select(0, head));
  if (rows)
    at::from_blob(values.data() + pastRows * size, {rows, size}, type)
        .copy_(present.select(0, batch).select(0, head));
  return values;
}

/// Which keys a query row may attend to, and what is added to its scores.
template <typename C> class Bias {
public:
  Bias(const AttentionCall &call, int64_t batch, int64_t head)
      : call(call), offset(call.past), valid(call.total) {
    if (call.validKeys.defined()) {
      valid = call.validKeys.contiguous().const_data_ptr<int64_t>()[batch];
      offset = valid - call.query.size(2);
    }
    if (!call.mask.defined())
      return;
    at::Tensor mask = call.mask;
    while (mask.dim() < 4)
      mask = mask.unsqueeze(0);
    // From opset 24 on a mask that is too short is one of keys left out.
    length = call.shortMasks ? mask.size(3) : call.total;
    mask = mask.expand({call.query.size(0), call.query.size(1),
                        call.query.size(2), length})
               .select(0, batch)
               .select(0, head);
    values.resize(call.query.size(2) * length);
    isBool = mask.scalar_type() == at::kBool;
    at::from_blob(values.data(), mask.sizes(),
                  c10::CppTypeToScalarType<C>::value)
        .copy_(mask);
  }
  bool isZero() const {
    return values.empty() && !call.causal && call.left < 0 && call.right < 0 &&
           valid >= call.total;
  }
  C operator()(int64_t row, int64_t key) const {
    constexpr C kNever = -std::numeric_limits<C>::infinity();
    int64_t position = row + offset;
    if (key >= valid || (call.causal && key > position) ||
        (call.left >= 0 && key < position - call.left) ||
        (call.right >= 0 && key > position + call.right))
      return kNever;
    if (values.empty())
      return 0;
    if (key >= length)
      return kNever;
    C value = values[row * length + key];
    return isBool ? (value != 0 ? C(0) : kNever) : value;
  }

private:
  const AttentionCall &call;
  int64_t offset, valid, length = 0;
  bool isBool = false;
  std::vector<C> values;
};

template <typename C> void softmaxRow(C *row, int64_t count) {
  C most = *std::max_element(row, row + count);
  if (most == -std::numeric_limits<C>::infinity()) {
    std::fill(row, row + count, C(0));
    return;
  }
  C sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    row[i] = std::exp(row[i] - most);
    sum += row[i];
  }
  for (int64_t i = 0; i < count; ++i)
    row[i] /= sum;
}

/// Turns raw products into probabilities; writes the stage that the fourth
/// output asks for to `seen` (may be undefined).
template <typename C>
void finishScores(const AttentionCall &call, const Bias<C> &bias,
                  at::Tensor &scores, int64_t firstRow, at::Tensor seen) {
  C *data = scores.data_ptr<C>();
  int64_t rows = scores.size(0), keys = scores.size(1);
  auto show = [&](int64_t mode) {
    if (seen.defined() && call.scoresMode == mode)
      seen.copy_(scores);
  };
  scores.mul_(call.scale);
  show(0);
  if (call.softcap != 0)
    scores.div_(call.softcap).tanh_().mul_(call.softcap);
  show(1);
  auto overRows = [&](const auto &body) {
    at::parallel_for(0, rows, 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        body(row, data + row * keys);
    });
  };
  auto addBias = [&](int64_t row, C *to) {
    for (int64_t key = 0; key < keys; ++key)
      to[key] += bias(firstRow + row, key);
  };
  if (seen.defined()) { // stages apart, so that each can be shown
    overRows(addBias);
    show(2);
  }
  overRows([&](int64_t row, C *to) {
    if (!seen.defined() && !bias.isZero())
      addBias(row, to);
    softmaxRow(to, keys);
  });
  show(3);
}

template <typename C>
void attendHead(const AttentionCall &call, int64_t batch, int64_t head,
                const at::Tensor &out, const at::Tensor &scoresOut) {
  auto type = c10::CppTypeToScalarType<C>::value;
  int64_t group = head / call.groupSize();
  std::vector<C> keys = headRows<C>(call.pastKey, call.key, batch, group);
  std::vector<C> values = headRows<C>(call.pastValue, call.value, batch, group);
  std::vector<C> queries = headRows<C>({}, call.query, batch, head);
  int64_t size = call.query.size(3), valueSize = call.value.size(3);
  std::vector<C> scoreRows(kRowsPerBlock * call.total);
  std::vector<C> resultRows(kRowsPerBlock * valueSize);
  at::Tensor key = at::from_blob(keys.data(), {call.total, size}, type);
  at::Tensor value =
      at::from_blob(values.data(), {call.total, valueSize}, type);
  Bias<C> bias(call, batch, head);
  int64_t rows = call.query.size(2);
  for (int64_t first = 0; first < rows; first += kRowsPerBlock) {
    int64_t count = std::min(kRowsPerBlock, rows - first);
    at::Tensor query =
        at::from_blob(queries.data() + first * size, {count, size}, type);
    at::Tensor scores =
        at::from_blob(scoreRows.data(), {count, call.total}, type);
    at::Tensor result =
        at::from_blob(resultRows.data(), {count, valueSize}, type);
    at::mm_out(scores, query, key.t());
    finishScores(call, bias, scores, first,
                 scoresOut.defined() ? scoresOut.narrow(0, first, count)
                                     : at::Tensor());
    at::mm_out(result, scores, value);
    out.narrow(0, first, count).copy_(result);
  }
}

/// cos or sin of each position of a sequence, one batch after the other.
at::Tensor cacheRow(const at::Tensor &cache, const at::Tensor &positions,
                    int64_t batch, int64_t position) {
  if (!positions.defined())
    return cache.select(0, cache.size(0) == 1 ? 0 : batch).select(0, position);
  int64_t id = positions.select(0, batch).select(0, position).item<int64_t>();
  if (id < 0 || id >= cache.size(0))
    throw Error("position " + std::to_string(id) + " is out of range for " +
                std::to_string(cache.size(0)) + " rows of the cache");
  return cache.select(0, id);
}

/// Elements of one row, which may lie apart.
template <typename T> struct Row {
  explicit Row(const at::Tensor &row)
      : data(row.const_data_ptr<T>()), stride(row.stride(0)) {}
  T operator[](int64_t i) const { return data[i * stride]; }

  const T *data;
  int64_t stride;
};

template <typename T>
void rotate(Row<T> x, T *to, Row<T> cos, Row<T> sin, int64_t half, int64_t size,
            bool interleaved) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = interleaved ? 2 * i : i;
    int64_t second = interleaved ? 2 * i + 1 : i + half;
    C a = static_cast<C>(x[first]), b = static_cast<C>(x[second]);
    C c = static_cast<C>(cos[i]), s = static_cast<C>(sin[i]);
    to[first] = static_cast<T>(c * a - s * b);
    to[second] = static_cast<T>(s * a + c * b);
  }
  for (int64_t i = 2 * half; i < size; ++i)
    to[i] = x[i];
}

} // namespace

OFFLOAD_KERNEL(Attention) {
  AttentionCall call = attentionCall(context);
  int64_t batches = call.query.size(0), heads = call.query.size(1);
  int64_t rows = call.query.size(2), valueSize = call.value.size(3);
  at::ScalarType type = call.query.scalar_type();
  bool flat = context.dims(0).size() == 3;
  at::Tensor out = flat ? makeEmpty({batches, rows, heads * valueSize}, type)
                        : makeEmpty({batches, heads, rows, valueSize}, type);
  at::Tensor outByHead = byHead(out, heads);
  KernelOutputs outputs = {out};
  if (context.numOutputs() > 1)
    outputs.push_back(joined(call.pastKey, call.key));
  if (context.numOutputs() > 2)
    outputs.push_back(joined(call.pastValue, call.value));
  at::Tensor scores;
  if (context.numOutputs() > 3) {
    scores = makeEmpty({batches, heads, rows, call.total}, type);
    outputs.push_back(scores);
  }
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t head = 0; head < heads; ++head) {
      at::Tensor headOut = outByHead.select(0, batch).select(0, head);
      at::Tensor headScores = scores.defined()
                                  ? scores.select(0, batch).select(0, head)
                                  : at::Tensor();
      if (type == at::kDouble)
        attendHead<double>(call, batch, head, headOut, headScores);
      else
        attendHead<float>(call, batch, head, headOut, headScores);
    }
  return outputs;
}

OFFLOAD_KERNEL(RotaryEmbedding) {
  at::Tensor x = context[0], cos = context[1], sin = context[2];
  at::Tensor positions = context.optionalOperand(3);
  bool interleaved = context.intAttr("interleaved", 0);
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  int64_t heads = context.intAttr("num_heads", 0);
  at::Tensor from = byHead(x, heads), to = byHead(out, heads);
  int64_t size = from.size(3);
  int64_t rotated = context.intAttr("rotary_embedding_dim", 0);
  int64_t half = (rotated ? rotated : size) / 2;
  if (cos.size(-1) != half || sin.size(-1) != half)
    throw Error("the caches have rows of " + std::to_string(cos.size(-1)) +
                ", not of " + std::to_string(half));
  dispatchFloat(x.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    for (int64_t b = 0; b < from.size(0); ++b)
      for (int64_t s = 0; s < from.size(2); ++s) {
        Row<T> c(cacheRow(cos, positions, b, s));
        Row<T> n(cacheRow(sin, positions, b, s));
        for (int64_t h = 0; h < from.size(1); ++h)
          rotate(Row<T>(from.select(0, b).select(0, h).select(0, s)),
                 to.data_ptr<T>() + b * to.stride(0) + h * to.stride(1) +
                     s * to.stride(2),
                 c, n, half, size, interleaved);
      }
  });
  return {out};
}

} // namespace offload::rt
