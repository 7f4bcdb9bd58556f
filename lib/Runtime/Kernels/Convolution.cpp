// Convolution and its transpose, over one to three dimensions.
//
// In:  input [N, C, ...], weight, an optional bias.
// Out: contiguous [N, M, ...], in one request; no scratch.
// How: as matrix products (BLAS) over a tile of positions: the elements that
//      the tile's windows see are laid out as a matrix of at most
//      kTileElements, in a vector of the host. oneDNN would copy input, weight
//      and output into layouts of its own, whose sizes depend on the CPU and so
//      can be in no plan. Few weights a group (depthwise) are applied directly,
//      a row of the output at a time. 16-bit types are computed in float.

#include "Window.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

namespace offload::rt {

namespace {

constexpr int64_t kTileElements = 1 << 18;
constexpr int64_t kLeastTile = 64;
/// Weights of one group of outputs up to which no matrix is made.
constexpr int64_t kFewWeights = 64;

/// One convolution, its sizes for each group.
struct Convolution {
  at::Tensor input, weight, bias;
  Geometry geometry;
  int64_t batch, groups;
  int64_t inputs, outputs; // channels of a group
  at::Tensor result;

  /// Elements of the input that one output element reads.
  int64_t rows() const { return inputs * geometry.kernelElements(); }
};

/// A bias in the compute type; zeros where there is none.
template <typename C> std::vector<C> biasOf(const Convolution &convolution) {
  std::vector<C> bias(convolution.groups * convolution.outputs, C(0));
  if (convolution.bias.defined() && !bias.empty())
    at::from_blob(bias.data(), {static_cast<int64_t>(bias.size())},
                  c10::CppTypeToScalarType<C>::value)
        .copy_(convolution.bias);
  return bias;
}

/// Values of a tensor in the compute type: its own memory where it has it.
template <typename C> class Values {
public:
  explicit Values(const at::Tensor &tensor) {
    auto type = c10::CppTypeToScalarType<C>::value;
    if (tensor.scalar_type() == type) {
      values = tensor.const_data_ptr<C>();
      return;
    }
    converted.resize(tensor.numel());
    at::from_blob(converted.data(), tensor.sizes(), type).copy_(tensor);
    values = converted.data();
  }
  const C *data() const { return values; }

private:
  std::vector<C> converted;
  const C *values;
};

/// What a row of the tile's matrix reads: one channel, one step of the window.
struct TileRow {
  int64_t channel;
  Coordinates step;
};

TileRow tileRow(const Geometry &g, int64_t row) {
  int64_t w = row % g.kernel[2];
  int64_t h = row / g.kernel[2] % g.kernel[1];
  int64_t d = row / (g.kernel[2] * g.kernel[1]) % g.kernel[0];
  return {row / g.kernelElements(), {d, h, w}};
}

/// Output positions [first, last) of one output row that fall on the input.
struct Segment {
  int64_t first, last;
  int64_t source; // input offset of position 0, may lie outside
};

/// For output row (depth, height) and a step: nothing where the row is padding.
std::optional<Segment> segmentOf(const Geometry &g, int64_t depth,
                                 int64_t height, const Coordinates &step) {
  int64_t d = g.inputAt(0, depth, step[0]), h = g.inputAt(1, height, step[1]);
  if (d < 0 || d >= g.input[0] || h < 0 || h >= g.input[1])
    return std::nullopt;
  int64_t stride = g.strides[2], start = g.inputAt(2, 0, step[2]);
  int64_t first = start < 0 ? (-start + stride - 1) / stride : 0;
  int64_t room = g.input[2] - start;
  int64_t last = room <= 0 ? 0 : (room + stride - 1) / stride;
  last = std::min(last, g.output[2]);
  return Segment{std::min(first, last), last,
                 (d * g.input[1] + h) * g.input[2] + start};
}

/// Lays out what positions [begin, end) see at one row of the matrix.
template <typename T, typename C>
void fillTileRow(const Geometry &g, const T *plane, const Coordinates &step,
                 int64_t begin, int64_t end, C *to) {
  int64_t width = g.output[2], stride = g.strides[2];
  for (int64_t position = begin; position < end;) {
    int64_t line = position / width, w = position % width;
    int64_t count = std::min(width - w, end - position);
    std::optional<Segment> segment =
        segmentOf(g, line / g.output[1], line % g.output[1], step);
    int64_t first =
        segment ? std::clamp(segment->first - w, int64_t(0), count) : count;
    int64_t last =
        segment ? std::clamp(segment->last - w, first, count) : count;
    std::fill(to, to + first, C(0));
    for (int64_t i = first; i < last; ++i)
      to[i] = static_cast<C>(plane[segment->source + (w + i) * stride]);
    std::fill(to + last, to + count, C(0));
    to += count;
    position += count;
  }
}

template <typename C>
at::Tensor matrixAt(const C *data, int64_t rows, int64_t columns,
                    int64_t rowStride) {
  return at::from_blob(const_cast<C *>(data), {rows, columns}, {rowStride, 1},
                       c10::CppTypeToScalarType<C>::value);
}

int64_t tilePositions(int64_t rows, int64_t positions) {
  int64_t tile =
      std::max(kTileElements / std::max<int64_t>(rows, 1), kLeastTile);
  return std::min(tile, std::max<int64_t>(positions, 1));
}

/// Writes a tile's products, bias added, in the output's type.
template <typename T, typename C>
void storeTile(const C *from, int64_t tile, T *to, int64_t stride,
               int64_t count, int64_t channels, const C *bias) {
  for (int64_t m = 0; m < channels; ++m)
    for (int64_t i = 0; i < count; ++i)
      to[m * stride + i] = static_cast<T>(from[m * tile + i] + bias[m]);
}

template <typename T> void convolveByTiles(const Convolution &convolution) {
  using C = ComputeType<T>;
  const Geometry &g = convolution.geometry;
  int64_t rows = convolution.rows(), positions = g.outputElements();
  int64_t tile = tilePositions(rows, positions);
  std::vector<C> matrix(rows * tile), products(convolution.outputs * tile);
  std::vector<C> bias = biasOf<C>(convolution);
  Values<C> weight(convolution.weight);
  const T *from = convolution.input.const_data_ptr<T>();
  T *to = convolution.result.data_ptr<T>();
  for (int64_t i = 0; i < convolution.batch * convolution.groups; ++i) {
    int64_t group = i % convolution.groups;
    const T *planes = from + i * convolution.inputs * g.inputElements();
    T *out = to + i * convolution.outputs * positions;
    at::Tensor weights =
        matrixAt(weight.data() + group * convolution.outputs * rows,
                 convolution.outputs, rows, rows);
    for (int64_t first = 0; first < positions; first += tile) {
      int64_t count = std::min(tile, positions - first);
      at::parallel_for(0, rows, 1 + 8192 / count, [&](int64_t b, int64_t e) {
        for (int64_t row = b; row < e; ++row) {
          TileRow where = tileRow(g, row);
          fillTileRow(g, planes + where.channel * g.inputElements(), where.step,
                      first, first + count, matrix.data() + row * tile);
        }
      });
      at::Tensor product =
          matrixAt(products.data(), convolution.outputs, count, tile);
      at::mm_out(product, weights, matrixAt(matrix.data(), rows, count, tile));
      storeTile(products.data(), tile, out + first, positions, count,
                convolution.outputs, bias.data() + group * convolution.outputs);
    }
  }
}

/// One output channel, a row at a time, without a matrix.
template <typename T, typename C>
void convolveChannel(const Geometry &g, const T *planes, const C *weights,
                     int64_t rows, C bias, T *to) {
  std::vector<C> sums(g.output[2]);
  for (int64_t line = 0; line < g.output[0] * g.output[1]; ++line) {
    std::fill(sums.begin(), sums.end(), bias);
    for (int64_t row = 0; row < rows; ++row) {
      TileRow where = tileRow(g, row);
      std::optional<Segment> segment =
          segmentOf(g, line / g.output[1], line % g.output[1], where.step);
      if (!segment)
        continue;
      const T *source = planes + where.channel * g.inputElements();
      for (int64_t w = segment->first; w < segment->last; ++w)
        sums[w] += weights[row] *
                   static_cast<C>(source[segment->source + w * g.strides[2]]);
    }
    for (C sum : sums)
      *to++ = static_cast<T>(sum);
  }
}

template <typename T> void convolveDirectly(const Convolution &convolution) {
  using C = ComputeType<T>;
  const Geometry &g = convolution.geometry;
  std::vector<C> bias = biasOf<C>(convolution);
  Values<C> weight(convolution.weight);
  const T *from = convolution.input.const_data_ptr<T>();
  T *to = convolution.result.data_ptr<T>();
  int64_t channels = convolution.groups * convolution.outputs;
  int64_t rows = convolution.rows();
  at::parallel_for(
      0, convolution.batch * channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          convolveChannel(g,
                          from + i / convolution.outputs * convolution.inputs *
                                     g.inputElements(),
                          weight.data() + i % channels * rows, rows,
                          bias[i % channels], to + i * g.outputElements());
      });
}

/// Adds what each input position of a tile spreads over one output plane.
template <typename C>
void spreadTile(const Geometry &g, const C *products, int64_t tile,
                int64_t begin, int64_t end, C *plane) {
  for (int64_t row = 0; row < g.kernelElements(); ++row) {
    Coordinates step = tileRow(g, row).step;
    for (int64_t position = begin; position < end; ++position) {
      // The transpose's geometry is that of the convolution it undoes: its
      // output positions are the transpose's input.
      int64_t w = position % g.output[2], line = position / g.output[2];
      int64_t d = g.inputAt(0, line / g.output[1], step[0]);
      int64_t h = g.inputAt(1, line % g.output[1], step[1]);
      int64_t x = g.inputAt(2, w, step[2]);
      if (d >= 0 && d < g.input[0] && h >= 0 && h < g.input[1] && x >= 0 &&
          x < g.input[2])
        plane[(d * g.input[1] + h) * g.input[2] + x] +=
            products[row * tile + position - begin];
    }
  }
}

/// `inputs` and `outputs` are those of the transpose.
template <typename T> void convolveTransposed(const Convolution &convolution) {
  using C = ComputeType<T>;
  const Geometry &g = convolution.geometry;
  int64_t positions = g.outputElements(), plane = g.inputElements();
  int64_t rows = convolution.outputs * g.kernelElements();
  int64_t tile = tilePositions(rows, positions);
  std::vector<C> products(rows * tile), sums(convolution.outputs * plane);
  std::vector<C> bias = biasOf<C>(convolution);
  Values<C> weight(convolution.weight), input(convolution.input);
  T *to = convolution.result.data_ptr<T>();
  for (int64_t i = 0; i < convolution.batch * convolution.groups; ++i) {
    int64_t group = i % convolution.groups;
    at::Tensor weights =
        matrixAt(weight.data() + group * convolution.inputs * rows,
                 convolution.inputs, rows, rows);
    for (int64_t m = 0; m < convolution.outputs; ++m)
      std::fill_n(sums.begin() + m * plane, plane,
                  bias[group * convolution.outputs + m]);
    for (int64_t first = 0; first < positions; first += tile) {
      int64_t count = std::min(tile, positions - first);
      at::Tensor product = matrixAt(products.data(), rows, count, tile);
      at::mm_out(
          product, weights.t(),
          matrixAt(input.data() + i * convolution.inputs * positions + first,
                   convolution.inputs, count, positions));
      at::parallel_for(
          0, convolution.outputs, 1, [&](int64_t begin, int64_t end) {
            for (int64_t m = begin; m < end; ++m)
              spreadTile(g, products.data() + m * g.kernelElements() * tile,
                         tile, first, first + count, sums.data() + m * plane);
          });
    }
    std::transform(sums.begin(), sums.end(),
                   to + i * convolution.outputs * plane,
                   [](C sum) { return static_cast<T>(sum); });
  }
}

Convolution operandsOf(const KernelContext &context) {
  Convolution convolution;
  convolution.input = context.contiguous(0);
  convolution.weight = context.contiguous(1);
  convolution.bias = context.optionalOperand(2);
  convolution.groups = context.intAttr("group", 1);
  convolution.batch = convolution.input.size(0);
  if (convolution.input.size(1) % convolution.groups != 0)
    throw Error("group=" + std::to_string(convolution.groups) +
                " does not divide " +
                std::to_string(convolution.input.size(1)) + " channels");
  convolution.inputs = convolution.input.size(1) / convolution.groups;
  return convolution;
}

at::Tensor resultOf(const Convolution &convolution, const Dims &spatial) {
  Dims dims = {convolution.batch, convolution.groups * convolution.outputs};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return makeEmpty(dims, convolution.input.scalar_type());
}

/// Pads of the transpose for the output size that is asked for.
void padToShape(Window &window, const Dims &full, const Dims &shape,
                bool extraAtEnd) {
  for (size_t i = 0; i < window.rank(); ++i) {
    int64_t pad = std::max<int64_t>(full[i] - shape[i], 0);
    window.padsBegin[i] = extraAtEnd ? pad / 2 : pad - pad / 2;
    window.padsEnd[i] = pad - window.padsBegin[i];
  }
}

} // namespace

