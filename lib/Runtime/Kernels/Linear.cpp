// Matrix products.
//
// In:  operands of any strides: a transposed weight is read as it lies.
// Out: the product, contiguous, in one request; no scratch.
// How: each two-dimensional product is one `mm_out` into its part of the output
//      (ATen's batched product would copy operands that repeat over the batch).
//      BLAS wants stride 1 in one of the two dimensions; a matrix that has it
//      in neither is multiplied element by element, since a copy would be
//      scratch of the size of a weight. 16-bit types are multiplied in float, a
//      tile at a time, in vectors of the host: oneDNN's own products of them
//      need memory whose size depends on the CPU and so can be in no plan.

#include "Kernel.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

namespace offload::rt {

namespace {

/// Elements of an operand that are converted to float at one time.
constexpr int64_t kTileElements = 1 << 18;
constexpr int64_t kLeastTile = 64;

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

bool has16Bits(const at::Tensor &x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

/// A part of a matrix in float, in a vector that parts of up to `most` elements
/// share.
class FloatTile {
public:
  explicit FloatTile(int64_t most) : values(most) {}
  at::Tensor shaped(int64_t rows, int64_t columns) {
    return at::from_blob(values.data(), {rows, columns}, at::kFloat);
  }
  at::Tensor copyOf(const at::Tensor &part) {
    return shaped(part.size(0), part.size(1)).copy_(part);
  }

private:
  std::vector<float> values;
};

/// What a product is multiplied by and what is added, before its one rounding.
struct Scaling {
  float alpha = 1, beta = 0;
  at::Tensor addend; // expands to the product's shape; undefined: nothing
};

void multiplyInFloat(const at::Tensor &out, const at::Tensor &a,
                     const at::Tensor &b, const Scaling &scaling) {
  int64_t rows = out.size(0), columns = out.size(1);
  int64_t inner = std::max<int64_t>(a.size(1), 1);
  int64_t most = std::max(kTileElements / inner, kLeastTile);
  int64_t tileRows = std::min(most, rows);
  int64_t tileColumns = std::min(most, columns);
  FloatTile left(tileRows * inner), right(inner * tileColumns);
  FloatTile sums(tileRows * tileColumns), added(tileRows * tileColumns);
  at::Tensor addend = scaling.addend;
  if (addend.defined())
    addend = addend.expand(out.sizes());
  for (int64_t n = 0; n < columns; n += tileColumns) {
    int64_t width = std::min(tileColumns, columns - n);
    at::Tensor weights = right.copyOf(b.narrow(1, n, width));
    for (int64_t m = 0; m < rows; m += tileRows) {
      int64_t height = std::min(tileRows, rows - m);
      auto partOf = [&](const at::Tensor &x) {
        return x.narrow(0, m, height).narrow(1, n, width);
      };
      at::Tensor sum = sums.shaped(height, width);
      at::Tensor factors = left.copyOf(a.narrow(0, m, height));
      if (addend.defined())
        at::addmm_out(sum, added.copyOf(partOf(addend)), factors, weights,
                      scaling.beta, scaling.alpha);
      else
        at::addmm_out(sum, sum.zero_(), factors, weights, 0, scaling.alpha);
      partOf(out).copy_(sum);
    }
  }
}

void multiply(at::Tensor out, const at::Tensor &a, const at::Tensor &b,
              const Scaling &scaling) {
  const auto &[alpha, beta, addend] = scaling;
  if (out.numel() == 0)
    return;
  if (has16Bits(a) && a.size(1) != 0)
    return multiplyInFloat(out, a, b, scaling);
  if (a.size(1) != 0 && isBlasMatrix(a) && isBlasMatrix(b)) {
    if (addend.defined())
      at::addmm_out(out, addend.expand(out.sizes()), a, b, beta, alpha);
    else if (alpha != 1)
      at::addmm_out(out, out.zero_(), a, b, 0, alpha);
    else
      at::mm_out(out, a, b);
    return;
  }
  multiplyByElement(out, a, b);
  if (alpha != 1)
    out.mul_(alpha);
  if (addend.defined())
    out.add_(addend, beta);
}

/// `x` as [rows, columns] where that is a view.
std::optional<at::Tensor> asMatrix(const at::Tensor &x) {
  if (!x.is_contiguous())
    return std::nullopt;
  return x.view({product(x.sizes(), 0, x.dim() - 1), x.size(-1)});
}

/// Products over the leading dimensions, which all three have.
void multiplyEach(const at::Tensor &out, const at::Tensor &a,
                  const at::Tensor &b, const Scaling &scaling) {
  if (out.dim() == 2)
    return multiply(out, a, b, scaling);
  for (int64_t i = 0; i < out.size(0); ++i)
    multiplyEach(out.select(0, i), a.select(0, i), b.select(0, i), scaling);
}

at::Tensor expandLeading(const at::Tensor &x, at::IntArrayRef leading) {
  Dims dims = leading.vec();
  dims.push_back(x.size(-2));
  dims.push_back(x.size(-1));
  return x.expand(dims);
}

/// `scaling.addend` has one dimension at most.
at::Tensor productOf(const at::Tensor &left, const at::Tensor &right,
                     const Scaling &scaling = {}) {
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
    multiply(out.view({-1, b.size(1)}), *rows, b, scaling);
  else if (out.numel() != 0)
    multiplyEach(out, expandLeading(a, leading), expandLeading(b, leading),
                 scaling);
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
  at::Tensor c = beta == 0 ? at::Tensor() : context.optionalOperand(2);
  multiply(out, a, b, {alpha, beta, c});
  return {out};
}

OFFLOAD_KERNEL(Offload_Linear) {
  return {productOf(context[0], context[1], {1, 1, context[2]})};
}

OFFLOAD_KERNEL(Einsum) {
  std::vector<at::Tensor> operands;
  for (unsigned i = 0; i < context.numOperands(); ++i)
    operands.push_back(context[i]);
  std::string equation = context.textAttr("equation", "");
  return {at::einsum(equation, operands)};
}

} // namespace offload::rt
