// Quantization to 8- and 4-bit integers, and back.
//
// In:  elements, a scale and an optional zero point: one value for the tensor,
//      one for each index of an axis, or one for each block of an axis.
// Out: (q - zero) * scale in the type asked for, or round(x / scale) + zero,
//      rounded half to even and cut to the range of its type.
// How: own loops over stretches of elements that share a scale, or have one
//      each in a row, computed in float; no scratch. 4-bit elements are two a
//      byte, the first in the low half, with no gap between rows.

#include "Kernel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace offload::rt {

namespace {

/// Which scale and zero point belong to an element.
struct Groups {
  int64_t axisSize = 1, inner = 1; // of the data
  int64_t block = 0;               // elements of the axis that share one; 0: no
                                   // blocks
  bool whole = true;               // one for the tensor

  /// Elements from one on whose groups are `group`, or `group` and those that
  /// follow it.
  struct Stretch {
    int64_t group, length;
    bool follow;
  };
  Stretch stretchAt(int64_t element) const {
    if (whole)
      return {0, INT64_MAX, false};
    int64_t line = element / inner, within = element % inner;
    int64_t along = line % axisSize;
    if (block == 0)
      return inner == 1 ? Stretch{along, axisSize - along, true}
                        : Stretch{along, inner - within, false};
    int64_t blocks = (axisSize + block - 1) / block;
    int64_t group = (line / axisSize * blocks + along / block) * inner + within;
    if (inner > 1)
      return {group, inner - within, true};
    int64_t blockEnd = along / block * block + block;
    return {group, std::min(axisSize, blockEnd) - along, false};
  }

  /// Calls `body` with each element and its group.
  template <typename Body>
  void forEach(int64_t begin, int64_t end, const Body &body) const {
    while (begin < end) {
      Stretch stretch = stretchAt(begin);
      int64_t last = begin + std::min(stretch.length, end - begin);
      if (stretch.follow)
        for (int64_t group = stretch.group; begin < last; ++begin, ++group)
          body(begin, group);
      else
        for (; begin < last; ++begin)
          body(begin, stretch.group);
    }
  }
};

Groups groupsOf(const KernelContext &context) {
  Groups groups;
  const Dims &data = context.dims(0), &scale = context.dims(1);
  groups.block = context.intAttr("block_size", 0);
  if (product(scale, 0, scale.size()) == 1 && groups.block == 0)
    return groups;
  int64_t axis =
      wrapAxis(context.intAttr("axis", 1), static_cast<int64_t>(data.size()));
  groups.whole = false;
  groups.axisSize = data[axis];
  groups.inner = product(data, axis + 1, data.size());
  int64_t blocks = groups.block
                       ? (groups.axisSize + groups.block - 1) / groups.block
                       : groups.axisSize;
  int64_t expected = groups.block
                         ? product(data, 0, axis) * blocks * groups.inner
                         : groups.axisSize;
  if (product(scale, 0, scale.size()) != expected)
    throw Error("the scale has " +
                std::to_string(product(scale, 0, scale.size())) +
                " values, not " + std::to_string(expected));
  return groups;
}

/// Reads integers of 8 bits and more.
template <typename T> struct WholeReader {
  int32_t operator[](int64_t i) const { return data[i]; }
  const T *data;
};

/// Reads integers of 4 bits.
template <bool isSigned> struct HalfReader {
  int32_t operator[](int64_t i) const {
    int32_t bits = data[i / 2] >> (i % 2 * 4) & 15;
    return isSigned ? (bits ^ 8) - 8 : bits;
  }
  const uint8_t *data;
};

/// Calls `body` with what makes a reader of the type out of an address.
template <typename Body> void dispatchInteger(DataType type, const Body &body) {
  auto whole = [&](auto *tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    body([](const void *data) {
      return WholeReader<T>{static_cast<const T *>(data)};
    });
  };
  auto half = [&](auto isSigned) {
    body([](const void *data) {
      return HalfReader<decltype(isSigned)::value>{
          static_cast<const uint8_t *>(data)};
    });
  };
  switch (type) {
  case DataType::Int8:
    return whole(static_cast<int8_t *>(nullptr));
  case DataType::UInt8:
    return whole(static_cast<uint8_t *>(nullptr));
  case DataType::Int16:
    return whole(static_cast<int16_t *>(nullptr));
  case DataType::UInt16:
    return whole(static_cast<uint16_t *>(nullptr));
  case DataType::Int32:
    return whole(static_cast<int32_t *>(nullptr));
  case DataType::Int4:
    return half(std::true_type());
  case DataType::UInt4:
    return half(std::false_type());
  default:
    throw Error("does not take elements of type " +
                std::string(dataTypeName(type)));
  }
}

/// The least and the largest integer of a quantized type.
std::pair<int32_t, int32_t> rangeOf(DataType type) {
  switch (type) {
  case DataType::Int8:
    return {-128, 127};
  case DataType::UInt8:
    return {0, 255};
  case DataType::Int16:
    return {-32768, 32767};
  case DataType::UInt16:
    return {0, 65535};
  case DataType::Int4:
    return {-8, 7};
  case DataType::UInt4:
    return {0, 15};
  default:
    throw Error("does not make elements of type " +
                std::string(dataTypeName(type)));
  }
}

void writeInteger(void *to, DataType type, int64_t i, int32_t value) {
  if (type == DataType::Int16 || type == DataType::UInt16) {
    static_cast<uint16_t *>(to)[i] = static_cast<uint16_t>(value);
  } else if (elementBits(type) == 4) {
    uint8_t &byte = static_cast<uint8_t *>(to)[i / 2];
    auto bits = static_cast<uint8_t>(value & 15);
    byte = i % 2 ? static_cast<uint8_t>((byte & 15) | bits << 4) : bits;
  } else {
    static_cast<uint8_t *>(to)[i] = static_cast<uint8_t>(value);
  }
}

/// Operands that must lie in C order: 4-bit ones always do.
void requireContiguous(const KernelContext &context, unsigned i) {
  if (context.has(i) && !context[i].is_contiguous())
    throw Error("operand " + std::to_string(i) + " is not contiguous");
}

template <typename To, typename Reader, typename Scale>
void dequantize(const Groups &groups, Reader data, const Reader *zeros,
                const Scale *scale, To *to, int64_t begin, int64_t end) {
  using C = ComputeType<To>;
  auto expand = [&](int64_t i, int64_t group) {
    int32_t q = data[i] - (zeros ? (*zeros)[group] : 0);
    to[i] = static_cast<To>(static_cast<C>(q) * static_cast<C>(scale[group]));
  };
  groups.forEach(begin, end, expand);
}

DataType quantizedType(const KernelContext &context) {
  if (context.has(2))
    return context.type(2);
  int64_t type = context.intAttr("output_dtype", 0);
  return type ? static_cast<DataType>(type) : DataType::UInt8;
}

template <typename From>
void quantize(const KernelContext &context, const Groups &groups,
              const at::Tensor &x, const at::Tensor &scales, DataType type,
              at::Tensor &out) {
  auto [least, most] = rangeOf(type);
  const void *zeros = context.has(2) ? context.view(2).data : nullptr;
  const From *from = x.const_data_ptr<From>();
  void *to = out.mutable_data_ptr();
  dispatchInteger(type, [&](auto readerAt) {
    auto zero = readerAt(zeros);
    dispatchFloat(scales.scalar_type(), [&](auto *tag) {
      using Scale = std::remove_pointer_t<decltype(tag)>;
      const Scale *scale = scales.const_data_ptr<Scale>();
      auto round = [&](int64_t i, int64_t group) {
        float value = std::nearbyint(static_cast<float>(from[i]) /
                                     static_cast<float>(scale[group])) +
                      static_cast<float>(zeros ? zero[group] : 0);
        value = std::clamp(value, static_cast<float>(least),
                           static_cast<float>(most));
        writeInteger(to, type, i, static_cast<int32_t>(value));
      };
      groups.forEach(0, x.numel(), round);
    });
  });
}

} // namespace

