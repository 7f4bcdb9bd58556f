// Elementwise operators of several operands, with broadcasting.
//
// In:  operands of any strides whose shapes broadcast.
// Out: a contiguous tensor of the common shape.
// How: ATen's `_out` forms. Operators of any number of operands fold into the
//      output in operand order.

#include "Kernel.h"

#include <ATen/ExpandUtils.h>

#include <cmath>

namespace offload::rt {

namespace {

template <typename Function>
KernelOutputs binary(const KernelContext &context, at::ScalarType type,
                     Function function) {
  at::Tensor a = context[0], b = context[1];
  at::Tensor out = makeEmpty(at::infer_size(a.sizes(), b.sizes()), type);
  function(out, a, b);
  return {out};
}

/// Folds all operands into the output, the first one as it is.
template <typename Function>
at::Tensor fold(const KernelContext &context, Function function) {
  Dims dims = context.dims(0);
  for (unsigned i = 1; i < context.numOperands(); ++i)
    dims = at::infer_size(dims, context.dims(i));
  at::Tensor first = context[0];
  at::Tensor out = makeEmpty(dims, first.scalar_type());
  if (context.numOperands() == 1) {
    out.copy_(first);
    return out;
  }
  at::Tensor expanded = first.expand(dims);
  function(out, expanded, context[1]);
  for (unsigned i = 2; i < context.numOperands(); ++i)
    function(out, out, context[i]);
  return out;
}

/// Offset in a strided tensor of element `i` in C order.
int64_t offsetOf(const at::Tensor &x, int64_t i) {
  int64_t offset = 0;
  for (int64_t dim = x.dim(); dim-- > 0;) {
    offset += i % x.size(dim) * x.stride(dim);
    i /= x.size(dim);
  }
  return offset;
}

template <typename Base, typename Exponent>
void powEach(at::Tensor &out, const at::Tensor &base,
             const at::Tensor &exponent) {
  const Base *a = base.const_data_ptr<Base>();
  const Exponent *b = exponent.const_data_ptr<Exponent>();
  Base *to = out.data_ptr<Base>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    double power = std::pow(static_cast<double>(a[offsetOf(base, i)]),
                            static_cast<double>(b[offsetOf(exponent, i)]));
    to[i] = static_cast<Base>(static_cast<ComputeType<Base>>(power));
  }
}

/// x where it is not negative, x * slope elsewhere.
template <typename T>
void scaleNegatives(at::Tensor &out, const at::Tensor &x,
                    const at::Tensor &slope) {
  using C = ComputeType<T>;
  const T *from = x.const_data_ptr<T>(), *by = slope.const_data_ptr<T>();
  T *to = out.data_ptr<T>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    T value = from[offsetOf(x, i)];
    to[i] = value < static_cast<T>(0)
                ? static_cast<T>(static_cast<C>(value) *
                                 static_cast<C>(by[offsetOf(slope, i)]))
                : value;
  }
}

} // namespace

#define ARITHMETIC(Id, function)                                               \
  OFFLOAD_KERNEL(Id) {                                                         \
    return binary(context, context[0].scalar_type(),                           \
                  [](at::Tensor &out, const at::Tensor &a,                     \
                     const at::Tensor &b) { at::function(out, a, b); });       \
  }
#define COMPARISON(Id, function)                                               \
  OFFLOAD_KERNEL(Id) {                                                         \
    return binary(context, at::kBool,                                          \
                  [](at::Tensor &out, const at::Tensor &a,                     \
                     const at::Tensor &b) { at::function(out, a, b); });       \
  }

ARITHMETIC(Add, add_out)
ARITHMETIC(Sub, sub_out)
ARITHMETIC(Mul, mul_out)
ARITHMETIC(BitwiseAnd, bitwise_and_out)
ARITHMETIC(BitwiseOr, bitwise_or_out)
ARITHMETIC(BitwiseXor, bitwise_xor_out)
COMPARISON(Equal, eq_out)
COMPARISON(Greater, gt_out)
COMPARISON(GreaterOrEqual, ge_out)
COMPARISON(Less, lt_out)
COMPARISON(LessOrEqual, le_out)
COMPARISON(And, logical_and_out)
COMPARISON(Or, logical_or_out)
COMPARISON(Xor, logical_xor_out)

#undef ARITHMETIC
#undef COMPARISON

OFFLOAD_KERNEL(Div) {
  bool integers = at::isIntegralType(context[0].scalar_type(), false);
  return binary(context, context[0].scalar_type(),
                [=](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) {
                  if (integers)
                    at::div_out(out, a, b, "trunc");
                  else
                    at::div_out(out, a, b);
                });
}

OFFLOAD_KERNEL(Mod) {
  bool truncates = context.intAttr("fmod", 0);
  return binary(context, context[0].scalar_type(),
                [=](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) {
                  if (truncates)
                    at::fmod_out(out, a, b);
                  else
                    at::remainder_out(out, a, b);
                });
}

// Base and exponent may differ in type; the result has the base's. ATen would
// convert copies of both, so other types than one are computed here, in double.
OFFLOAD_KERNEL(Pow) {
  at::ScalarType type = context[0].scalar_type();
  if (type == context[1].scalar_type())
    return binary(context, type,
                  [](at::Tensor &out, const at::Tensor &a,
                     const at::Tensor &b) { at::pow_out(out, a, b); });
  return binary(context, type,
                [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) {
                  dispatchNumber(a.scalar_type(), [&](auto *baseTag) {
                    using Base = std::remove_pointer_t<decltype(baseTag)>;
                    dispatchNumber(b.scalar_type(), [&](auto *exponentTag) {
                      using Exponent =
                          std::remove_pointer_t<decltype(exponentTag)>;
                      powEach<Base, Exponent>(out, a.expand(out.sizes()),
                                              b.expand(out.sizes()));
                    });
                  });
                });
}

OFFLOAD_KERNEL(Max) {
  return {
      fold(context, [](at::Tensor &out, const at::Tensor &a,
                       const at::Tensor &b) { at::maximum_out(out, a, b); })};
}

OFFLOAD_KERNEL(Min) {
  return {
      fold(context, [](at::Tensor &out, const at::Tensor &a,
                       const at::Tensor &b) { at::minimum_out(out, a, b); })};
}

OFFLOAD_KERNEL(Sum) {
  return {fold(context, [](at::Tensor &out, const at::Tensor &a,
                           const at::Tensor &b) { at::add_out(out, a, b); })};
}

OFFLOAD_KERNEL(Mean) {
  at::Tensor sum =
      fold(context, [](at::Tensor &out, const at::Tensor &a,
                       const at::Tensor &b) { at::add_out(out, a, b); });
  return {sum.div_(static_cast<double>(context.numOperands()))};
}

OFFLOAD_KERNEL(PRelu) {
  at::Tensor x = context[0];
  at::Tensor slope = context[1].expand(x.sizes());
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  dispatchNumber(x.scalar_type(), [&](auto *tag) {
    scaleNegatives<std::remove_pointer_t<decltype(tag)>>(out, x, slope);
  });
  return {out};
}

OFFLOAD_KERNEL(Where) {
  at::Tensor condition = context[0], a = context[1], b = context[2];
  Dims dims =
      at::infer_size(at::infer_size(condition.sizes(), a.sizes()), b.sizes());
  at::Tensor out = makeEmpty(dims, a.scalar_type());
  return {at::where_out(out, condition, a, b)};
}

} // namespace offload::rt
