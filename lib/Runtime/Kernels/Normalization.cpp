// Normalization and softmax.
//
// In:  the operand and its scale and bias, contiguous.
// Out: contiguous; no scratch but where said.
// How: own loops for all that subtracts a mean: one group of elements at a
//      time, moments in double over eight interleaved sums (a fixed order), so
//      the bits do not depend on how groups are spread over threads. Softmax is
//      ATen's.

#include "Kernel.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <numeric>

namespace offload::rt {

namespace {

struct Moments {
  double mean = 0;
  double inverseDeviation = 0;
};

constexpr int64_t kLanes = 8;

/// Sum of `map(x[i])` over eight interleaved partial sums.
template <typename T, typename Map>
double laneSum(const T *x, int64_t count, const Map &map) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += map(static_cast<double>(x[i + lane]));
  for (int64_t lane = 0; i < count; ++i, ++lane)
    lanes[lane] += map(static_cast<double>(x[i]));
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

template <typename T>
Moments momentsOf(const T *x, int64_t count, double epsilon) {
  double mean = laneSum(x, count, [](double v) { return v; }) /
                static_cast<double>(count);
  double variance =
      laneSum(x, count, [mean](double v) { return (v - mean) * (v - mean); }) /
      static_cast<double>(count);
  return {mean, 1.0 / std::sqrt(variance + epsilon)};
}

template <typename T>
Moments rootMeanSquareOf(const T *x, int64_t count, double epsilon) {
  double mean = laneSum(x, count, [](double v) { return v * v; }) /
                static_cast<double>(count);
  return {0.0, 1.0 / std::sqrt(mean + epsilon)};
}

/// A parameter of any float type; 1 or 0 where it is absent.
class Parameter {
public:
  Parameter(at::Tensor tensor, float fallback)
      : tensor(std::move(tensor)), fallback(fallback) {
    if (this->tensor.defined())
      dispatchFloat(this->tensor.scalar_type(), [this](auto *tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        data = this->tensor.template const_data_ptr<T>();
        read = [](const void *data, int64_t i) {
          return static_cast<double>(static_cast<const T *>(data)[i]);
        };
      });
  }
  double operator[](int64_t i) const { return data ? read(data, i) : fallback; }

private:
  at::Tensor tensor;
  double fallback;
  const void *data = nullptr;
  double (*read)(const void *, int64_t) = nullptr;
};

template <typename T>
void affine(const T *x, T *to, int64_t count, double factor, double offset) {
  using C = ComputeType<T>;
  C scale = static_cast<C>(factor), shift = static_cast<C>(offset);
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<C>(x[i]) * scale + shift);
}

/// Normalizes planes of one channel each by moments of a group of channels.
/// `parameterOf(channel)` is the index of the channel's scale and bias.
template <typename ParameterOf>
at::Tensor normalizeChannels(const at::Tensor &x, int64_t groups,
                             const Parameter &scale, const Parameter &bias,
                             double epsilon, const ParameterOf &parameterOf) {
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  int64_t batch = x.size(0), channels = x.size(1);
  int64_t plane = product(x.sizes(), 2, x.dim());
  int64_t channelsPerGroup = channels / groups;
  dispatchFloat(x.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = x.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    at::parallel_for(0, batch * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        int64_t first = group * channelsPerGroup;
        Moments moments =
            momentsOf(from + first * plane, channelsPerGroup * plane, epsilon);
        for (int64_t c = first; c < first + channelsPerGroup; ++c) {
          int64_t p = parameterOf(c % channels);
          double factor = scale[p] * moments.inverseDeviation;
          affine(from + c * plane, to + c * plane, plane, factor,
                 bias[p] - moments.mean * factor);
        }
      }
    });
  });
  return out;
}

/// A scale or bias as one value for each element of a row. A vector, not a
/// tensor: it is the host's, not scratch.
template <typename C>
std::vector<C> overRow(const KernelContext &context, unsigned i,
                       at::IntArrayRef row, C fallback) {
  std::vector<C> values(product(row, 0, row.size()), fallback);
  at::Tensor parameter = context.optionalOperand(i);
  if (parameter.defined() && !values.empty())
    at::from_blob(values.data(), row, c10::CppTypeToScalarType<C>::value)
        .copy_(parameter.expand(row));
  return values;
}

template <typename T, typename C = ComputeType<T>>
void normalizeRow(const T *x, T *to, const Moments &moments,
                  const std::vector<C> &scale, const std::vector<C> &bias) {
  C mean = static_cast<C>(moments.mean);
  C factor = static_cast<C>(moments.inverseDeviation);
  for (size_t i = 0; i < scale.size(); ++i)
    to[i] = static_cast<T>((static_cast<C>(x[i]) - mean) * factor * scale[i] +
                           bias[i]);
}

struct Rows {
  at::Tensor input;
  int64_t axis, count, length;
};

Rows rowsOf(const KernelContext &context) {
  at::Tensor x = context.contiguous(0);
  int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
  return {x, axis, product(x.sizes(), 0, axis),
          product(x.sizes(), axis, x.dim())};
}

/// Softmax of opset 11 and 12 sees a matrix cut at the axis.
template <typename Function>
KernelOutputs alongAxis(const KernelContext &context, Function function) {
  at::Tensor x = context.contiguous(0);
  if (context.since() >= 13) {
    int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
    return {function(x, axis)};
  }
  int64_t axis = context.intAttr("axis", 1);
  axis = axis == x.dim() ? axis : wrapAxis(axis, x.dim());
  at::Tensor matrix =
      x.view({product(x.sizes(), 0, axis), product(x.sizes(), axis, x.dim())});
  return {function(matrix, 1).view(x.sizes())};
}

} // namespace

