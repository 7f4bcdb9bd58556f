// Matrix products and what else takes several operands, for devices.
//
// In:  operands of any strides.
// Out: contiguous.
// How: one product for all matrices of a batch. What the device's BLAS does not
//      read where it lies is copied first, which is scratch; integers are
//      multiplied in double, exact up to 53 bits. ATen adds a bias within the
//      launch of the product (cuBLASLt) only where it gets it as one contiguous
//      dimension, so a row is never expanded here.

#include "Kernel.h"

#include <ATen/ExpandUtils.h>

namespace offload::rt {

namespace {

/// Whether the last two dimensions are a matrix that BLAS reads.
bool isBlasMatrix(const at::Tensor &x) {
  auto fits = [&](int64_t unit, int64_t leading) {
    return (x.stride(unit) == 1 || x.size(unit) <= 1) &&
           (x.size(leading) <= 1 ||
            x.stride(leading) >= std::max<int64_t>(x.size(unit), 1));
  };
  return fits(-1, -2) || fits(-2, -1);
}

at::Tensor readable(const at::Tensor &x) {
  return isBlasMatrix(x) ? x : x.contiguous();
}

/// All leading dimensions as one.
at::Tensor asBatch(const at::Tensor &x, at::IntArrayRef leading) {
  Dims dims = leading.vec();
  dims.push_back(x.size(-2));
  dims.push_back(x.size(-1));
  return readable(x.expand(dims).reshape(
      {product(leading, 0, leading.size()), x.size(-2), x.size(-1)}));
}

void multiply(at::Tensor out, const at::Tensor &a, const at::Tensor &b) {
  if (out.numel() == 0)
    return;
  if (a.size(-1) == 0) {
    out.zero_();
    return;
  }
  if (at::isIntegralType(a.scalar_type(), true)) {
    out.copy_(at::matmul(a.to(at::kDouble), b.to(at::kDouble)));
    return;
  }
  if (out.dim() == 2)
    at::mm_out(out, readable(a), readable(b));
  else
    at::bmm_out(out, a, b);
}

at::Tensor productOf(const at::Tensor &left, const at::Tensor &right) {
  at::Tensor a = left.dim() == 1 ? left.unsqueeze(0) : left;
  at::Tensor b = right.dim() == 1 ? right.unsqueeze(1) : right;
  if (a.size(-1) != b.size(-2))
    throw Error("inner sizes " + std::to_string(a.size(-1)) + " and " +
                std::to_string(b.size(-2)) + " of a product differ");
  Dims leading = at::infer_size(a.sizes().slice(0, a.dim() - 2),
                                b.sizes().slice(0, b.dim() - 2));
  Dims dims = leading;
  dims.push_back(a.size(-2));
  dims.push_back(b.size(-1));
  at::Tensor out = makeEmpty(dims, a.scalar_type());
  if (b.dim() == 2)
    multiply(out.view({-1, b.size(1)}), a.reshape({-1, a.size(-1)}), b);
  else
    multiply(out.view({-1, a.size(-2), b.size(-1)}), asBatch(a, leading),
             asBatch(b, leading));
  if (right.dim() == 1)
    out = out.squeeze(-1);
  if (left.dim() == 1)
    out = out.squeeze(right.dim() == 1 ? -1 : -2);
  return out;
}

/// What is added to a product of `columns` columns: a row as one dimension.
at::Tensor asAddend(const at::Tensor &c, int64_t columns) {
  bool isRow = c.dim() > 0 && c.size(-1) == columns && c.numel() == columns;
  return isRow && c.is_contiguous() ? c.view({columns}) : c;
}

} // namespace

OFFLOAD_DEVICE_KERNEL(MatMul) { return {productOf(context[0], context[1])}; }

OFFLOAD_DEVICE_KERNEL(Gemm) {
  float alpha = context.floatAttr("alpha", 1.0f);
  float beta = context.floatAttr("beta", 1.0f);
  at::Tensor a = context[0], b = context[1];
  a = readable(context.intAttr("transA", 0) ? a.t() : a);
  b = readable(context.intAttr("transB", 0) ? b.t() : b);
  at::Tensor out = makeEmpty({a.size(0), b.size(1)}, a.scalar_type());
  at::Tensor c = context.optionalOperand(2);
  if (c.defined() && beta != 0)
    at::addmm_out(out, asAddend(c, b.size(1)), a, b, beta, alpha);
  else if (alpha != 1)
    at::addmm_out(out, out.zero_(), a, b, 0, alpha);
  else
    at::mm_out(out, a, b);
  return {out};
}

OFFLOAD_DEVICE_KERNEL(Offload_Linear) {
  at::Tensor x = context[0], w = readable(context[1]), b = context[2];
  Dims dims = x.sizes().vec();
  int64_t rows = product(dims, 0, dims.size() - 1), inner = dims.back();
  dims.back() = w.size(1);
  at::Tensor out = makeEmpty(dims, x.scalar_type());
  if (out.numel() == 0)
    return {out};
  if (inner == 0)
    return {out.copy_(b.expand(dims))};
  at::Tensor matrix = out.view({rows, w.size(1)});
  at::addmm_out(matrix, asAddend(b, w.size(1)),
                readable(x.reshape({rows, inner})), w);
  return {out};
}

// Base and exponent may differ in type; then both are taken in double.
OFFLOAD_DEVICE_KERNEL(Pow) {
  at::Tensor base = context[0], exponent = context[1];
  at::Tensor out = makeEmpty(at::infer_size(base.sizes(), exponent.sizes()),
                             base.scalar_type());
  if (base.scalar_type() == exponent.scalar_type()) {
    at::pow_out(out, base, exponent);
    return {out};
  }
  return {out.copy_(at::pow(base.to(at::kDouble), exponent.to(at::kDouble)))};
}

OFFLOAD_DEVICE_KERNEL(PRelu) {
  at::Tensor x = context[0];
  at::Tensor slope = context[1].expand(x.sizes());
  at::Tensor out = makeEmpty(x.sizes(), x.scalar_type());
  at::Tensor scaled = at::mul(x, slope);
  at::where_out(out, at::lt(x, 0), scaled, x);
  return {out};
}

} // namespace offload::rt
