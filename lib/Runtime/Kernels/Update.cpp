// Updates of trained weights: SGD and AdamW.
//
// In:  weight, gradient, state, scalars as launch operands.
// Out: the next weight and state, which may take over the operands' places.
// How: IEEE 754 operations rounded one by one, in the order of the functions
//      that give the operators their meaning (Onnx/OffFunctions.cpp); built
//      without contraction. 16-bit types are rounded after every operation.

#include "Kernel.h"

#include <ATen/Parallel.h>

#include <cmath>

namespace offload::rt {

namespace {

constexpr int64_t kElementsPerTask = 16384;

template <typename T> T scalar(const KernelContext &context, unsigned i) {
  if (!context.launch(i))
    throw Error("scalar operand " + std::to_string(i) + " is missing");
  return static_cast<T>(static_cast<ComputeType<T>>(context.launchReal(i, 0)));
}

/// An operation in the compute type, rounded to T.
template <typename T, typename Operation>
T rounded(T a, T b, Operation operation) {
  using C = ComputeType<T>;
  return static_cast<T>(operation(static_cast<C>(a), static_cast<C>(b)));
}
template <typename T> T plus(T a, T b) { return rounded(a, b, std::plus<>()); }
template <typename T> T minus(T a, T b) {
  return rounded(a, b, std::minus<>());
}
template <typename T> T times(T a, T b) {
  return rounded(a, b, std::multiplies<>());
}
template <typename T> T over(T a, T b) {
  return rounded(a, b, std::divides<>());
}
template <typename T> T root(T a) {
  return static_cast<T>(std::sqrt(static_cast<ComputeType<T>>(a)));
}

/// Scalars of AdamW, and what follows from them alone.
template <typename T> struct AdamScalars {
  T beta1, rest1, beta2, rest2, epsilon, rate, keep, bias2Root;

  explicit AdamScalars(const KernelContext &context) {
    T one = static_cast<T>(1.0f), lr = scalar<T>(context, 4);
    beta1 = scalar<T>(context, 5);
    beta2 = scalar<T>(context, 6);
    rest1 = minus(one, beta1);
    rest2 = minus(one, beta2);
    epsilon = scalar<T>(context, 7);
    auto step = static_cast<double>(context.launchInt(9, 1));
    T bias1 = bias(beta1, step);
    bias2Root = root(bias(beta2, step));
    rate = over(lr, bias1);
    keep = minus(one, times(lr, scalar<T>(context, 8)));
  }

private:
  static T bias(T beta, double step) {
    double power =
        std::pow(static_cast<double>(static_cast<ComputeType<T>>(beta)), step);
    return static_cast<T>(static_cast<ComputeType<T>>(1.0 - power));
  }
};

template <typename T>
void adamStep(const AdamScalars<T> &s, T w, T g, T m, T v, T &wNext, T &mNext,
              T &vNext) {
  T mNew = plus(times(s.beta1, m), times(s.rest1, g));
  T vNew = plus(times(s.beta2, v), times(times(s.rest2, g), g));
  T bottom = plus(over(root(vNew), s.bias2Root), s.epsilon);
  T change = times(s.rate, over(mNew, bottom));
  wNext = minus(times(s.keep, w), change);
  mNext = mNew;
  vNext = vNew;
}

} // namespace

OFFLOAD_KERNEL(Offload_SGD) {
  at::Tensor w = context.contiguous(0), g = context.contiguous(1);
  bool apply = context.launchInt(3, 1) != 0;
  at::Tensor out = makeEmpty(w.sizes(), w.scalar_type());
  dispatchFloat(w.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *weight = w.const_data_ptr<T>(), *gradient = g.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    T lr = scalar<T>(context, 2);
    at::parallel_for(
        0, w.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            to[i] =
                apply ? minus(weight[i], times(lr, gradient[i])) : weight[i];
        });
  });
  return {out};
}

OFFLOAD_KERNEL(Offload_AdamW) {
  at::Tensor w = context.contiguous(0), g = context.contiguous(1);
  at::Tensor m = context.contiguous(2), v = context.contiguous(3);
  bool apply = context.launchInt(10, 1) != 0;
  at::Tensor next[3];
  for (at::Tensor &tensor : next)
    tensor = makeEmpty(w.sizes(), w.scalar_type());
  dispatchFloat(w.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *weight = w.const_data_ptr<T>(), *gradient = g.const_data_ptr<T>();
    const T *first = m.const_data_ptr<T>(), *second = v.const_data_ptr<T>();
    T *wNext = next[0].data_ptr<T>(), *mNext = next[1].data_ptr<T>(),
      *vNext = next[2].data_ptr<T>();
    AdamScalars<T> scalars(context);
    at::parallel_for(
        0, w.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            if (apply)
              adamStep(scalars, weight[i], gradient[i], first[i], second[i],
                       wNext[i], mNext[i], vNext[i]);
            else
              wNext[i] = weight[i], mNext[i] = first[i], vNext[i] = second[i];
        });
  });
  return {next[0], next[1], next[2]};
}

} // namespace offload::rt
