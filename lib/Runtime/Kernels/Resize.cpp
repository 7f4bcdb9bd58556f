// Resize: nearest, linear and cubic, over any dimensions.
//
// In:  an operand, and scales or sizes as launch operands.
// Out: contiguous.
// How: each axis has its own table of source indices and weights, in float as
//      ONNX Runtime does it, so that ties of `nearest` fall the same way.
//      Nearest is one copy by tables. Linear and cubic go axis by axis, in
//      float, each pass into scratch but the last.

#include "AxisMap.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace offload::rt {

namespace {

/// One axis of a resize.
struct ResizedAxis {
  int64_t input = 1, output = 1;
  float scale = 1;
  bool isIdentity() const { return input == output && scale == 1; }
};

Dims axesOf(const KernelContext &context, int64_t rank) {
  Dims axes;
  if (const Dims *given = context.intsAttr("axes"))
    for (int64_t axis : *given)
      axes.push_back(wrapAxis(axis, rank));
  else
    for (int64_t axis = 0; axis < rank; ++axis)
      axes.push_back(axis);
  return axes;
}

/// Sizes under keep_aspect_ratio_policy: one scale for all axes.
void keepAspect(std::vector<ResizedAxis> &all, const Dims &axes,
                const Dims &sizes, bool larger) {
  float scale = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    float one =
        static_cast<float>(sizes[i]) / static_cast<float>(all[axes[i]].input);
    scale = i == 0 ? one : larger ? std::max(scale, one) : std::min(scale, one);
  }
  for (int64_t axis : axes) {
    all[axis].scale = scale;
    all[axis].output = static_cast<int64_t>(
        std::round(scale * static_cast<float>(all[axis].input)));
  }
}

std::vector<ResizedAxis> axesResized(const KernelContext &context) {
  const Dims &input = context.dims(0);
  std::vector<ResizedAxis> all(input.size());
  for (size_t i = 0; i < input.size(); ++i)
    all[i].input = all[i].output = input[i];
  Dims axes = axesOf(context, static_cast<int64_t>(input.size()));
  const HostValue *scales = context.launch(2);
  std::optional<Dims> sizes = context.launchInts(3);
  std::string policy = context.textAttr("keep_aspect_ratio_policy", "stretch");
  if (sizes && sizes->size() == axes.size() && policy != "stretch") {
    keepAspect(all, axes, *sizes, policy == "not_smaller");
  } else if (sizes && sizes->size() == axes.size()) {
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizedAxis &axis = all[axes[i]];
      axis.output = (*sizes)[i];
      axis.scale =
          static_cast<float>(axis.output) / static_cast<float>(axis.input);
    }
  } else if (scales && scales->reals.size() == axes.size()) {
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizedAxis &axis = all[axes[i]];
      axis.scale = static_cast<float>(scales->reals[i]);
      axis.output = static_cast<int64_t>(
          std::floor(static_cast<float>(axis.input) * axis.scale));
    }
  } else {
    throw Error("neither scales nor sizes has one number for each axis");
  }
  return all;
}

float sourceCoordinate(const ResizedAxis &axis, int64_t position,
                       const std::string &mode) {
  auto x = static_cast<float>(position);
  auto input = static_cast<float>(axis.input);
  auto output = static_cast<float>(axis.output);
  if (mode == "asymmetric")
    return x / axis.scale;
  if (mode == "align_corners")
    return axis.output == 1 ? 0 : x * (input - 1) / (output - 1);
  if (mode == "pytorch_half_pixel")
    return axis.output > 1 ? (x + 0.5f) / axis.scale - 0.5f : 0;
  if (mode == "tf_half_pixel_for_nn")
    return (x + 0.5f) / axis.scale;
  float centre = (x + 0.5f) / axis.scale - 0.5f;
  if (mode == "half_pixel_symmetric") {
    float adjustment = output / (axis.scale * input);
    float middle = input / 2;
    return middle * (1 - adjustment) + centre;
  }
  return centre; // half_pixel
}

int64_t nearestIndex(float x, const std::string &mode) {
  if (mode == "floor")
    return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil")
    return static_cast<int64_t>(std::ceil(x));
  bool tie = x == std::floor(x) + 0.5f;
  if (tie)
    return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::ceil(x)
                                                            : std::floor(x));
  return static_cast<int64_t>(std::round(x));
}

/// For each position of an axis, `taps` source indices and their weights.
struct Taps {
  int64_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<float> weights;
};

Taps linearTaps(const ResizedAxis &axis, const std::string &mode) {
  Taps taps{2, {}, {}};
  for (int64_t i = 0; i < axis.output; ++i) {
    float x = sourceCoordinate(axis, i, mode);
    x = std::clamp(x, 0.0f, static_cast<float>(axis.input - 1));
    auto low = static_cast<int64_t>(x);
    int64_t high = std::min(low + 1, axis.input - 1);
    float part = low == high ? 0.0f : x - static_cast<float>(low);
    taps.indices.insert(taps.indices.end(), {low, high});
    taps.weights.insert(taps.weights.end(), {1 - part, part});
  }
  return taps;
}

