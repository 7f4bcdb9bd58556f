// Updates of trained weights, for devices.
//
// In:  weight, gradient, state, scalars as launch operands.
// Out: the next weight and state, which may take over the operands' places.
// How: the host's operations in the host's order, each one call, so that each
//      result is rounded as there and the bits are the same. Every operand is
//      read before its place is written, or element by element with it.

#include "Kernel.h"

#include <cmath>

namespace offload::rt {

namespace {

/// `value` rounded to the type of the elements.
double rounded(double value, at::ScalarType type) {
  double result = value;
  dispatchFloat(type, [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    using C = ComputeType<T>;
    result = static_cast<double>(
        static_cast<C>(static_cast<T>(static_cast<C>(value))));
  });
  return result;
}

double scalar(const KernelContext &context, unsigned i, at::ScalarType type) {
  if (!context.launch(i))
    throw Error("scalar operand " + std::to_string(i) + " is missing");
  return rounded(context.launchReal(i, 0), type);
}

/// Scalars of AdamW, and what follows from them alone, each rounded.
struct AdamScalars {
  double beta1, rest1, beta2, rest2, epsilon, rate, keep, bias2Root;

  AdamScalars(const KernelContext &context, at::ScalarType type) {
    auto round = [type](double value) { return rounded(value, type); };
    double lr = scalar(context, 4, type);
    beta1 = scalar(context, 5, type);
    beta2 = scalar(context, 6, type);
    rest1 = round(1 - beta1);
    rest2 = round(1 - beta2);
    epsilon = scalar(context, 7, type);
    auto step = static_cast<double>(context.launchInt(9, 1));
    double bias1 = round(1.0 - std::pow(beta1, step));
    bias2Root = round(std::sqrt(round(1.0 - std::pow(beta2, step))));
    rate = round(lr / bias1);
    keep = round(1 - round(lr * scalar(context, 8, type)));
  }
};

/// A number beside the elements. As a number of the host's, a divisor would be
/// turned into a factor on a card.
at::Tensor besideElements(double value, const at::Tensor &elements) {
  return makeEmpty({}, elements.scalar_type()).fill_(value);
}

/// `to` may be `from` in other clothes; elements keep their positions.
void multiplyInto(at::Tensor &to, const at::Tensor &from, double factor) {
  at::mul_out(to, from,
              at::scalar_tensor(factor, at::TensorOptions(from.scalar_type())));
}

} // namespace

OFFLOAD_DEVICE_KERNEL(Offload_SGD) {
  at::Tensor w = context.contiguous(0), g = context.contiguous(1);
  at::Tensor out = makeEmpty(w.sizes(), w.scalar_type());
  if (context.launchInt(3, 1) == 0)
    return {out.copy_(w)};
  at::Tensor change = makeEmpty(w.sizes(), w.scalar_type());
  multiplyInto(change, g, scalar(context, 2, w.scalar_type()));
  at::sub_out(out, w, change);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(Offload_AdamW) {
  at::Tensor w = context.contiguous(0), g = context.contiguous(1);
  at::Tensor m = context.contiguous(2), v = context.contiguous(3);
  at::Tensor next[3];
  for (at::Tensor &tensor : next)
    tensor = makeEmpty(w.sizes(), w.scalar_type());
  auto &[wNext, mNext, vNext] = next;
  if (context.launchInt(10, 1) == 0)
    return {wNext.copy_(w), mNext.copy_(m), vNext.copy_(v)};
  AdamScalars s(context, w.scalar_type());
  at::Tensor term = makeEmpty(w.sizes(), w.scalar_type());
  multiplyInto(term, g, s.rest1);
  multiplyInto(mNext, m, s.beta1);
  mNext.add_(term);
  multiplyInto(term, g, s.rest2);
  term.mul_(g);
  multiplyInto(vNext, v, s.beta2);
  vNext.add_(term);
  at::Tensor bottom = makeEmpty(w.sizes(), w.scalar_type());
  at::sqrt_out(bottom, vNext);
  bottom.div_(besideElements(s.bias2Root, bottom)).add_(s.epsilon);
  at::div_out(term, mNext, bottom);
  multiplyInto(term, term, s.rate);
  multiplyInto(wNext, w, s.keep);
  wNext.sub_(term);
  return {wNext, mNext, vNext};
}

} // namespace offload::rt
