// Reductions, and operators that order elements along an axis.
//
// In:  an operand, axes as attribute (older versions) or launch operand.
// Out: contiguous.
// How: ATen's reductions where they need no scratch but a few bytes; own loops
//      where ONNX says which of equal elements wins.

#include "Reduction.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace offload::rt {

namespace {

/// What a reduction is asked to do.
struct Reducing {
  at::Tensor input;
  Dims axes;
  bool keepDims;
  bool nothing; // no axes given, and noop_with_empty_axes
};

Reducing reducingOf(const KernelContext &context) {
  Reducing r{context[0], {}, context.intAttr("keepdims", 1) != 0, false};
  if (const Dims *axes = context.intsAttr("axes"))
    r.axes = *axes;
  else if (std::optional<Dims> axes = context.launchInts(1))
    r.axes = *axes;
  if (r.axes.empty()) {
    r.nothing = context.intAttr("noop_with_empty_axes", 0) != 0;
    r.axes.resize(r.input.dim());
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  for (int64_t &axis : r.axes)
    axis = wrapAxis(axis, r.input.dim());
  return r;
}

/// Reduces by `function(input, axes, keepDims)`; `each` is what one element
/// alone gives.
template <typename Function, typename Each>
KernelOutputs reduce(const KernelContext &context, Function function,
                     Each each) {
  Reducing r = reducingOf(context);
  if (r.nothing || r.input.dim() == 0)
    return {each(r.input)};
  return {function(r.input, at::IntArrayRef(r.axes), r.keepDims)};
}

at::Tensor same(const at::Tensor &x) { return x; }

/// The operand as kept by reduced axes, both in their order.
struct Split {
  at::Tensor kept; // a view whose last dimensions are the reduced ones
  size_t numKept;
  Dims resultDims;
};

Split splitAxes(const at::Tensor &x, at::IntArrayRef axes, bool keepDims) {
  std::vector<bool> reduced(x.dim(), false);
  for (int64_t axis : axes)
    reduced[axis] = true;
  Dims order, result;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (!reduced[i])
      order.push_back(i);
  size_t numKept = order.size();
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (reduced[i])
      order.push_back(i);
    if (!reduced[i] || keepDims)
      result.push_back(reduced[i] ? 1 : x.size(i));
  }
  return {x.permute(order), numKept, result};
}

/// Calls `visit(offset)` for all elements of dimensions [first, last) in C
/// order, offsets counted from `base`.
template <typename Visit>
void visitStrided(const at::Tensor &x, size_t first, int64_t base,
                  const Visit &visit) {
  if (first == static_cast<size_t>(x.dim())) {
    visit(base);
    return;
  }
  int64_t dim = static_cast<int64_t>(first), stride = x.stride(dim);
  for (int64_t i = 0; i < x.size(dim); ++i)
    visitStrided(x, first + 1, base + i * stride, visit);
}

/// One result for each kept position: `reduceOne(data, view, base)`, computed
/// in double.
template <typename ReduceOne>
at::Tensor reduceInDouble(const at::Tensor &x, at::IntArrayRef axes,
                          bool keepDims, const ReduceOne &reduceOne) {
  Split split = splitAxes(x, axes, keepDims);
  at::Tensor out = makeEmpty(split.resultDims, x.scalar_type());
  dispatchFloat(x.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = split.kept.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    at::parallel_for(0, out.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t base = 0, rest = i;
        for (size_t dim = split.numKept; dim-- > 0;) {
          int64_t size = split.kept.sizes()[dim];
          base += rest % size * split.kept.strides()[dim];
          rest /= size;
        }
        double value = reduceOne([&](const auto &visit) {
          visitStrided(split.kept, split.numKept, base, [&](int64_t offset) {
            visit(static_cast<double>(from[offset]));
          });
        });
        to[i] = static_cast<T>(static_cast<ComputeType<T>>(value));
      }
    });
  });
  return out;
}

