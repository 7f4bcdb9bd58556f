// Rules of shape arithmetic that make and compute numbers, against values that
// ONNX's text or numpy gives.

#include "ShapeOperands.h"

using namespace offload;

namespace {

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

} // namespace