/// Keys' kernel at distance `d` from the source position.
float cubicWeight(float d, float a) {
  d = std::fabs(d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Taps cubicTaps(const ResizedAxis &axis, const std::string &mode, float a,
               bool excludeOutside) {
  Taps taps{4, {}, {}};
  for (int64_t i = 0; i < axis.output; ++i) {
    float x = sourceCoordinate(axis, i, mode);
    auto base = static_cast<int64_t>(std::floor(x));
    float part = x - static_cast<float>(base), sum = 0;
    std::vector<float> weights;
    for (int64_t k = -1; k <= 2; ++k) {
      bool outside = base + k < 0 || base + k >= axis.input;
      float weight = excludeOutside && outside
                         ? 0
                         : cubicWeight(part - static_cast<float>(k), a);
      weights.push_back(weight);
      sum += weight;
      taps.indices.push_back(std::clamp<int64_t>(base + k, 0, axis.input - 1));
    }
    for (float weight : weights)
      taps.weights.push_back(excludeOutside ? weight / sum : weight);
  }
  return taps;
}

/// One pass: `from` [outer, input, inner] to `to` [outer, output, inner].
template <typename From, typename To>
void interpolate(const From *from, To *to, int64_t outer, int64_t inner,
                 const ResizedAxis &axis, const Taps &taps) {
  using C = std::conditional_t<std::is_same_v<To, double>, double, float>;
  at::parallel_for(
      0, outer * axis.output, 1 + 4096 / (inner + 1),
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          int64_t position = row % axis.output;
          const From *plane = from + row / axis.output * axis.input * inner;
          for (int64_t i = 0; i < inner; ++i) {
            C sum = 0;
            for (int64_t k = 0; k < taps.taps; ++k) {
              int64_t tap = position * taps.taps + k;
              sum += static_cast<C>(taps.weights[tap]) *
                     static_cast<C>(plane[taps.indices[tap] * inner + i]);
            }
            to[row * inner + i] = static_cast<To>(sum);
          }
        }
      });
}

/// The same pass by ATen: each tap is one selection along the axis, added up in
/// the type that the taps' products have.
at::Tensor interpolateOnDevice(at::Tensor &out, const at::Tensor &x,
                               int64_t dim, const Taps &taps) {
  auto count = static_cast<int64_t>(taps.indices.size()) / taps.taps;
  at::Tensor indices = tableOnDevice(taps.indices).view({count, taps.taps});
  at::Tensor weights = makeEmpty({count, taps.taps}, at::kFloat);
  weights.copy_(at::from_blob(const_cast<float *>(taps.weights.data()),
                              {count, taps.taps}, at::kFloat),
                true);
  at::ScalarType type =
      x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Dims shape(x.dim(), 1);
  shape[dim] = count;
  at::Tensor sum;
  for (int64_t k = 0; k < taps.taps; ++k) {
    at::Tensor term = x.index_select(dim, indices.select(1, k).contiguous());
    term = at::mul(term.to(type), weights.select(1, k).to(type).reshape(shape));
    sum = sum.defined() ? sum.add_(term) : term;
  }
  return out.copy_(sum);
}

at::Tensor passAlong(const at::Tensor &x, int64_t dim, const ResizedAxis &axis,
                     const Taps &taps, at::ScalarType outType) {
  Dims dims = x.sizes().vec();
  dims[dim] = axis.output;
  at::Tensor out = makeEmpty(dims, outType);
  if (usesDeviceForms())
    return interpolateOnDevice(out, x, dim, taps);
  dispatchFloat(x.scalar_type(), [&](auto *fromTag) {
    using From = std::remove_pointer_t<decltype(fromTag)>;
    dispatchFloat(outType, [&](auto *toTag) {
      using To = std::remove_pointer_t<decltype(toTag)>;
      interpolate(x.const_data_ptr<From>(), out.data_ptr<To>(),
                  product(dims, 0, dim), product(dims, dim + 1, dims.size()),
                  axis, taps);
    });
  });
  return out;
}

at::Tensor resizeNearest(const KernelContext &context, const at::Tensor &x,
                         const std::vector<ResizedAxis> &axes,
                         const std::string &coordinates) {
  std::string rounding = context.textAttr("nearest_mode", "round_prefer_floor");
  AxisMap map = identityMap(x);
  for (size_t dim = 0; dim < axes.size(); ++dim) {
    const ResizedAxis &axis = axes[dim];
    if (axis.isIdentity())
      continue;
    map[dim].resize(axis.output);
    for (int64_t i = 0; i < axis.output; ++i)
      map[dim][i] = std::clamp<int64_t>(
          nearestIndex(sourceCoordinate(axis, i, coordinates), rounding), 0,
          axis.input - 1);
  }
  return takeByAxis(x, map);
}

} // namespace

OFFLOAD_KERNEL(Resize) {
  at::Tensor x = context.contiguous(0);
  std::vector<ResizedAxis> axes = axesResized(context);
  std::string mode = context.textAttr("mode", "nearest");
  std::string coordinates =
      context.textAttr("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest")
    return {resizeNearest(context, x, axes, coordinates)};
  float a = context.floatAttr("cubic_coeff_a", -0.75f);
  bool excludeOutside = context.intAttr("exclude_outside", 0);
  Dims changed;
  for (size_t dim = 0; dim < axes.size(); ++dim)
    if (!axes[dim].isIdentity())
      changed.push_back(static_cast<int64_t>(dim));
  at::ScalarType type = x.scalar_type();
  at::ScalarType between = type == at::kDouble ? at::kDouble : at::kFloat;
  for (int64_t dim : changed) {
    const ResizedAxis &axis = axes[dim];
    Taps taps = mode == "linear"
                    ? linearTaps(axis, coordinates)
                    : cubicTaps(axis, coordinates, a, excludeOutside);
    x = passAlong(x, dim, axis, taps, dim == changed.back() ? type : between);
  }
  return {x};
}

} // namespace offload::rt