/// log(sum(exp(x))) with the largest element taken out first.
at::Tensor logSumExp(const at::Tensor &x, at::IntArrayRef axes, bool keepDims) {
  if (usesDeviceForms())
    return at::logsumexp(x, axes, keepDims);
  return reduceInDouble(x, axes, keepDims, [](const auto &forEach) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    forEach([&](double value) { most = std::max(most, value); });
    if (!std::isfinite(most))
      return most;
    forEach([&](double value) { sum += std::exp(value - most); });
    return most + std::log(sum);
  });
}

/// Lanes along an axis: element k of lane (o, i) is at (o * length + k) * inner
/// + i.
struct Lanes {
  at::Tensor input;
  int64_t axis, outer, length, inner;
};

Lanes lanesOf(const KernelContext &context, int64_t axis) {
  at::Tensor x = context.contiguous(0);
  axis = wrapAxis(axis, x.dim());
  int64_t length = x.dim() ? x.size(axis) : 1;
  return {x, axis, product(x.sizes(), 0, axis), length,
          product(x.sizes(), std::min<int64_t>(axis + 1, x.dim()), x.dim())};
}

template <typename T> bool isNotANumber(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(static_cast<double>(value));
}

/// Order of values with NaN above all.
template <typename T> bool isLess(T a, T b) {
  if (isNotANumber(b))
    return !isNotANumber(a);
  return a < b;
}

KernelOutputs argument(const KernelContext &context, bool largest) {
  Lanes lanes = lanesOf(context, context.intAttr("axis", 0));
  bool last = context.intAttr("select_last_index", 0);
  Dims dims = lanes.input.sizes().vec();
  if (!dims.empty()) {
    if (context.intAttr("keepdims", 1))
      dims[lanes.axis] = 1;
    else
      dims.erase(dims.begin() + lanes.axis);
  }
  at::Tensor out = makeEmpty(dims, at::kLong);
  int64_t *to = out.data_ptr<int64_t>();
  dispatchNumber(lanes.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = lanes.input.const_data_ptr<T>();
    for (int64_t o = 0; o < lanes.outer; ++o)
      for (int64_t i = 0; i < lanes.inner; ++i) {
        const T *lane = from + o * lanes.length * lanes.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < lanes.length; ++k) {
          T value = lane[k * lanes.inner], now = lane[best * lanes.inner];
          bool better = largest ? isLess(now, value) : isLess(value, now);
          bool equal = !isLess(now, value) && !isLess(value, now);
          if (better || (last && equal))
            best = k;
        }
        to[o * lanes.inner + i] = best;
      }
  });
  return {out};
}

/// The `count` first indices of a lane in order; of equal values the lower
/// index comes first.
template <typename T>
void orderLane(const T *lane, int64_t stride, int64_t count, bool largest,
               bool sorted, std::vector<int64_t> &order) {
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    T left = lane[a * stride], right = lane[b * stride];
    bool first = largest ? isLess(right, left) : isLess(left, right);
    bool second = largest ? isLess(left, right) : isLess(right, left);
    return first || (!second && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
  if (!sorted)
    std::sort(order.begin(), order.begin() + count);
}

} // namespace

at::Tensor sumOver(const at::Tensor &x, at::IntArrayRef axes, bool keepDims,
                   bool mean) {
  at::ScalarType type = x.scalar_type();
  if (usesDeviceForms() || (type != at::kHalf && type != at::kBFloat16))
    return mean ? at::mean(x, axes, keepDims)
                : at::sum(x, axes, keepDims, type);
  double count = 1;
  for (int64_t axis : axes)
    count *= static_cast<double>(x.size(axis));
  return reduceInDouble(x, axes, keepDims, [=](const auto &forEach) {
    double sum = 0;
    forEach([&](double value) { sum += value; });
    return mean ? sum / count : sum;
  });
}

OFFLOAD_KERNEL(ReduceSum) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return sumOver(x, axes, keep, false);
      },
      same);
}

OFFLOAD_KERNEL(ReduceMean) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return sumOver(x, axes, keep, true);
      },
      same);
}

OFFLOAD_KERNEL(ReduceMax) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return at::amax(x, axes, keep);
      },
      same);
}

OFFLOAD_KERNEL(ReduceMin) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return at::amin(x, axes, keep);
      },
      same);
}

