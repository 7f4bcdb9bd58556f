// Rules that work element by element, with broadcasting.
//
// How: integers wrap in their type as the kernels' do; float kinds are computed
//      in double and rounded once.

#include "ShapeArithmeticParts.h"

#include <cmath>
#include <limits>

namespace offload::shape {

namespace {

using Combine = std::function<void(HostValue &, int64_t, int64_t, int64_t)>;

/// Calls `combine(result, i, offset in a, offset in b)` for each element.
HostValue zip(DataType type, const HostValue &a, const HostValue &b,
              const Combine &combine) {
  HostValue result = makeValue(type, broadcastDims(a.dims, b.dims));
  size_t rank = result.dims.size();
  Dims inA = broadcastStrides(a.dims, rank),
       inB = broadcastStrides(b.dims, rank);
  walk(result.dims, [&](int64_t i, const Dims &index) {
    combine(result, i, offsetOf(index, inA), offsetOf(index, inB));
  });
  return result;
}

int64_t divideIntegers(DataType type, int64_t a, int64_t b) {
  if (b == 0)
    refuse("divides by zero");
  if (isWide(type))
    return static_cast<int64_t>(uint64_t(a) / uint64_t(b));
  // The one quotient that does not fit wraps to itself.
  return b == -1 ? static_cast<int64_t>(0 - uint64_t(a)) : a / b;
}

/// With the sign of the divisor, or of the dividend where `likeC`.
int64_t modIntegers(DataType type, int64_t a, int64_t b, bool likeC) {
  if (b == 0)
    refuse("divides by zero");
  if (isWide(type))
    return static_cast<int64_t>(uint64_t(a) % uint64_t(b));
  int64_t rest = b == -1 ? 0 : a % b;
  return !likeC && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modReals(double a, double b, bool likeC) {
  double rest = std::fmod(a, b);
  if (likeC || std::isnan(rest))
    return rest;
  if (rest == 0)
    return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t combineIntegers(const Evaluation &e, DataType type, int64_t a,
                        int64_t b) {
  switch (e.op.id) {
  case Op::Add:
    return static_cast<int64_t>(uint64_t(a) + uint64_t(b));
  case Op::Sub:
    return static_cast<int64_t>(uint64_t(a) - uint64_t(b));
  case Op::Mul:
    return static_cast<int64_t>(uint64_t(a) * uint64_t(b));
  case Op::Div:
    return divideIntegers(type, a, b);
  default:
    return modIntegers(type, a, b, intAttribute(e.attributes, "fmod", 0) != 0);
  }
}

double combineReals(const Evaluation &e, double a, double b) {
  switch (e.op.id) {
  case Op::Add:
    return a + b;
  case Op::Sub:
    return a - b;
  case Op::Mul:
    return a * b;
  case Op::Div:
    return a / b;
  default: {
    bool likeC = intAttribute(e.attributes, "fmod", 0) != 0;
    if (!likeC && e.sinceVersion < 28)
      refuse("takes floating-point operands with attribute fmod=1 only");
    return modReals(a, b, likeC);
  }
  }
}

double unaryReal(Op op, double x) {
  switch (op) {
  case Op::Abs:
    return std::fabs(x);
  case Op::Neg:
    return -x;
  case Op::Sign:
    return std::isnan(x) ? x : double(x > 0) - double(x < 0);
  case Op::Floor:
    return std::floor(x);
  case Op::Ceil:
    return std::ceil(x);
  case Op::Round: // the default rounding of a process: ties to even
    return std::nearbyint(x);
  case Op::Sqrt:
    return std::sqrt(x);
  case Op::Exp:
    return std::exp(x);
  default:
    return std::log(x);
  }
}

int64_t unaryInteger(Op op, DataType type, int64_t x) {
  auto negated = static_cast<int64_t>(0 - uint64_t(x));
  switch (op) {
  case Op::Abs:
    return x < 0 && !isWide(type) ? negated : x;
  case Op::Neg:
    return negated;
  case Op::Sign:
    return isWide(type) ? x != 0 : (x > 0) - (x < 0);
  default: // Not: bool is the only type that it takes
    return x == 0;
  }
}

int64_t powerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0)
      refuse("raises 0 to a negative power");
    if (base != 1 && base != -1)
      return 0;
    return exponent % 2 ? base : 1;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

double asReal(const HostValue &value, int64_t i) {
  if (value.isReal())
    return value.reals[i];
  return isWide(value.type) ? double(uint64_t(value.ints[i]))
                            : double(value.ints[i]);
}

HostValue castTo(const HostValue &from, DataType type) {
  if (!isFloating(type) && !isInteger(type) && type != DataType::Bool)
    refuse("shape arithmetic does not hold the type " +
           std::string(dataTypeName(type)));
  HostValue to = makeValue(type, from.dims);
  for (int64_t i = 0, count = from.numElements(); i < count; ++i)
    castElement(to, i, from, i);
  return to;
}

/// The larger (smaller) of two; a NaN wins.
HostValue larger(const HostValue &a, const HostValue &b, bool smaller) {
  needSameType(a, b);
  int wins = smaller ? -1 : 1;
  return zip(a.type, a, b,
             [&](HostValue &result, int64_t i, int64_t x, int64_t y) {
               int order = compareElements(a, x, b, y);
               bool first = order == 2 ? std::isnan(a.reals[x])
                                       : order == wins || order == 0;
               if (first)
                 copyElement(result, i, a, x);
               else
                 copyElement(result, i, b, y);
             });
}

} // namespace

std::vector<HostValue> identity(const Evaluation &e) { return {e.value(0)}; }

std::vector<HostValue> cast(const Evaluation &e) {
  auto type = static_cast<DataType>(intAttribute(e.attributes, "to", 0));
  return {castTo(e.value(0), type)};
}

std::vector<HostValue> castLike(const Evaluation &e) {
  const ShapeOperand &like = e.operands[1];
  DataType type = like.value ? like.value->type : like.type;
  return {castTo(e.value(0), type)};
}

std::vector<HostValue> unary(const Evaluation &e) {
  HostValue result = e.value(0);
  for (double &x : result.reals)
    x = roundTo(result.type, unaryReal(e.op.id, x));
  for (int64_t &x : result.ints)
    x = wrapTo(result.type, unaryInteger(e.op.id, result.type, x));
  return {result};
}

std::vector<HostValue> binary(const Evaluation &e) {
  const HostValue &a = e.value(0), &b = e.value(1);
  needSameType(a, b);
  return {zip(
      a.type, a, b, [&](HostValue &result, int64_t i, int64_t x, int64_t y) {
        if (a.isReal())
          result.reals[i] =
              roundTo(a.type, combineReals(e, a.reals[x], b.reals[y]));
        else
          result.ints[i] =
              wrapTo(a.type, combineIntegers(e, a.type, a.ints[x], b.ints[y]));
      })};
}

std::vector<HostValue> logical(const Evaluation &e) {
  const HostValue &a = e.value(0), &b = e.value(1);
  needSameType(a, b);
  return {zip(DataType::Bool, a, b,
              [&](HostValue &result, int64_t i, int64_t x, int64_t y) {
                bool p = a.ints[x], q = b.ints[y];
                result.ints[i] = e.op.id == Op::And  ? p && q
                                 : e.op.id == Op::Or ? p || q
                                                     : p != q;
              })};
}

std::vector<HostValue> comparison(const Evaluation &e) {
  const HostValue &a = e.value(0), &b = e.value(1);
  needSameType(a, b);
  auto holds = [&e](int order) {
    switch (e.op.id) {
    case Op::Equal:
      return order == 0;
    case Op::Less:
      return order == -1;
    case Op::LessOrEqual:
      return order == -1 || order == 0;
    case Op::Greater:
      return order == 1;
    default: // GreaterOrEqual
      return order == 1 || order == 0;
    }
  };
  return {zip(DataType::Bool, a, b,
              [&](HostValue &result, int64_t i, int64_t x, int64_t y) {
                result.ints[i] = holds(compareElements(a, x, b, y));
              })};
}

std::vector<HostValue> power(const Evaluation &e) {
  const HostValue &a = e.value(0), &b = e.value(1);
  HostValue real = makeValue(DataType::Double, {1});
  return {zip(a.type, a, b,
              [&](HostValue &result, int64_t i, int64_t x, int64_t y) {
                if (!a.isReal() && !b.isReal()) {
                  result.ints[i] =
                      wrapTo(a.type, powerOfIntegers(a.ints[x], b.ints[y]));
                  return;
                }
                real.reals[0] = std::pow(asReal(a, x), asReal(b, y));
                castElement(result, i, real, 0);
              })};
}

std::vector<HostValue> extremum(const Evaluation &e) {
  HostValue result = e.value(0);
  for (unsigned i = 1; i < e.operands.size(); ++i)
    result = larger(result, e.value(i), e.op.id == Op::Min);
  return {result};
}

std::vector<HostValue> clip(const Evaluation &e) {
  HostValue result = e.value(0);
  for (unsigned i : {1u, 2u}) {
    const HostValue *bound = e.optionalValue(i);
    if (!bound)
      continue;
    if (bound->numElements() != 1)
      refuse("operand " + std::to_string(i) +
             " must be one number, has shape " + printDims(bound->dims));
    HostValue scalar = *bound;
    scalar.dims.clear();
    result = larger(result, scalar, i == 2);
  }
  return {result};
}

std::vector<HostValue> where(const Evaluation &e) {
  const HostValue &a = e.value(1), &b = e.value(2);
  needSameType(a, b);
  Dims dims = broadcastDims(e.value(0).dims, broadcastDims(a.dims, b.dims));
  HostValue result = makeValue(a.type, dims);
  Dims strides[3];
  for (unsigned i : {0u, 1u, 2u})
    strides[i] = broadcastStrides(e.value(i).dims, dims.size());
  walk(dims, [&](int64_t i, const Dims &index) {
    bool first = e.value(0).ints[offsetOf(index, strides[0])];
    const HostValue &from = first ? a : b;
    copyElement(result, i, from, offsetOf(index, strides[first ? 1 : 2]));
  });
  return {result};
}

} // namespace offload::shape
