// Pooling over one to three dimensions, and over all of them.
//
// In:  input [N, C, ...].
// Out: contiguous [N, C, positions...]; no scratch.
// How: own loops, a plane at a time: ATen has neither pads that differ at the
//      two ends nor pads over half of the window. The largest element of equal
//      ones is the first; sums run in the order of the window.

#include "Reduction.h"
#include "Window.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

namespace offload::rt {

namespace {

/// Steps of the window along dimension `i` that fall on the input.
struct Steps {
  int64_t start, first, last; // of the window; [first, last) in steps
};

Steps stepsAt(const Geometry &g, size_t i, int64_t position) {
  int64_t start = position * g.strides[i] - g.begin[i];
  int64_t dilation = g.dilations[i];
  int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
  int64_t room = g.input[i] - start;
  int64_t last = room <= 0 ? 0 : (room + dilation - 1) / dilation;
  return {start, first, std::min(last, g.kernel[i])};
}

/// Calls `visit(offset in the plane)` for the window's elements in order.
template <typename Visit>
void visitWindow(const Geometry &g,
                 const std::array<Steps, kMaxSpatialRank> &steps,
                 const Visit &visit) {
  for (int64_t d = steps[0].first; d < steps[0].last; ++d) {
    int64_t plane = (steps[0].start + d * g.dilations[0]) * g.input[1];
    for (int64_t h = steps[1].first; h < steps[1].last; ++h) {
      int64_t row = (plane + steps[1].start + h * g.dilations[1]) * g.input[2];
      for (int64_t w = steps[2].first; w < steps[2].last; ++w)
        visit(row + steps[2].start + w * g.dilations[2]);
    }
  }
}

/// Calls `body(position, steps)` for all positions of a plane.
template <typename Body>
void visitPositions(const Geometry &g, const Body &body) {
  int64_t position = 0;
  for (int64_t d = 0; d < g.output[0]; ++d) {
    Steps depth = stepsAt(g, 0, d);
    for (int64_t h = 0; h < g.output[1]; ++h) {
      Steps height = stepsAt(g, 1, h);
      for (int64_t w = 0; w < g.output[2]; ++w)
        body(position++, std::array<Steps, kMaxSpatialRank>{depth, height,
                                                            stepsAt(g, 2, w)});
    }
  }
}

template <typename T>
void largest(const Geometry &g, int64_t planes, const T *from, T *to,
             int64_t *indices, bool columnMajor) {
  auto indexOf = [&](int64_t plane, int64_t offset) {
    int64_t base = plane * g.inputElements();
    if (!columnMajor)
      return base + offset;
    int64_t w = offset % g.input[2], h = offset / g.input[2] % g.input[1];
    int64_t d = offset / g.input[2] / g.input[1];
    return base + (w * g.input[1] + h) * g.input[0] + d;
  };
  at::parallel_for(0, planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const T *source = from + plane * g.inputElements();
      visitPositions(g, [&](int64_t position, const auto &steps) {
        int64_t best = -1;
        float most = -std::numeric_limits<float>::infinity();
        double exact = -std::numeric_limits<double>::infinity();
        visitWindow(g, steps, [&](int64_t offset) {
          if constexpr (std::is_same_v<T, double>) {
            if (best < 0 || source[offset] > exact ||
                std::isnan(source[offset]))
              exact = source[offset], best = offset;
          } else {
            float value = static_cast<float>(source[offset]);
            if (best < 0 || value > most || std::isnan(value))
              most = value, best = offset;
          }
        });
        int64_t at = plane * g.outputElements() + position;
        to[at] = best < 0 ? static_cast<T>(most) : source[best];
        if (indices)
          indices[at] = indexOf(plane, std::max<int64_t>(best, 0));
      });
    }
  });
}

/// Elements of the window that lie on the input or its pads.
int64_t paddedCount(const Geometry &g,
                    const std::array<Steps, kMaxSpatialRank> &s) {
  int64_t count = 1;
  for (size_t i = 0; i < kMaxSpatialRank; ++i) {
    int64_t room = g.input[i] + g.end[i] - s[i].start;
    int64_t steps = (room + g.dilations[i] - 1) / g.dilations[i];
    count *= std::min(steps, g.kernel[i]);
  }
  return count;
}

template <typename T>
void average(const Geometry &g, int64_t planes, const T *from, T *to,
             bool countPads) {
  at::parallel_for(0, planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const T *source = from + plane * g.inputElements();
      visitPositions(g, [&](int64_t position, const auto &steps) {
        ComputeType<T> sum = 0;
        int64_t count = 0;
        visitWindow(g, steps, [&](int64_t offset) {
          sum += static_cast<ComputeType<T>>(source[offset]);
          ++count;
        });
        if (countPads)
          count = paddedCount(g, steps);
        to[plane * g.outputElements() + position] = static_cast<T>(
            sum / static_cast<ComputeType<T>>(std::max<int64_t>(count, 1)));
      });
    }
  });
}

struct Pooling {
  at::Tensor input, output;
  Geometry geometry;
  int64_t planes;
};

Pooling poolingOf(const KernelContext &context) {
  const Dims *kernel = context.intsAttr("kernel_shape");
  if (!kernel)
    throw Error("kernel_shape is missing");
  at::Tensor x = context.contiguous(0);
  Dims spatial = x.sizes().slice(2).vec();
  Window window = windowOf(context, spatial, *kernel);
  std::string automatic = context.textAttr("auto_pad", "NOTSET");
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  Dims positions = windowPositions(window, spatial,
                                   !same && context.intAttr("ceil_mode", 0));
  Dims dims = {x.size(0), x.size(1)};
  dims.insert(dims.end(), positions.begin(), positions.end());
  return {x, makeEmpty(dims, x.scalar_type()),
          geometryOf(window, spatial, positions), x.size(0) * x.size(1)};
}

Dims spatialAxes(const at::Tensor &x) {
  Dims axes;
  for (int64_t i = 2; i < x.dim(); ++i)
    axes.push_back(i);
  return axes;
}

} // namespace

OFFLOAD_KERNEL(MaxPool) {
  Pooling pooling = poolingOf(context);
  KernelOutputs outputs = {pooling.output};
  int64_t *indices = nullptr;
  if (context.numOutputs() > 1) {
    outputs.push_back(makeEmpty(pooling.output.sizes(), at::kLong));
    indices = outputs[1].tensor.data_ptr<int64_t>();
  }
  dispatchFloat(pooling.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    largest(pooling.geometry, pooling.planes, pooling.input.const_data_ptr<T>(),
            pooling.output.data_ptr<T>(), indices,
            context.intAttr("storage_order", 0) != 0);
  });
  return outputs;
}

OFFLOAD_KERNEL(AveragePool) {
  Pooling pooling = poolingOf(context);
  dispatchFloat(pooling.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    average(pooling.geometry, pooling.planes, pooling.input.const_data_ptr<T>(),
            pooling.output.data_ptr<T>(),
            context.intAttr("count_include_pad", 0) != 0);
  });
  return {pooling.output};
}

OFFLOAD_KERNEL(GlobalAveragePool) {
  at::Tensor x = context[0];
  if (x.dim() <= 2)
    return {x};
  return {sumOver(x, spatialAxes(x), true, true)};
}

OFFLOAD_KERNEL(GlobalMaxPool) {
  at::Tensor x = context[0];
  if (x.dim() <= 2)
    return {x};
  return {at::amax(x, spatialAxes(x), true)};
}

} // namespace offload::rt