OFFLOAD_KERNEL(BatchNormalization) {
  at::Tensor x = context.contiguous(0);
  Parameter scale(context.contiguous(1), 1), bias(context.contiguous(2), 0);
  Parameter mean(context.contiguous(3), 0), variance(context.contiguous(4), 1);
  double epsilon = context.floatAttr("epsilon", 1e-5f);
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  int64_t channels = x.dim() > 1 ? x.size(1) : 1;
  int64_t plane = x.dim() > 1 ? product(x.sizes(), 2, x.dim()) : 1;
  dispatchFloat(x.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *from = x.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    at::parallel_for(
        0, x.size(0) * channels, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            int64_t c = i % channels;
            double factor = scale[c] / std::sqrt(variance[c] + epsilon);
            affine(from + i * plane, to + i * plane, plane, factor,
                   bias[c] - mean[c] * factor);
          }
        });
  });
  return {out};
}

OFFLOAD_KERNEL(InstanceNormalization) {
  at::Tensor x = context.contiguous(0);
  return {normalizeChannels(x, x.size(1), Parameter(context.contiguous(1), 1),
                            Parameter(context.contiguous(2), 0),
                            context.floatAttr("epsilon", 1e-5f),
                            [](int64_t channel) { return channel; })};
}

OFFLOAD_KERNEL(GroupNormalization) {
  at::Tensor x = context.contiguous(0);
  int64_t groups = context.intAttr("num_groups", 1);
  if (groups <= 0 || x.size(1) % groups != 0)
    throw Error("num_groups=" + std::to_string(groups) + " does not divide " +
                std::to_string(x.size(1)) + " channels");
  // Until opset 21, scale and bias have one value for each group.
  int64_t divisor = context.since() < 21 ? x.size(1) / groups : 1;
  return {normalizeChannels(
      x, groups, Parameter(context.contiguous(1), 1),
      Parameter(context.contiguous(2), 0), context.floatAttr("epsilon", 1e-5f),
      [divisor](int64_t channel) { return channel / divisor; })};
}

OFFLOAD_KERNEL(LayerNormalization) {
  Rows rows = rowsOf(context);
  at::IntArrayRef row = rows.input.sizes().slice(rows.axis);
  double epsilon = context.floatAttr("epsilon", 1e-5f);
  Dims moments = rows.input.sizes().vec();
  std::fill(moments.begin() + rows.axis, moments.end(), 1);
  KernelOutputs outputs = {
      makeEmpty(rows.input.sizes(), rows.input.scalar_type())};
  for (unsigned i = 1; i < context.numOutputs(); ++i)
    outputs.push_back(makeEmpty(moments, at::kFloat));
  float *means =
      outputs.size() > 1 ? outputs[1].tensor.data_ptr<float>() : nullptr;
  float *inverses =
      outputs.size() > 2 ? outputs[2].tensor.data_ptr<float>() : nullptr;
  dispatchFloat(rows.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    using C = ComputeType<T>;
    std::vector<C> scale = overRow<C>(context, 1, row, 1);
    std::vector<C> bias = overRow<C>(context, 2, row, 0);
    const T *from = rows.input.const_data_ptr<T>();
    T *to = outputs[0].tensor.data_ptr<T>();
    at::parallel_for(0, rows.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T *x = from + i * rows.length;
        Moments found = momentsOf(x, rows.length, epsilon);
        normalizeRow(x, to + i * rows.length, found, scale, bias);
        if (means)
          means[i] = static_cast<float>(found.mean);
        if (inverses)
          inverses[i] = static_cast<float>(found.inverseDeviation);
      }
    });
  });
  return outputs;
}

OFFLOAD_KERNEL(RMSNormalization) {
  Rows rows = rowsOf(context);
  at::IntArrayRef row = rows.input.sizes().slice(rows.axis);
  double epsilon = context.floatAttr("epsilon", 1e-5f);
  at::Tensor out = makeEmpty(rows.input.sizes(), rows.input.scalar_type());
  dispatchFloat(rows.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    using C = ComputeType<T>;
    std::vector<C> scale = overRow<C>(context, 1, row, 1);
    std::vector<C> bias(scale.size(), 0);
    const T *from = rows.input.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    at::parallel_for(0, rows.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T *x = from + i * rows.length;
        normalizeRow(x, to + i * rows.length,
                     rootMeanSquareOf(x, rows.length, epsilon), scale, bias);
      }
    });
  });
  return {out};
}

OFFLOAD_KERNEL(LpNormalization) {
  at::Tensor x = context[0];
  int64_t axis = wrapAxis(context.intAttr("axis", -1), x.dim());
  int64_t power = context.intAttr("p", 2);
  at::Tensor norm = at::linalg_vector_norm(x, power, axis, true);
  norm.masked_fill_(norm == 0, 1); // a row of zeros stays one
  return {at::div(x, norm)};
}

OFFLOAD_KERNEL(MeanVarianceNormalization) {
  at::Tensor x = context[0];
  const Dims *given = context.intsAttr("axes");
  Dims axes = given ? *given : Dims{0, 2, 3};
  at::Tensor mean = at::mean(x, axes, true);
  at::Tensor square = at::mul(x, x);
  at::Tensor deviation = at::mean(square, axes, true);
  deviation.sub_(at::mul(mean, mean)).clamp_min_(0).sqrt_().add_(1e-9);
  return {at::sub(x, mean).div_(deviation)};
}

OFFLOAD_KERNEL(Softmax) {
  return alongAxis(context, [](const at::Tensor &x, int64_t axis) {
    return at::softmax(x, axis);
  });
}

OFFLOAD_KERNEL(LogSoftmax) {
  return alongAxis(context, [](const at::Tensor &x, int64_t axis) {
    return at::log_softmax(x, axis);
  });
}

} // namespace offload::rt
