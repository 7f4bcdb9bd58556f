// Every rule of shape arithmetic against values that ONNX's text or numpy
// gives.

#include "offload/OffFormat/ShapeArithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace offload;

namespace {

using Dims = std::vector<int64_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

HostValue ints(Dims dims, std::vector<int64_t> numbers,
               DataType type = DataType::Int64) {
  HostValue value;
  value.type = type;
  value.dims = std::move(dims);
  value.ints = std::move(numbers);
  return value;
}
HostValue list(std::vector<int64_t> numbers, DataType type = DataType::Int64) {
  Dims dims = {static_cast<int64_t>(numbers.size())};
  return ints(dims, std::move(numbers), type);
}
HostValue scalar(int64_t number, DataType type = DataType::Int64) {
  return ints({}, {number}, type);
}
HostValue reals(Dims dims, std::vector<double> numbers,
                DataType type = DataType::Float) {
  HostValue value;
  value.type = type;
  value.dims = std::move(dims);
  value.reals = std::move(numbers);
  return value;
}
HostValue row(std::vector<double> numbers, DataType type = DataType::Float) {
  Dims dims = {static_cast<int64_t>(numbers.size())};
  return reals(dims, std::move(numbers), type);
}
HostValue bools(std::vector<int64_t> numbers) {
  return list(std::move(numbers), DataType::Bool);
}

struct Node {
  std::string_view name;
  AttributeMap attributes;
  int opset = 23;
  unsigned numOutputs = 1;
};

ShapeResult evaluate(const Node &node,
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
bool same(const HostValue &a, const HostValue &b) {
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

std::string print(const HostValue &value) {
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

void expect(const Node &node,
            const std::vector<std::optional<HostValue>> &operands,
            const HostValue &expected) {
  ShapeResult result = evaluate(node, operands);
  ASSERT_EQ(result.error, "") << node.name;
  ASSERT_EQ(result.outputs.size(), 1u) << node.name;
  EXPECT_TRUE(same(result.outputs[0], expected))
      << node.name << " gives " << print(result.outputs[0]) << ", not "
      << print(expected);
}

void expectError(const Node &node,
                 const std::vector<std::optional<HostValue>> &operands,
                 const std::string &error) {
  ShapeResult result = evaluate(node, operands);
  EXPECT_EQ(result.error, error) << node.name;
  EXPECT_TRUE(result.outputs.empty());
}

TEST(ShapeArithmetic, TheTableSaysWhatIsCovered) {
  for (const OperatorInfo &op : operatorTable()) {
    ShapeResult result = evaluateShapeArithmetic(op, 13, {}, {}, 1);
    bool covered = result.error.find("does not cover") == std::string::npos;
    EXPECT_EQ(covered, op.shapeArithmetic) << op.domain << "." << op.name;
  }
}

TEST(ShapeArithmetic, Shapes) {
  HostValue value = ints({2, 3, 4}, std::vector<int64_t>(24));
  expect({"Shape", {}}, {value}, list({2, 3, 4}));
  expect({"Shape", {{"start", int64_t(1)}}}, {value}, list({3, 4}));
  expect({"Shape", {{"start", int64_t(-2)}, {"end", int64_t(-1)}}}, {value},
         list({3}));
  expect({"Shape", {{"start", int64_t(-9)}, {"end", int64_t(9)}}}, {value},
         list({2, 3, 4}));
  expect({"Shape", {{"start", int64_t(2)}, {"end", int64_t(1)}}}, {value},
         list({}));
  expect({"Size", {}}, {value}, scalar(24));

  Dims dims = {7, 0};
  ShapeOperand onlyShape{nullptr, &dims, DataType::Float};
  const OperatorInfo &shape = operatorInfo(Op::Shape);
  ShapeResult result =
      evaluateShapeArithmetic(shape, 21, {}, {&onlyShape, 1}, 1);
  ASSERT_EQ(result.outputs.size(), 1u);
  EXPECT_EQ(result.outputs[0], list({7, 0}));
}

TEST(ShapeArithmetic, Constants) {
  TensorAttribute tensor{
      DataType::Int32, {2}, {1, 0, 0, 0, 255, 255, 255, 255}};
  expect({"Constant", {{"value", tensor}}}, {}, list({1, -1}, DataType::Int32));
  expect({"Constant", {{"value_int", int64_t(7)}}}, {}, scalar(7));
  expect({"Constant", {{"value_ints", Dims{7, 8}}}}, {}, list({7, 8}));
  expect({"Constant", {{"value_float", 0.5f}}}, {}, reals({}, {0.5}));
  expect({"Constant", {{"value_floats", std::vector<float>{0.5f, 1}}}}, {},
         row({0.5, 1}));
  expectError({"Constant", {{"value_string", std::string("a")}}}, {},
              "has no value that shape arithmetic holds");
  TensorAttribute fill{DataType::Int64, {1}, {3, 0, 0, 0, 0, 0, 0, 0}};
  expect({"ConstantOfShape", {{"value", fill}}}, {list({2})}, list({3, 3}));
  expect({"ConstantOfShape", {}}, {list({1, 2})}, reals({1, 2}, {0, 0}));
  expect({"ConstantOfShape", {}}, {list({})}, reals({}, {0}));
  expectError({"ConstantOfShape", {}}, {list({2, -1})},
              "a result of shape [2,-1] has a negative dimension");
  expectError({"ConstantOfShape", {}}, {list({1 << 20, 1 << 20})},
              "a result of shape [1048576,1048576] is too large for shape "
              "arithmetic");
}

TEST(ShapeArithmetic, Casts) {
  auto to = [](DataType type) {
    return Node{"Cast", {{"to", static_cast<int64_t>(type)}}};
  };
  expect(to(DataType::Int32), {row({1.9, -1.9, 3e9})},
         list({1, -1, -2147483648LL}, DataType::Int32));
  expect(to(DataType::Int64), {row({-0.5, kNaN})},
         list({0, std::numeric_limits<int64_t>::min()}));
  expect(to(DataType::UInt8), {list({-1, 256, 7})},
         list({255, 0, 7}, DataType::UInt8));
  expect(to(DataType::Bool), {row({0, -0.0, 0.1, kNaN})}, bools({0, 0, 1, 1}));
  expect(to(DataType::Float16), {row({65519, 65520, 1e-8, 1.0009765625})},
         row({65504, kInf, 0, 1.0009765625}, DataType::Float16));
  // 1 + 2^-8 lies between two bfloat16 and goes to the even one.
  expect(to(DataType::BFloat16), {row({1.00390625, 1.01171875, -3.4e38})},
         row({1, 1.015625, -kInf}, DataType::BFloat16));
  expect(to(DataType::Float), {list({16777217, (int64_t(1) << 62) + 1})},
         row({16777216, 4611686018427387904.0}));
  expect(to(DataType::Double), {list({-1}, DataType::UInt64)},
         row({18446744073709551616.0}, DataType::Double));
  expect({"CastLike", {}}, {list({3}), row({0})}, row({3}));
  expectError(to(DataType::Float8E5M2), {row({1})},
              "shape arithmetic does not hold the type float8e5m2");
}

TEST(ShapeArithmetic, IntegersWrapAndTruncate) {
  HostValue a = list({7, -7, 7, -7}), b = list({2, 2, -2, -2});
  expect({"Div", {}}, {a, b}, list({3, -3, -3, 3}));
  expect({"Mod", {}}, {a, b}, list({1, 1, -1, -1}));
  expect({"Mod", {{"fmod", int64_t(1)}}}, {a, b}, list({1, -1, 1, -1}));
  constexpr int64_t low = std::numeric_limits<int64_t>::min();
  expect({"Div", {}}, {list({low}), list({-1})}, list({low}));
  expect({"Mod", {}}, {list({low}), list({-1})}, list({0}));
  expectError({"Div", {}}, {a, scalar(0)}, "divides by zero");
  expectError({"Mod", {}}, {a, scalar(0)}, "divides by zero");
  DataType narrow = DataType::Int8;
  expect({"Add", {}}, {list({100}, narrow), list({100}, narrow)},
         list({-56}, narrow));
  expect({"Mul", {}}, {list({low}), list({2})}, list({0}));
  expect({"Sub", {}}, {list({low}), list({1})},
         list({std::numeric_limits<int64_t>::max()}));
  expect({"Neg", {}}, {list({-128, 5}, narrow)}, list({-128, -5}, narrow));
  expect({"Abs", {}}, {list({-128, -5}, narrow)}, list({-128, 5}, narrow));
  expect({"Sign", {}}, {list({-3, 0, 3})}, list({-1, 0, 1}));
  expectError({"Add", {}}, {list({1}), row({1})},
              "operands have the types int64 and float");
}

TEST(ShapeArithmetic, RealsRoundToTheirType) {
  expect({"Div", {}}, {row({1}), row({3})}, row({double(1.0f / 3.0f)}));
  expect({"Add", {}},
         {row({2048}, DataType::Float16), row({1}, DataType::Float16)},
         row({2048}, DataType::Float16));
  expect({"Mul", {}},
         {row({256}, DataType::BFloat16), row({1.0078125}, DataType::BFloat16)},
         row({258}, DataType::BFloat16));
  expect({"Div", {}}, {row({1, -1, 0}), row({0, 0, 0})},
         row({kInf, -kInf, kNaN}));
  expect({"Round", {}}, {row({0.5, 1.5, 2.5, -0.5, -1.5, 2.4})},
         row({0, 2, 2, -0.0, -2, 2}));
  expect({"Floor", {}}, {row({-1.5, 1.5})}, row({-2, 1}));
  expect({"Ceil", {}}, {row({-1.5, 1.5})}, row({-1, 2}));
  expect({"Sqrt", {}}, {row({2, -1})}, row({double(std::sqrt(2.0f)), kNaN}));
  expect({"Exp", {}}, {row({0, -kInf})}, row({1, 0}));
  expect({"Log", {}}, {row({1, 0})}, row({0, -kInf}));
  expect({"Sign", {}}, {row({-2, 0, 2})}, row({-1, 0, 1}));
  expect({"Mod", {{"fmod", int64_t(1)}}}, {row({-7, 7}), row({2, -2})},
         row({-1, 1}));
  expect({"Mod", {}, 28}, {row({-7, 7, 1}), row({2, -2, -kInf})},
         row({1, -1, -kInf}));
  expectError({"Mod", {}}, {row({1}), row({1})},
              "takes floating-point operands with attribute fmod=1 only");
  expectError({"Floor", {}}, {list({1})}, "does not take the type int64");
}

TEST(ShapeArithmetic, Powers) {
  expect({"Pow", {}}, {list({2, -3, 0}), list({10, 3, 0})},
         list({1024, -27, 1}));
  expect({"Pow", {}}, {list({2, 1, -1}), list({-1, -5, -3})}, list({0, 1, -1}));
  expect({"Pow", {}}, {list({9}), row({0.5})}, list({3}));
  expect({"Pow", {}}, {row({9, 2}), list({2, -1})}, row({81, 0.5}));
  expectError({"Pow", {}}, {list({0}), list({-1})},
              "raises 0 to a negative power");
}

TEST(ShapeArithmetic, ComparisonsAndLogic) {
  HostValue a = list({1, 2, 3}), b = scalar(2);
  expect({"Equal", {}}, {a, b}, bools({0, 1, 0}));
  expect({"Less", {}}, {a, b}, bools({1, 0, 0}));
  expect({"LessOrEqual", {}}, {a, b}, bools({1, 1, 0}));
  expect({"Greater", {}}, {a, b}, bools({0, 0, 1}));
  expect({"GreaterOrEqual", {}}, {a, b}, bools({0, 1, 1}));
  expect({"Equal", {}}, {row({kNaN}), row({kNaN})}, bools({0}));
  expect({"LessOrEqual", {}}, {row({kNaN}), row({1})}, bools({0}));
  HostValue p = bools({0, 0, 1, 1}), q = bools({0, 1, 0, 1});
  expect({"And", {}}, {p, q}, bools({0, 0, 0, 1}));
  expect({"Or", {}}, {p, q}, bools({0, 1, 1, 1}));
  expect({"Xor", {}}, {p, q}, bools({0, 1, 1, 0}));
  expect({"Not", {}}, {p}, bools({1, 1, 0, 0}));
  expect({"Where", {}}, {bools({1, 0}), ints({2, 1}, {1, 2}), scalar(9)},
         ints({2, 2}, {1, 9, 2, 9}));
}

TEST(ShapeArithmetic, ExtremaAndClip) {
  expect({"Max", {}}, {list({1, 5}), scalar(3), list({2, 2})}, list({3, 5}));
  expect({"Min", {}}, {list({1, 5}), scalar(3)}, list({1, 3}));
  expect({"Max", {}}, {row({kNaN, 1}), row({1, kNaN})}, row({kNaN, kNaN}));
  expect({"Clip", {}}, {list({-5, 0, 5}), scalar(-1), scalar(1)},
         list({-1, 0, 1}));
  expect({"Clip", {}}, {list({-5, 5}), std::nullopt, scalar(1)}, list({-5, 1}));
  expect({"Clip", {}}, {list({5}), scalar(4), scalar(2)}, list({2}));
  expect({"Clip", {}}, {list({5})}, list({5}));
}

TEST(ShapeArithmetic, Reshapes) {
  HostValue value = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  expect({"Reshape", {}}, {value, list({3, -1})}, ints({3, 2}, value.ints));
  expect({"Reshape", {}}, {value, list({0, 1, -1})},
         ints({2, 1, 3}, value.ints));
  expect({"Reshape", {}}, {list({5}), list({})}, scalar(5));
  expect({"Reshape", {{"allowzero", int64_t(1)}}},
         {ints({0, 3}, {}), list({3, 0})}, ints({3, 0}, {}));
  expectError({"Reshape", {}}, {value, list({4, -1})},
              "shape [4,-1] does not fit [2,3]");
  expectError({"Reshape", {}}, {value, list({-1, -1})},
              "shape [-1,-1] has -1 twice");
  expectError({"Reshape", {}}, {value, list({1, 1, 0})},
              "shape [1,1,0] copies dimension 2 of [2,3]");
  expect({"Flatten", {}}, {value}, ints({2, 3}, value.ints));
  expect({"Flatten", {{"axis", int64_t(0)}}}, {value},
         ints({1, 6}, value.ints));
  expect({"Flatten", {{"axis", int64_t(2)}}}, {value},
         ints({6, 1}, value.ints));
  expect({"Flatten", {{"axis", int64_t(-1)}}}, {value},
         ints({2, 3}, value.ints));
  expect({"Squeeze", {}}, {ints({1, 2, 1}, {1, 2})}, list({1, 2}));
  expect({"Squeeze", {}}, {ints({1, 2, 1}, {1, 2}), list({-1})},
         ints({1, 2}, {1, 2}));
  expect({"Squeeze", {{"axes", Dims{0}}}, 12}, {ints({1, 2, 1}, {1, 2})},
         ints({2, 1}, {1, 2}));
  expectError({"Squeeze", {}}, {value, list({0})},
              "dimension 0 of [2,3] is not 1");
  expect({"Unsqueeze", {}}, {list({1, 2}), list({0, -1})},
         ints({1, 2, 1}, {1, 2}));
  expect({"Unsqueeze", {{"axes", Dims{1}}}, 12}, {list({1, 2})},
         ints({2, 1}, {1, 2}));
  expectError({"Unsqueeze", {}}, {list({1}), list({0, -3})},
              "axis 0 is named twice");
  expectError({"Unsqueeze", {}}, {list({1}), list({3})},
              "axis 3 is outside of rank 2");
}

TEST(ShapeArithmetic, Layouts) {
  HostValue value = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  expect({"Transpose", {}}, {value}, ints({3, 2}, {1, 4, 2, 5, 3, 6}));
  expect({"Transpose", {{"perm", Dims{0, 1}}}}, {value}, value);
  expect({"Transpose", {{"perm", Dims{1, 2, 0}}}},
         {ints({2, 1, 2}, {1, 2, 3, 4})}, ints({1, 2, 2}, {1, 3, 2, 4}));
  expectError({"Transpose", {{"perm", Dims{0, 0}}}}, {value},
              "axis 0 is named twice");
  expect({"Expand", {}}, {ints({2, 1}, {1, 2}), list({3})},
         ints({2, 3}, {1, 1, 1, 2, 2, 2}));
  expectError({"Expand", {}}, {list({1, 2}), list({3})},
              "shapes [2] and [3] do not broadcast");
  expect({"Tile", {}}, {ints({1, 2}, {1, 2}), list({2, 2})},
         ints({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}));
  expect({"Tile", {}}, {list({1, 2}), list({0})}, ints({0}, {}));
  HostValue square = ints({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect({"Trilu", {}}, {square}, ints({3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9}));
  expect({"Trilu", {{"upper", int64_t(0)}}}, {square, scalar(-1)},
         ints({3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0}));
}

TEST(ShapeArithmetic, Pieces) {
  expect({"Concat", {{"axis", int64_t(0)}}}, {list({1}), list({2, 3})},
         list({1, 2, 3}));
  expect({"Concat", {{"axis", int64_t(-1)}}},
         {ints({2, 1}, {1, 2}), ints({2, 2}, {3, 4, 5, 6})},
         ints({2, 3}, {1, 3, 4, 2, 5, 6}));
  expectError({"Concat", {{"axis", int64_t(0)}}},
              {ints({1, 2}, {1, 2}), ints({1, 3}, {1, 2, 3})},
              "shapes [1,2] and [1,3] do not fit along axis 0");

  auto splits = [](const Node &node, std::optional<HostValue> lengths) {
    Dims sizes;
    std::vector<std::optional<HostValue>> operands = {
        list({0, 1, 2, 3, 4, 5, 6})};
    if (lengths)
      operands.push_back(lengths);
    ShapeResult result = evaluate(node, operands);
    EXPECT_EQ(result.error, "");
    for (const HostValue &part : result.outputs)
      sizes.push_back(part.numElements());
    return sizes;
  };
  EXPECT_EQ(splits({"Split", {}, 21, 2}, list({3, 4})), (Dims{3, 4}));
  EXPECT_EQ(splits({"Split", {{"num_outputs", int64_t(3)}}, 21, 3}, {}),
            (Dims{3, 3, 1}));
  EXPECT_EQ(splits({"Split", {}, 13, 7}, {}), (Dims{1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(splits({"Split", {{"split", Dims{2, 5}}}, 12, 2}, {}),
            (Dims{2, 5}));
  expectError({"Split", {}, 13, 2}, {list({1, 2, 3})},
              "a dimension of 3 cannot be cut into 2 equal parts");
  expectError({"Split", {}, 13, 2}, {list({1, 2, 3}), list({1, 1})},
              "lengths [1,1] do not add up to 3");
  ShapeResult two = evaluate({"Split", {{"axis", int64_t(1)}}, 13, 2},
                             {ints({2, 2}, {1, 2, 3, 4}), list({1, 1})});
  ASSERT_EQ(two.outputs.size(), 2u);
  EXPECT_EQ(two.outputs[1], ints({2, 1}, {2, 4}));
}

TEST(ShapeArithmetic, Slices) {
  HostValue value = list({0, 1, 2, 3, 4});
  constexpr int64_t low = std::numeric_limits<int64_t>::min();
  constexpr int64_t high = std::numeric_limits<int64_t>::max();
  struct Case {
    int64_t start, end, step;
    std::vector<int64_t> expected;
  } cases[] = {
      {1, 3, 1, {1, 2}},
      {-2, high, 1, {3, 4}},
      {0, high, 2, {0, 2, 4}},
      {-1, low, -1, {4, 3, 2, 1, 0}},
      {high, low, -2, {4, 2, 0}},
      {3, 1, -1, {3, 2}},
      {1, 3, -1, {}},
      {4, 1, 1, {}},
      {-100, 100, 100, {0}},
      {4, -100, low, {4}},
      {0, 5, high, {0}},
      {9, 12, 1, {}},
  };
  for (const Case &c : cases)
    expect({"Slice", {}},
           {value, list({c.start}), list({c.end}), list({0}), list({c.step})},
           list(c.expected));
  expect({"Slice", {}}, {value, list({2}), list({-1})}, list({2, 3}));
  expect({"Slice", {}},
         {ints({2, 3}, {1, 2, 3, 4, 5, 6}), list({0, -1}), list({1, low}),
          list({0, -1}), list({1, -2})},
         ints({1, 2}, {3, 1}));
  expect({"Slice", {}},
         {ints({0}, {}), list({0}), list({5}), list({0}), list({-1})},
         ints({0}, {}));
  expectError({"Slice", {}},
              {value, list({0}), list({1}), list({0}), list({0})}, "step is 0");
  expectError({"Slice", {}}, {value, list({0, 1}), list({1})},
              "starts, ends, axes and steps differ in length");
}

TEST(ShapeArithmetic, Pads) {
  HostValue value = list({1, 2, 3});
  auto mode = [](const char *name) {
    return Node{"Pad", {{"mode", std::string(name)}}};
  };
  expect({"Pad", {}}, {value, list({1, 2})}, list({0, 1, 2, 3, 0, 0}));
  expect({"Pad", {}}, {value, list({1, 0}), scalar(9)}, list({9, 1, 2, 3}));
  expect({"Pad", {}}, {value, list({-1, 1}), scalar(9)}, list({2, 3, 9}));
  expect(mode("edge"), {value, list({2, 1})}, list({1, 1, 1, 2, 3, 3}));
  expect(mode("reflect"), {value, list({2, 2})}, list({3, 2, 1, 2, 3, 2, 1}));
  expect(mode("wrap"), {value, list({2, 1})}, list({2, 3, 1, 2, 3, 1}));
  expect({"Pad", {}},
         {ints({1, 2}, {1, 2}), list({1, 0}), scalar(7), list({-1})},
         ints({1, 3}, {7, 1, 2}));
  expectError({"Pad", {}}, {value, list({1})}, "has 1 pads for 1 axes");
  expectError({"Pad", {}}, {value, list({-2, -2})},
              "a result of shape [-1] has a negative dimension");
}

TEST(ShapeArithmetic, Lookups) {
  HostValue value = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  expect({"Gather", {}}, {list({5, 6, 7}), scalar(-1)}, scalar(7));
  expect({"Gather", {{"axis", int64_t(1)}}}, {value, ints({1, 2}, {2, 0})},
         ints({2, 1, 2}, {3, 1, 6, 4}));
  expect({"Gather", {}}, {value, list({1}, DataType::Int32)},
         ints({1, 3}, {4, 5, 6}));
  expectError({"Gather", {}}, {list({5, 6}), scalar(2)},
              "index 2 is out of range of a dimension of 2");
  expect({"GatherElements", {{"axis", int64_t(1)}}},
         {value, ints({2, 2}, {0, -1, 1, 0})}, ints({2, 2}, {1, 3, 5, 4}));
  expect({"GatherND", {}}, {value, ints({2, 2}, {0, 1, -1, 2})}, list({2, 6}));
  expect({"GatherND", {}}, {value, ints({1, 1}, {1})}, ints({1, 3}, {4, 5, 6}));
  expect({"GatherND", {{"batch_dims", int64_t(1)}}},
         {value, ints({2, 1}, {2, 0})}, list({3, 4}));
  expectError({"GatherND", {}}, {value, ints({1, 3}, {0, 0, 0})},
              "indices of shape [1,3] exceed the rank of [2,3]");
  expect({"ScatterND", {}},
         {list({1, 2, 3}), ints({2, 1}, {2, 0}), list({8, 9})},
         list({9, 2, 8}));
  expect({"ScatterND", {}},
         {value, ints({1, 1}, {-1}), ints({1, 3}, {7, 8, 9})},
         ints({2, 3}, {1, 2, 3, 7, 8, 9}));
  expect({"ScatterND", {{"reduction", std::string("add")}}},
         {list({1, 2}), ints({2, 1}, {1, 1}), list({10, 100})}, list({1, 112}));
  expectError({"ScatterND", {}}, {list({1}), ints({1, 1}, {0}), list({1, 2})},
              "updates must have shape [1], have [2]");
  expect({"OneHot", {}}, {list({0, -1, 5}), scalar(3), list({7, 9})},
         ints({3, 3}, {9, 7, 7, 7, 7, 9, 7, 7, 7}));
  expect({"OneHot", {{"axis", int64_t(0)}}},
         {list({1}), scalar(2), row({0, 1})}, reals({2, 1}, {0, 1}));
}

TEST(ShapeArithmetic, Ranges) {
  expect({"Range", {}}, {scalar(1), scalar(8), scalar(3)}, list({1, 4, 7}));
  expect({"Range", {}}, {scalar(5), scalar(0), scalar(-2)}, list({5, 3, 1}));
  expect({"Range", {}}, {scalar(5), scalar(5), scalar(1)}, list({}));
  expect({"Range", {}}, {scalar(5), scalar(0), scalar(1)}, list({}));
  expect({"Range", {}}, {reals({}, {0}), reals({}, {1}), reals({}, {0.25})},
         row({0, 0.25, 0.5, 0.75}));
  expectError({"Range", {}}, {scalar(0), scalar(1), scalar(0)}, "delta is 0");
  expectError(
      {"Range", {}},
      {scalar(0), scalar(std::numeric_limits<int64_t>::max()), scalar(1)},
      "a result of shape [1099511627776] is too large for shape "
      "arithmetic");
}

TEST(ShapeArithmetic, Reductions) {
  HostValue value = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  AttributeMap drop = {{"keepdims", int64_t(0)}};
  expect({"ReduceSum", drop}, {value, list({1})}, list({6, 15}));
  expect({"ReduceSum", {}}, {value, list({-2})}, ints({1, 3}, {5, 7, 9}));
  expect({"ReduceSum", drop}, {value}, scalar(21));
  expect({"ReduceSum", {{"noop_with_empty_axes", int64_t(1)}}},
         {value, list({})}, value);
  expect({"ReduceProd", drop}, {value}, scalar(720));
  expect({"ReduceMin", drop, 17}, {value}, scalar(1));
  expect({"ReduceMax", {{"axes", Dims{0}}, {"keepdims", int64_t(0)}}, 17},
         {value}, list({4, 5, 6}));
  expect({"ReduceMean", drop}, {row({1, 2, 6})}, reals({}, {3}));
  expect({"ReduceSum", drop}, {ints({2, 0}, {}), list({1})}, list({0, 0}));
  expect({"ReduceProd", drop}, {ints({0}, {})}, scalar(1));
  expect({"ReduceMax", drop}, {row({})}, reals({}, {-kInf}));
  expect({"ReduceMin", drop}, {list({}, DataType::Int8)},
         scalar(127, DataType::Int8));
  expect({"ReduceMax", drop}, {row({1, kNaN, 2})}, reals({}, {kNaN}));
  expect({"ReduceMax", drop}, {bools({0, 1})}, scalar(1, DataType::Bool));
  expect({"ReduceMin", drop}, {bools({0, 1})}, scalar(0, DataType::Bool));
  expectError({"ReduceSum", {}}, {value, list({1, -1})},
              "axis 1 is named twice");
}

TEST(ShapeArithmetic, OrderAlongAnAxis) {
  HostValue value = ints({2, 3}, {3, 1, 3, 4, 4, 2});
  AttributeMap drop = {{"axis", int64_t(1)}, {"keepdims", int64_t(0)}};
  expect({"ArgMax", drop}, {value}, list({0, 0}));
  expect({"ArgMin", {{"axis", int64_t(1)}}}, {value}, ints({2, 1}, {1, 2}));
  drop["select_last_index"] = int64_t(1);
  expect({"ArgMax", drop}, {value}, list({2, 1}));
  expect({"CumSum", {}}, {list({1, 2, 3}), scalar(0)}, list({1, 3, 6}));
  expect({"CumSum", {{"exclusive", int64_t(1)}}}, {list({1, 2, 3}), scalar(0)},
         list({0, 1, 3}));
  expect({"CumSum", {{"reverse", int64_t(1)}}}, {list({1, 2, 3}), scalar(-1)},
         list({6, 5, 3}));
  expect({"CumSum", {}}, {value, scalar(0)}, ints({2, 3}, {3, 1, 3, 7, 5, 5}));
  ShapeResult top = evaluate({"TopK", {}, 23, 2}, {value, list({2})});
  ASSERT_EQ(top.outputs.size(), 2u);
  EXPECT_EQ(top.outputs[0], ints({2, 2}, {3, 3, 4, 4}));
  EXPECT_EQ(top.outputs[1], ints({2, 2}, {0, 2, 0, 1}));
  top =
      evaluate({"TopK", {{"largest", int64_t(0)}, {"axis", int64_t(0)}}, 23, 2},
               {value, list({1})});
  EXPECT_EQ(top.outputs[0], ints({1, 3}, {3, 1, 2}));
  EXPECT_EQ(top.outputs[1], ints({1, 3}, {0, 0, 1}));
}

TEST(ShapeArithmetic, MissingOperands) {
  expectError({"Add", {}}, {list({1})}, "operand 1 is missing");
  expectError({"Add", {}}, {list({1}), std::nullopt}, "operand 1 is missing");
  expectError({"Abs", {}}, {list({1}), list({1})},
              "takes at most 1 operands, has 2");
  ShapeOperand unknown{nullptr, nullptr, DataType::Int64};
  ShapeResult result =
      evaluateShapeArithmetic(operatorInfo(Op::Abs), 13, {}, {&unknown, 1}, 1);
  EXPECT_EQ(result.error, "the value of operand 0 is not known");
}

/// Every 16-bit pattern is the number that it was made from.
TEST(HostValue, SixteenBitFloatsKeepTheirBits) {
  for (DataType type : {DataType::Float16, DataType::BFloat16}) {
    for (unsigned pattern = 0; pattern < 65536; ++pattern) {
      std::vector<uint8_t> bytes = {uint8_t(pattern), uint8_t(pattern >> 8)};
      HostValue value = HostValue::fromBytes(type, {1}, bytes);
      if (std::isnan(value.reals[0]))
        continue;
      ASSERT_EQ(value.toBytes(), bytes) << pattern;
      if (type == DataType::BFloat16) {
        uint32_t wide = pattern << 16;
        float expected;
        memcpy(&expected, &wide, 4);
        ASSERT_EQ(value.reals[0], expected);
      }
    }
  }
}

TEST(HostValue, BytesOfEveryType) {
  std::vector<uint8_t> bytes = {0x21, 0xf3};
  EXPECT_EQ(HostValue::fromBytes(DataType::UInt4, {4}, bytes).ints,
            (std::vector<int64_t>{1, 2, 3, 15}));
  HostValue packed = HostValue::fromBytes(DataType::Int4, {3}, bytes);
  EXPECT_EQ(packed.ints, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(packed.toBytes(), (std::vector<uint8_t>{0x21, 0x03}));
  EXPECT_EQ(HostValue::fromBytes(DataType::Int2, {4}, bytes).ints,
            (std::vector<int64_t>{1, 0, -2, 0}));
  EXPECT_EQ(list({-2}, DataType::Int16).toBytes(),
            (std::vector<uint8_t>{0xfe, 0xff}));
  EXPECT_EQ(bools({1, 0}).toBytes(), (std::vector<uint8_t>{1, 0}));
  for (double number : {1.5, -0.0, 1e-310, 1e308, kInf}) {
    HostValue value = row({number}, DataType::Double);
    double back;
    std::vector<uint8_t> eight = value.toBytes();
    memcpy(&back, eight.data(), 8);
    EXPECT_EQ(back, number);
    EXPECT_TRUE(
        same(HostValue::fromBytes(DataType::Double, {1}, eight), value));
  }
  for (float number : {1.5f, -0.0f, 1e-45f, 3e38f}) {
    HostValue value = row({number});
    float back;
    memcpy(&back, value.toBytes().data(), 4);
    EXPECT_EQ(back, number);
  }
}

} // namespace
