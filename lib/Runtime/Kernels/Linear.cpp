// Matrix products.
//
// In:  operands of any strides: a transposed weight is read as it lies.
// Out: the product, contiguous, in one request; no scratch.
// How: each two-dimensional product is one `mm_out` into its part of the output
//      (ATen's batched product would copy operands that repeat over the batch).
//      BLAS wants stride 1 in one of the two dimensions; a matrix that has it
//      in neither is multiplied element by element, since a copy would be
//      scratch of the size of a weight.

#include "Kernel.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>

namespace offload::rt {

namespace {

/// Whether BLAS reads the matrix where it lies.
bool isBlasMatrix(const at::Tensor &x) {
  auto fits = [](int64_t unit, int64_t leading, int64_t unitSize,
                 int64_t leadingSize) {
    return (unit == 1 || unitSize <= 1) &&
           (leadingSize <= 1 || leading >= std::max<int64_t>(unitSize, 1));
  };
  return fits(x.stride(1), x.stride(0), x.size(1), x.size(0)) ||
         fits(x.stride(0), x.stride(1), x.size(0), x.size(1));
}

void multiplyByElement(at::Tensor &out, const at::Tensor &a,
                       const at::Tensor &b) {
  dispatchNumber(out.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const T *left = a.const_data_ptr<T>(), *right = b.const_data_ptr<T>();
    T *to = out.data_ptr<T>();
    int64_t inner = a.size(1), columns = b.size(1);
    at::parallel_for(0, a.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m)
        for (int64_t n = 0; n < columns; ++n) {
          ComputeType<T> sum = 0;
          for (int64_t k = 0; k < inner; ++k)
            sum += static_cast<ComputeType<T>>(
                       left[m * a.stride(0) + k * a.stride(1)]) *
                   static_cast<ComputeType<T>>(
                       right[k * b.stride(0) + n * b.stride(1)]);
          to[m * columns + n] = static_cast<T>(sum);
        }
    });
  });
}

void multiply(at::Tensor out, const at::Tensor &a, const at::Tensor &b) {
  if (out.numel() == 0)
    return;
  if (isBlasMatrix(a) && isBlasMatrix(b))
    at::mm_out(out, a, b);
  else
    multiplyByElement(out, a, b);
}

/// `x` as [rows, columns] where that is a view.
std::optional<at::Tensor> asMatrix(const at::Tensor &x) {
  if (!x.is_contiguous())
    return std::nullopt;
  return x.view({product(x.sizes(), 0, x.dim() - 1), x.size(-1)});
}

/// Products over the leading dimensions, which all three have.
void multiplyEach(const at::Tensor &out, const at::Tensor &a,
                  const at::Tensor &b) {
  if (out.dim() == 2)
    return multiply(out, a, b);
  for (int64_t i = 0; i < out.size(0); ++i)
    multiplyEach(out.select(0, i), a.select(0, i), b.select(0, i));
}

at::Tensor expandLeading(const at::Tensor &x, at::IntArrayRef leading) {
  Dims dims = leading.vec();
  dims.push_back(x.size(-2));
  dims.push_back(x.size(-1));
  return x.expand(dims);
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
  std::optional<at::Tensor> rows = asMatrix(a);
  // Without elements there is no shape that a view could infer.
  if (out.numel() != 0 && b.dim() == 2 && rows)
    multiply(out.view({-1, b.size(1)}), *rows, b);
  else if (out.numel() != 0)
    multiplyEach(out, expandLeading(a, leading), expandLeading(b, leading));
  if (right.dim() == 1)
    out = out.squeeze(-1);
  if (left.dim() == 1)
    out = out.squeeze(right.dim() == 1 ? -1 : -2);
  return out;
}

} // namespace

OFFLOAD_KERNEL(MatMul) { return {productOf(context[0], context[1])}; }

OFFLOAD_KERNEL(Gemm) {
  float alpha = context.floatAttr("alpha", 1.0f);
  float beta = context.floatAttr("beta", 1.0f);
  at::Tensor a = context[0], b = context[1];
  if (context.intAttr("transA", 0))
    a = a.t();
  if (context.intAttr("transB", 0))
    b = b.t();
  at::Tensor out = makeEmpty({a.size(0), b.size(1)}, a.scalar_type());
  at::Tensor c = context.optionalOperand(2);
  if (a.size(1) != 0 && isBlasMatrix(a) && isBlasMatrix(b)) {
    if (c.defined() && beta != 0)
      at::addmm_out(out, c.expand(out.sizes()), a, b, beta, alpha);
    else if (alpha != 1)
      at::addmm_out(out, out.zero_(), a, b, 0, alpha);
    else
      at::mm_out(out, a, b);
    return {out};
  }
  multiplyByElement(out, a, b);
  if (alpha != 1)
    out.mul_(alpha);
  if (c.defined() && beta != 0)
    out.add_(c, beta);
  return {out};
}

OFFLOAD_KERNEL(Einsum) {
  std::vector<at::Tensor> operands;
  for (unsigned i = 0; i < context.numOperands(); ++i)
    operands.push_back(context[i]);
  std::string equation = context.textAttr("equation", "");
  return {at::einsum(equation, operands)};
}

} // namespace offload::rt
