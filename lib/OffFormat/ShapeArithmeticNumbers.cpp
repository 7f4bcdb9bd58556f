// Numbers of every element type: rounding, wrapping, casts, bytes.
//
// In:  doubles and 64-bit integers.
// Out: the values that an element type can hold, and their packed bytes.
// How: float kinds differ in two figures only, bits of precision and the
//      exponent's range, so one routine rounds, reads and writes them all. A
//      double holds every value of the smaller kinds exactly, and one rounding
//      of a sum, product, quotient or root made in double is the right one
//      (53 >= 2 * 24 + 2).

#include "ShapeArithmeticParts.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace offload {

using namespace shape;

namespace {

struct FloatKind {
  unsigned fractionBits; // stored bits of the significand
  unsigned exponentBits;
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int smallestExponent() const { return 1 - bias(); }
};

FloatKind floatKind(DataType type) {
  switch (type) {
  case DataType::Float16:
    return {10, 5};
  case DataType::BFloat16:
    return {7, 8};
  case DataType::Float:
    return {23, 8};
  default:
    return {52, 11};
  }
}

/// `value` must be one that the kind can hold.
uint64_t encodeFloat(FloatKind kind, double value) {
  uint64_t sign = uint64_t(std::signbit(value))
                  << (kind.fractionBits + kind.exponentBits);
  uint64_t top = (uint64_t(1) << kind.exponentBits) - 1;
  if (std::isnan(value))
    return sign | top << kind.fractionBits |
           uint64_t(1) << (kind.fractionBits - 1);
  if (std::isinf(value))
    return sign | top << kind.fractionBits;
  if (value == 0)
    return sign;
  int exponent = std::max(std::ilogb(value), kind.smallestExponent());
  auto significand = static_cast<uint64_t>(
      std::ldexp(std::fabs(value), int(kind.fractionBits) - exponent));
  // A subnormal has no leading one, which is the lowest bit of the exponent.
  uint64_t field = uint64_t(exponent + kind.bias() - 1) << kind.fractionBits;
  return sign | (field + significand);
}

double decodeFloat(FloatKind kind, uint64_t bits) {
  uint64_t fraction = bits & ((uint64_t(1) << kind.fractionBits) - 1);
  uint64_t top = (uint64_t(1) << kind.exponentBits) - 1;
  uint64_t field = bits >> kind.fractionBits & top;
  bool negative = bits >> (kind.fractionBits + kind.exponentBits) & 1;
  double value;
  if (field == top)
    value = fraction ? std::numeric_limits<double>::quiet_NaN()
                     : std::numeric_limits<double>::infinity();
  else if (field == 0)
    value = std::ldexp(double(fraction),
                       kind.smallestExponent() - int(kind.fractionBits));
  else
    value = std::ldexp(double(fraction | uint64_t(1) << kind.fractionBits),
                       int(field) - kind.bias() - int(kind.fractionBits));
  return negative ? -value : value;
}

bool isSigned(DataType type) {
  switch (type) {
  case DataType::Int2:
  case DataType::Int4:
  case DataType::Int8:
  case DataType::Int16:
  case DataType::Int32:
  case DataType::Int64:
    return true;
  default:
    return false;
  }
}

double integerToReal(DataType type, int64_t value) {
  return isWide(type) ? double(static_cast<uint64_t>(value)) : double(value);
}

/// Rounds once to float: a 64-bit integer does not fit a double.
float integerToFloat(DataType type, int64_t value) {
  return isWide(type) ? float(static_cast<uint64_t>(value)) : float(value);
}

/// Toward zero. ONNX leaves what does not fit open; this is what the
/// processor's conversion gives, the smallest number.
int64_t realToInteger(DataType type, double value) {
  constexpr double two63 = 9223372036854775808.0;
  if (type == DataType::Bool)
    return value != 0;
  double whole = std::trunc(value);
  if (isWide(type) && whole >= two63 && whole < 2 * two63)
    return static_cast<int64_t>(static_cast<uint64_t>(whole));
  constexpr double two31 = 2147483648.0;
  bool narrow = isSigned(type) && elementBits(type) <= 32;
  double bound = narrow ? two31 : two63;
  if (!(whole >= -bound && whole < bound))
    return narrow ? wrapTo(type, std::numeric_limits<int32_t>::min())
                  : wrapTo(type, std::numeric_limits<int64_t>::min());
  return wrapTo(type, static_cast<int64_t>(whole));
}

uint64_t elementToBits(const HostValue &value, int64_t i) {
  if (value.isReal())
    return encodeFloat(floatKind(value.type), value.reals[i]);
  return static_cast<uint64_t>(value.ints[i]);
}

} // namespace