OFFLOAD_KERNEL(ReduceProd) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        Dims descending(axes.begin(), axes.end());
        std::sort(descending.rbegin(), descending.rend());
        at::Tensor result = x;
        for (int64_t axis : descending)
          result = at::prod(result, axis, keep, x.scalar_type());
        return result;
      },
      same);
}

OFFLOAD_KERNEL(ReduceL1) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return at::linalg_vector_norm(x, 1, axes, keep);
      },
      [](const at::Tensor &x) { return at::abs(x); });
}

OFFLOAD_KERNEL(ReduceL2) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return at::linalg_vector_norm(x, 2, axes, keep);
      },
      [](const at::Tensor &x) { return at::abs(x); });
}

// The norm squared: a product x * x first would be scratch of the size of x.
OFFLOAD_KERNEL(ReduceSumSquare) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return at::linalg_vector_norm(x, 2, axes, keep).square_();
      },
      [](const at::Tensor &x) { return at::mul(x, x); });
}

OFFLOAD_KERNEL(ReduceLogSum) {
  return reduce(
      context,
      [](const at::Tensor &x, at::IntArrayRef axes, bool keep) {
        return sumOver(x, axes, keep, false).log_();
      },
      [](const at::Tensor &x) { return at::log(x); });
}

OFFLOAD_KERNEL(ReduceLogSumExp) { return reduce(context, logSumExp, same); }

OFFLOAD_KERNEL(ArgMax) { return argument(context, true); }

OFFLOAD_KERNEL(ArgMin) { return argument(context, false); }

OFFLOAD_KERNEL(TopK) {
  Lanes lanes = lanesOf(context, context.intAttr("axis", -1));
  int64_t count = context.launchInt(1, -1);
  bool largest = context.intAttr("largest", 1);
  bool sorted = context.intAttr("sorted", 1);
  if (count < 0 || count > lanes.length)
    throw Error("k=" + std::to_string(count) + " is out of range for " +
                std::to_string(lanes.length) + " elements");
  Dims dims = lanes.input.sizes().vec();
  if (!dims.empty())
    dims[lanes.axis] = count;
  at::Tensor values = makeEmpty(dims, lanes.input.scalar_type());
  at::Tensor indices = makeEmpty(dims, at::kLong);
  dispatchNumber(lanes.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = lanes.input.const_data_ptr<T>();
    T *to = values.data_ptr<T>();
    int64_t *at = indices.data_ptr<int64_t>();
    std::vector<int64_t> order(lanes.length);
    for (int64_t o = 0; o < lanes.outer; ++o)
      for (int64_t i = 0; i < lanes.inner; ++i) {
        const T *lane = from + o * lanes.length * lanes.inner + i;
        orderLane(lane, lanes.inner, count, largest, sorted, order);
        for (int64_t k = 0; k < count; ++k) {
          int64_t place = (o * count + k) * lanes.inner + i;
          to[place] = lane[order[k] * lanes.inner];
          at[place] = order[k];
        }
      }
  });
  return {values, indices};
}

OFFLOAD_KERNEL(CumSum) {
  Lanes lanes = lanesOf(context, context.launchInt(1, 0));
  bool exclusive = context.intAttr("exclusive", 0);
  bool reverse = context.intAttr("reverse", 0);
  at::Tensor out = makeEmpty(lanes.input.sizes(), lanes.input.scalar_type());
  dispatchNumber(lanes.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = lanes.input.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    for (int64_t o = 0; o < lanes.outer; ++o)
      for (int64_t i = 0; i < lanes.inner; ++i) {
        int64_t start = o * lanes.length * lanes.inner + i;
        ComputeType<T> sum = 0;
        for (int64_t step = 0; step < lanes.length; ++step) {
          int64_t k = reverse ? lanes.length - 1 - step : step;
          int64_t place = start + k * lanes.inner;
          ComputeType<T> value = static_cast<ComputeType<T>>(from[place]);
          to[place] = static_cast<T>(exclusive ? sum : sum + value);
          sum += value;
        }
      }
  });
  return {out};
}

} // namespace offload::rt
