// Operands of shape arithmetic in one line each, and what a node makes of them.

#ifndef OFFLOAD_TEST_UNIT_OFFFORMAT_SHAPEOPERANDS_H
#define OFFLOAD_TEST_UNIT_OFFFORMAT_SHAPEOPERANDS_H

#include "offload/OffFormat/ShapeArithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace offload {

using Dims = std::vector<int64_t>;
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline HostValue ints(Dims dims, std::vector<int64_t> numbers,
                      DataType type = DataType::Int64) {
  HostValue value;
  value.type = type;
  value.dims = std::move(dims);
  value.ints = std::move(numbers);
  return value;
}
inline HostValue list(std::vector<int64_t> numbers,
                      DataType type = DataType::Int64) {
  Dims dims = {static_cast<int64_t>(numbers.size())};
  return ints(dims, std::move(numbers), type);
}
inline HostValue scalar(int64_t number, DataType type = DataType::Int64) {
  return ints({}, {number}, type);
}
inline HostValue reals(Dims dims, std::vector<double> numbers,
                       DataType type = DataType::Float) {
  HostValue value;
  value.type = type;
  value.dims = std::move(dims);
  value.reals = std::move(numbers);
  return value;
}
inline HostValue row(std::vector<double> numbers,
                     DataType type = DataType::Float) {
  Dims dims = {static_cast<int64_t>(numbers.size())};
  return reals(dims, std::move(numbers), type);
}
inline HostValue bools(std::vector<int64_t> numbers) {
  return list(std::move(numbers), DataType::Bool);
}

struct Node {
  std::string_view name;
  AttributeMap attributes;
  int opset = 23;
  unsigned numOutputs = 1;
};

inline ShapeResult
evaluate(const Node &node,
         const std::vector<std::optional<HostValue>> &operands) {
  int since = 0;
  const OperatorInfo *op =
      findOperatorAtOpset("", node.name, node.opset, &since);
  EXPECT_NE(op, nullptr) << node.name;
  std::vector<ShapeOperand> known;
  for (const auto &operand : operands)
    known.push_back(operand
                        ? ShapeOperand{&*operand, &operand->dims, operand->type}
                        : ShapeOperand{});
  return evaluateShapeArithmetic(*op, since, node.attributes, known,
                                 node.numOutputs);
}

/// NaN equals NaN here; zeros must agree in sign.
inline bool same(const HostValue &a, const HostValue &b) {
  if (a.type != b.type || a.dims != b.dims || a.ints != b.ints ||
      a.reals.size() != b.reals.size())
    return false;
  for (size_t i = 0; i < a.reals.size(); ++i) {
    double x = a.reals[i], y = b.reals[i];
    if (std::isnan(x) ? !std::isnan(y)
                      : x != y || std::signbit(x) != std::signbit(y))
      return false;
  }
  return true;
}

inline std::string print(const HostValue &value) {
  std::string text(dataTypeName(value.type));
  for (int64_t dim : value.dims)
    text += " x" + std::to_string(dim);
  text += ":";
  for (int64_t x : value.ints)
    text += " " + std::to_string(x);
  for (double x : value.reals)
    text += " " + std::to_string(x);
  return text;
}

inline void expect(const Node &node,
                   const std::vector<std::optional<HostValue>> &operands,
                   const HostValue &expected) {
  ShapeResult result = evaluate(node, operands);
  ASSERT_EQ(result.error, "") << node.name;
  ASSERT_EQ(result.outputs.size(), 1u) << node.name;
  EXPECT_TRUE(same(result.outputs[0], expected))
      << node.name << " gives " << print(result.outputs[0]) << ", not "
      << print(expected);
}

inline void expectError(const Node &node,
                        const std::vector<std::optional<HostValue>> &operands,
                        const std::string &error) {
  ShapeResult result = evaluate(node, operands);
  EXPECT_EQ(result.error, error) << node.name;
  EXPECT_TRUE(result.outputs.empty());
}

} // namespace offload

#endif // OFFLOAD_TEST_UNIT_OFFFORMAT_SHAPEOPERANDS_H