namespace shape {

double roundTo(DataType type, double value) {
  if (type == DataType::Double || !std::isfinite(value) || value == 0)
    return value;
  if (type == DataType::Float)
    return static_cast<float>(value);
  FloatKind kind = floatKind(type);
  int exponent = std::max(std::ilogb(value), kind.smallestExponent());
  int scale = int(kind.fractionBits) - exponent;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, scale)), -scale);
  double pastLargest = std::ldexp(1.0, kind.bias() + 1);
  if (std::fabs(rounded) >= pastLargest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

bool isInteger(DataType type) {
  switch (type) {
  case DataType::Int8:
  case DataType::UInt8:
  case DataType::Int16:
  case DataType::UInt16:
  case DataType::Int32:
  case DataType::UInt32:
  case DataType::Int64:
  case DataType::UInt64:
  case DataType::Int4:
  case DataType::UInt4:
  case DataType::Int2:
  case DataType::UInt2:
    return true;
  default:
    return false;
  }
}

int64_t wrapTo(DataType type, int64_t value) {
  if (type == DataType::Bool)
    return value != 0;
  unsigned unused = 64 - elementBits(type);
  auto high = static_cast<uint64_t>(value) << unused;
  return isSigned(type) ? static_cast<int64_t>(high) >> unused
                        : static_cast<int64_t>(high >> unused);
}

void castElement(HostValue &to, int64_t i, const HostValue &from, int64_t j) {
  if (!to.isReal())
    to.ints[i] = from.isReal() ? realToInteger(to.type, from.reals[j])
                               : wrapTo(to.type, from.ints[j]);
  else if (from.isReal())
    to.reals[i] = roundTo(to.type, from.reals[j]);
  else if (to.type == DataType::Double)
    to.reals[i] = integerToReal(from.type, from.ints[j]);
  else
    to.reals[i] = roundTo(to.type, integerToFloat(from.type, from.ints[j]));
}

int compareElements(const HostValue &a, int64_t i, const HostValue &b,
                    int64_t j) {
  auto compare = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (!a.isReal())
    return isWide(a.type) ? compare(uint64_t(a.ints[i]), uint64_t(b.ints[j]))
                          : compare(a.ints[i], b.ints[j]);
  if (std::isnan(a.reals[i]) || std::isnan(b.reals[j]))
    return 2;
  return compare(a.reals[i], b.reals[j]);
}

} // namespace shape

HostValue HostValue::fromBytes(DataType type, std::vector<int64_t> dims,
                               std::span<const uint8_t> bytes) {
  HostValue value;
  value.type = type;
  value.dims = std::move(dims);
  int64_t count = value.numElements();
  assert(static_cast<int64_t>(bytes.size()) >= packedBytes(type, count) &&
         "fewer bytes than elements");
  unsigned bits = elementBits(type);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    if (bits < 8)
      word = bytes[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
    for (unsigned k = 0; k < bits / 8; ++k)
      word |= uint64_t(bytes[i * (bits / 8) + k]) << (8 * k);
    if (isFloating(type))
      value.reals.push_back(decodeFloat(floatKind(type), word));
    else
      value.ints.push_back(wrapTo(type, static_cast<int64_t>(word)));
  }
  return value;
}

std::vector<uint8_t> HostValue::toBytes() const {
  int64_t count = numElements();
  unsigned bits = elementBits(type);
  std::vector<uint8_t> bytes(packedBytes(type, count));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t word = elementToBits(*this, i);
    if (bits < 8)
      bytes[i * bits / 8] |= (word & ((1u << bits) - 1)) << (i * bits % 8);
    for (unsigned k = 0; k < bits / 8; ++k)
      bytes[i * (bits / 8) + k] = static_cast<uint8_t>(word >> (8 * k));
  }
  return bytes;
}

} // namespace offload