Dims transposedSizes(const KernelContext &context, Window &window,
                     at::IntArrayRef input) {
  size_t rank = window.rank();
  const Dims *padding = context.intsAttr("output_padding");
  Dims full(rank);
  for (size_t i = 0; i < rank; ++i)
    full[i] = (input[i] - 1) * window.strides[i] + window.span(i) +
              (padding ? padding->at(i) : 0);
  std::string automatic = context.textAttr("auto_pad", "NOTSET");
  Dims shape;
  if (const Dims *given = context.intsAttr("output_shape"))
    shape.assign(given->end() - static_cast<int64_t>(rank), given->end());
  else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    for (size_t i = 0; i < rank; ++i)
      shape.push_back(input[i] * window.strides[i]);
  if (!shape.empty()) {
    padToShape(window, full, shape, automatic == "SAME_UPPER");
    return shape;
  }
  for (size_t i = 0; i < rank; ++i)
    full[i] -= window.padsBegin[i] + window.padsEnd[i];
  return full;
}

OFFLOAD_KERNEL(Conv) {
  Convolution convolution = operandsOf(context);
  at::IntArrayRef spatial = convolution.input.sizes().slice(2);
  Window window =
      windowOf(context, spatial, convolution.weight.sizes().slice(2));
  Dims positions = windowPositions(window, spatial, false);
  convolution.outputs = convolution.weight.size(0) / convolution.groups;
  if (convolution.weight.size(1) != convolution.inputs)
    throw Error("the weight is for " +
                std::to_string(convolution.weight.size(1)) +
                " channels a group, the input has " +
                std::to_string(convolution.inputs));
  convolution.geometry = geometryOf(window, spatial.vec(), positions);
  convolution.result = resultOf(convolution, positions);
  dispatchFloat(convolution.input.scalar_type(), [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    if (convolution.rows() * convolution.outputs <= kFewWeights)
      convolveDirectly<T>(convolution);
    else
      convolveByTiles<T>(convolution);
  });
  return {convolution.result};
}

OFFLOAD_KERNEL(ConvTranspose) {
  Convolution convolution = operandsOf(context);
  at::IntArrayRef spatial = convolution.input.sizes().slice(2);
  Window window =
      windowOf(context, spatial, convolution.weight.sizes().slice(2));
  Dims sizes = transposedSizes(context, window, spatial);
  convolution.outputs = convolution.weight.size(1);
  if (convolution.weight.size(0) != convolution.input.size(1))
    throw Error("the weight is for " +
                std::to_string(convolution.weight.size(0)) +
                " channels, the input has " +
                std::to_string(convolution.input.size(1)));
  convolution.geometry = geometryOf(window, sizes, spatial.vec());
  convolution.result = resultOf(convolution, sizes);
  dispatchFloat(convolution.input.scalar_type(), [&](auto *tag) {
    convolveTransposed<std::remove_pointer_t<decltype(tag)>>(convolution);
  });
  return {convolution.result};
}

} // namespace offload::rt
