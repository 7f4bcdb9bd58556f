// Rules of shape arithmetic that move, pick and reduce numbers, against values
// that ONNX's text or numpy gives.

#include "ShapeOperands.h"

using namespace offload;

namespace {

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

} // namespace
