// What the launching thread runs, and what it refuses to.

#include "../Schedule/TestGraph.h"

#include "offload/Analysis/LaunchValues.h"

using namespace offload;

namespace {

TensorType ints(std::vector<int64_t> dims) {
  return tensorType(DataType::Int64, std::move(dims));
}

std::vector<std::string> launchNodes(TestGraph &test) {
  LaunchValues values = llvm::cantFail(LaunchValues::compute(test.graph));
  std::vector<std::string> names;
  for (const Node &node : test.graph.nodeList())
    if (values.isLaunch(&node))
      names.push_back(node.name().str());
  return names;
}

std::vector<std::string> order(const Graph &graph) {
  std::vector<std::string> names;
  for (const Node &node : graph.nodeList())
    names.push_back(node.name().str());
  return names;
}

using Names = std::vector<std::string>;

TEST(LaunchValues, ChainsThatMakeAShape) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *two = test.constant("two", ints({1}));
  Value *zero = test.constant("zero", ints({}));
  Value *h = test.node("relu", "Relu", {x}, floats({4, 8}));
  Value *s = test.node("shape", "Shape", {h}, ints({2}));
  Value *n = test.node("take", "Gather", {s, zero}, ints({}));
  Value *m = test.node("twice", "Mul", {n, two}, ints({1}));
  test.output(test.node("flat", "Reshape", {h, m}, floats({32})));
  EXPECT_EQ(launchNodes(test), (Names{"shape", "take", "twice"}));
}

TEST(LaunchValues, ShapesOfDeviceValuesAreKnownTheirContentsAreNot) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *h = test.node("relu", "Relu", {x}, floats({4, 8}));
  Value *i = test.node("top", "ArgMax", {h}, ints({1, 8}));
  test.output(test.node("flat", "Reshape", {x, i}, floats({32})));
  llvm::Expected<LaunchValues> values = LaunchValues::compute(test.graph);
  ASSERT_FALSE(bool(values));
  EXPECT_EQ(llvm::toString(values.takeError()),
            "[flat] (Reshape) needs operand 1, 'top_out', before the step "
            "starts, but it depends on what the device computes at [relu] "
            "(Relu)");
}

TEST(LaunchValues, TheMessageNamesWhereTheDeviceComesIn) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *one = test.constant("one", ints({1}));
  Value *h = test.node("relu", "Relu", {x}, floats({4, 8}));
  Value *i = test.node("top", "ArgMax", {h}, ints({1, 8}));
  Value *j = test.node("add", "Add", {i, one}, ints({1, 8}));
  test.output(test.node("flat", "Reshape", {x, j}, floats({32})));
  llvm::Expected<LaunchValues> values = LaunchValues::compute(test.graph);
  ASSERT_FALSE(bool(values));
  EXPECT_NE(llvm::toString(values.takeError()).find("at [relu] (Relu)"),
            std::string::npos);
}

TEST(LaunchValues, AFeedMayBeAShape) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *shape = test.input("shape", ints({1}));
  test.output(test.node("flat", "Reshape", {x, shape}, floats({32})));
  EXPECT_EQ(launchNodes(test), Names{});
}

TEST(LaunchValues, AStateIsNotKnown) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *length = test.input("length", ints({1}));
  Value *one = test.constant("one", ints({1}));
  test.output(test.node("next", "Add", {length, one}, ints({1})));
  test.output(test.node("flat", "Reshape", {x, length}, floats({32})));
  test.graph.states["length"] = "next_out";
  llvm::Expected<LaunchValues> values = LaunchValues::compute(test.graph);
  ASSERT_FALSE(bool(values));
  EXPECT_NE(llvm::toString(values.takeError()).find("the state 'length'"),
            std::string::npos);
}

TEST(LaunchValues, SmallIntegerArithmeticOfFeedsJoins) {
  TestGraph test;
  Value *ids = test.input("ids", ints({1, 16}));
  Value *one = test.constant("one", ints({1}));
  Value *large = test.input("large", ints({1, 65536}));
  Value *x = test.input("x", floats({1, 16}));
  Value *next = test.node("next", "Add", {ids, one}, ints({1, 16}));
  Value *most = test.node("most", "Add", {large, one}, ints({1, 65536}));
  Value *sum = test.node("sum", "Add", {x, x}, floats({1, 16}));
  test.output(next);
  test.output(most);
  test.output(sum);
  EXPECT_EQ(launchNodes(test), Names{"next"});
}

TEST(LaunchValues, ScalarsMadeOfShapesJoinFloatsOfFeedsDoNot) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *scale = test.input("scale", floats({}));
  Value *s = test.node("shape", "Shape", {x}, ints({2}));
  Value *f = test.node("cast", "Cast", {s}, floats({2}));
  Value *root = test.node("root", "Sqrt", {f}, floats({2}));
  Value *fed = test.node("fed", "Sqrt", {scale}, floats({}));
  test.output(test.node("mul", "Mul", {root, fed}, floats({2})));
  EXPECT_EQ(launchNodes(test), (Names{"shape", "cast", "root"}));
}

TEST(LaunchValues, WhatDependsOnConstantsAloneStaysWithItsReader) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 4}));
  Value *w = test.constant("w", floats({4, 4}));
  Value *t = test.node("turn", "Transpose", {w}, floats({4, 4}));
  test.output(test.node("fc", "MatMul", {x, t}, floats({2, 4})));
  EXPECT_EQ(launchNodes(test), Names{});
}

TEST(LaunchValues, IdsOfALookupAreMadeOnTheHostWhateverTheirSize) {
  TestGraph test;
  Value *ids = test.input("ids", tensorType(DataType::Int32, {65536}));
  Value *table = test.constant("table", floats({40, 2}));
  Value *wide = test.node("wide", "Cast", {ids}, ints({65536}));
  test.output(test.node("look", "Gather", {table, wide}, floats({65536, 2})));
  EXPECT_EQ(launchNodes(test), Names{"wide"});
}

TEST(PrepareForPlan, HoistsLaunchNodesAndSinksConstantOnes) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 4}));
  Value *w = test.constant("w", floats({4, 4}));
  Value *v = test.constant("v", floats({4, 4}));
  Value *t = test.node("turn", "Transpose", {w}, floats({4, 4}));
  Value *u = test.node("back", "Transpose", {t}, floats({4, 4}));
  Value *h = test.node("fc1", "MatMul", {x, v}, floats({2, 4}));
  Value *s = test.node("shape", "Shape", {x}, ints({2}));
  Value *y = test.node("fc2", "MatMul", {h, u}, floats({2, 4}));
  test.output(test.node("same", "Reshape", {y, s}, floats({2, 4})));
  llvm::cantFail(prepareForPlan(test.graph));
  Names expected = {"shape", "fc1", "turn", "back", "fc2", "same"};
  EXPECT_EQ(order(test.graph), expected);
  llvm::cantFail(test.graph.verify());
  EXPECT_EQ(test.graph.findNode("shape")->queue(), Queue::Launch);
  llvm::cantFail(prepareForPlan(test.graph));
  EXPECT_EQ(order(test.graph), expected);
}

TEST(PrepareForPlan, LeavesShapesOfComputedValuesBehindTheirMaker) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 4}));
  Value *h = test.node("relu", "Relu", {x}, floats({2, 4}));
  Value *s = test.node("shape", "Shape", {h}, ints({2}));
  test.output(test.node("same", "Reshape", {h, s}, floats({2, 4})));
  llvm::cantFail(prepareForPlan(test.graph));
  EXPECT_EQ(order(test.graph), (Names{"relu", "shape", "same"}));
}

} // namespace
