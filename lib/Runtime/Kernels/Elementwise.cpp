// Elementwise operators of one operand.
//
// In:  one operand of any strides.
// Out: a contiguous tensor of its shape.
// Not: casts (Cast.cpp), broadcasting (Broadcast.cpp).
// How: ATen's `_out` forms into a new tensor. Where several calls are needed,
//      only the first reads the operand, so the output may take its place; an
//      operator that reads it again keeps its first result apart.

#include "Kernel.h"

namespace offload::rt {

namespace {

at::Tensor emptyLike(const at::Tensor &x) {
  return makeEmpty(x.sizes(), x.scalar_type());
}

/// A factor that ATen hands to its kernels by value, wherever `x` lies.
at::Tensor scalarLike(double value, const at::Tensor &x) {
  return at::scalar_tensor(value, at::TensorOptions(x.scalar_type()));
}

template <typename Function>
KernelOutputs unary(const KernelContext &context, Function function) {
  at::Tensor x = context[0];
  at::Tensor out = emptyLike(x);
  function(out, x);
  return {out};
}

} // namespace

#define UNARY(Id, function)                                                    \
  OFFLOAD_KERNEL(Id) {                                                         \
    return unary(context, [](at::Tensor &out, const at::Tensor &x) {           \
      at::function(out, x);                                                    \
    });                                                                        \
  }

UNARY(Abs, abs_out)
UNARY(Acos, acos_out)
UNARY(Acosh, acosh_out)
UNARY(Asin, asin_out)
UNARY(Asinh, asinh_out)
UNARY(Atan, atan_out)
UNARY(Atanh, atanh_out)
UNARY(BitwiseNot, bitwise_not_out)
UNARY(Ceil, ceil_out)
UNARY(Cos, cos_out)
UNARY(Cosh, cosh_out)
UNARY(Erf, erf_out)
UNARY(Exp, exp_out)
UNARY(Floor, floor_out)
UNARY(HardSwish, hardswish_out)
UNARY(Log, log_out)
UNARY(Mish, mish_out)
UNARY(Neg, neg_out)
UNARY(Not, logical_not_out)
UNARY(Reciprocal, reciprocal_out)
UNARY(Round, round_out)
UNARY(Sigmoid, sigmoid_out)
UNARY(Sign, sign_out)
UNARY(Sin, sin_out)
UNARY(Sinh, sinh_out)
UNARY(Softplus, softplus_out)
UNARY(Sqrt, sqrt_out)
UNARY(Tan, tan_out)
UNARY(Tanh, tanh_out)

#undef UNARY

OFFLOAD_KERNEL(Relu) {
  return unary(context, [](at::Tensor &out, const at::Tensor &x) {
    at::clamp_min_out(out, x, 0);
  });
}

OFFLOAD_KERNEL(Elu) {
  float alpha = context.floatAttr("alpha", 1.0f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::elu_out(out, x, alpha);
  });
}

OFFLOAD_KERNEL(Celu) {
  double alpha = context.floatAttr("alpha", 1.0f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::elu_out(out, x, alpha, 1.0, 1.0 / alpha);
  });
}

OFFLOAD_KERNEL(Selu) {
  double alpha = context.floatAttr("alpha", 1.67326319217681884765625f);
  double gamma = context.floatAttr("gamma", 1.05070102214813232421875f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::elu_out(out, x, alpha, gamma);
  });
}

OFFLOAD_KERNEL(LeakyRelu) {
  float alpha = context.floatAttr("alpha", 0.01f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::leaky_relu_out(out, x, alpha);
  });
}

OFFLOAD_KERNEL(ThresholdedRelu) {
  float alpha = context.floatAttr("alpha", 1.0f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::threshold_out(out, x, alpha, 0);
  });
}

OFFLOAD_KERNEL(Gelu) {
  std::string approximate = context.textAttr("approximate", "none");
  return unary(context, [&](at::Tensor &out, const at::Tensor &x) {
    at::gelu_out(out, x, approximate);
  });
}

OFFLOAD_KERNEL(HardSigmoid) {
  float alpha = context.floatAttr("alpha", 0.2f);
  float beta = context.floatAttr("beta", 0.5f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    at::mul_out(out, x, scalarLike(alpha, x));
    out.add_(beta).clamp_(0, 1);
  });
}

OFFLOAD_KERNEL(Softsign) {
  return unary(context, [](at::Tensor &out, const at::Tensor &x) {
    at::Tensor divisor = emptyLike(x);
    at::abs_out(divisor, x);
    divisor.add_(1);
    at::div_out(out, x, divisor);
  });
}

OFFLOAD_KERNEL(Swish) {
  float alpha = context.floatAttr("alpha", 1.0f);
  return unary(context, [=](at::Tensor &out, const at::Tensor &x) {
    if (alpha == 1) {
      at::silu_out(out, x);
      return;
    }
    at::Tensor gate = emptyLike(x);
    at::mul_out(gate, x, scalarLike(alpha, x));
    gate.sigmoid_();
    at::mul_out(out, x, gate);
  });
}

OFFLOAD_KERNEL(IsNaN) {
  at::Tensor x = context[0];
  at::Tensor out = makeEmpty(x.sizes(), at::kBool);
  at::ne_out(out, x, x);
  return {out};
}

OFFLOAD_KERNEL(IsInf) {
  bool negative = context.intAttr("detect_negative", 1);
  bool positive = context.intAttr("detect_positive", 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor x = context[0];
  at::Tensor out = makeEmpty(x.sizes(), at::kBool);
  if (negative && positive) {
    at::Tensor magnitude = emptyLike(x);
    at::abs_out(magnitude, x);
    at::eq_out(out, magnitude, kInfinity);
  } else if (negative || positive) {
    at::eq_out(out, x, positive ? kInfinity : -kInfinity);
  } else {
    out.zero_();
  }
  return {out};
}

OFFLOAD_KERNEL(Clip) {
  at::Tensor x = context[0];
  auto bound = [&](unsigned i) -> std::optional<at::Scalar> {
    const HostValue *value = context.launch(i);
    if (!value || (value->ints.empty() && value->reals.empty()))
      return std::nullopt;
    return value->isReal() ? at::Scalar(value->reals[0])
                           : at::Scalar(value->ints[0]);
  };
  std::optional<at::Scalar> least = bound(1), most = bound(2);
  if (!least && !most)
    return {x};
  at::Tensor out = emptyLike(x);
  at::clamp_out(out, x, least, most);
  return {out};
}

OFFLOAD_KERNEL(Identity) {
  if (elementBits(context.type(0)) == 4)
    return {{context[0], context.type(0), context.dims(0)}};
  return {context[0]};
}

OFFLOAD_KERNEL(Dropout) {
  if (context.launchInt(2, 0) != 0 && context.launchReal(1, 0.5) != 0)
    throw Error("training mode of Dropout is not supported: set its "
                "training_mode to false");
  KernelOutputs outputs = {context[0]};
  if (context.numOutputs() > 1)
    outputs.push_back(makeEmpty(context.dims(0), at::kBool).fill_(1));
  return outputs;
}

} // namespace offload::rt