OFFLOAD_KERNEL(DequantizeLinear) {
  requireContiguous(context, 0);
  requireContiguous(context, 2);
  at::Tensor scales = context.contiguous(1);
  Groups groups = groupsOf(context);
  int64_t asked = context.intAttr("output_dtype", 0);
  at::ScalarType type = scales.scalar_type();
  if (asked) {
    std::optional<at::ScalarType> given =
        scalarTypeOf(static_cast<DataType>(asked));
    if (!given)
      throw Error("does not make elements of type " +
                  std::string(dataTypeName(static_cast<DataType>(asked))));
    type = *given;
  }
  at::Tensor out = makeEmpty(context.dims(0), type);
  const void *data = context.view(0).data;
  const void *zeros = context.has(2) ? context.view(2).data : nullptr;
  dispatchInteger(context.type(0), [&](auto readerAt) {
    dispatchFloat(scales.scalar_type(), [&](auto *scaleTag) {
      using Scale = std::remove_pointer_t<decltype(scaleTag)>;
      dispatchFloat(type, [&](auto *tag) {
        using To = std::remove_pointer_t<decltype(tag)>;
        at::parallel_for(0, out.numel(), 16384, [&](int64_t from, int64_t end) {
          auto zero = readerAt(zeros);
          dequantize<To>(groups, readerAt(data), zeros ? &zero : nullptr,
                         scales.const_data_ptr<Scale>(), out.data_ptr<To>(),
                         from, end);
        });
      });
    });
  });
  return {out};
}

OFFLOAD_KERNEL(QuantizeLinear) {
  at::Tensor x = context.contiguous(0), scales = context.contiguous(1);
  requireContiguous(context, 2);
  Groups groups = groupsOf(context);
  DataType type = quantizedType(context);
  Dims dims = x.sizes().vec();
  bool packed = elementBits(type) == 4;
  at::Tensor out =
      packed ? makeEmpty({packedBytes(type, x.numel())}, at::kByte)
             : makeEmpty(dims, scalarTypeOf(type).value_or(at::kByte));
  dispatchFloat(x.scalar_type(), [&](auto *tag) {
    using From = std::remove_pointer_t<decltype(tag)>;
    quantize<From>(context, groups, x, scales, type, out);
  });
  if (packed)
    return {{out, type, dims}};
  return {out};
}

} // namespace offload::rt
