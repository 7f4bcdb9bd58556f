// Reading a graph: lifetimes, views, what travels together, what is looked up.

#include "TestGraph.h"

#include "offload/Schedule/StepModel.h"

using namespace offload;

namespace {

StepModel read(TestGraph &test, bool lookupsOnHost = false) {
  llvm::cantFail(prepareForPlan(test.graph));
  return llvm::cantFail(readStep(test.graph, lookupsOnHost));
}

TEST(StepModel, ChainHasOneReadAWeight) {
  TestGraph test;
  addChain(test, 3, 16);
  StepModel step = read(test);
  ASSERT_EQ(step.nodes.size(), 3u);
  ASSERT_EQ(step.weights.size(), 3u);
  EXPECT_EQ(step.weights[1].name(), "w1");
  EXPECT_EQ(step.weights[1].kind, "linear");
  EXPECT_FALSE(step.weights[1].staysResident);
  ASSERT_EQ(step.weights[1].reads.size(), 1u);
  EXPECT_EQ(step.weights[1].reads[0].first, 1);
  EXPECT_EQ(step.weights[1].reads[0].last, 1);
  ASSERT_EQ(step.staged.size(), 1u);
  EXPECT_EQ(step.staged[0].name, "x");
  EXPECT_EQ(step.staged[0].last, 0);
  ASSERT_EQ(step.temporaries.size(), 3u);
  EXPECT_EQ(step.temporaries[0].last, 1);
  // The output is fetched: it lives to the end of the step.
  EXPECT_EQ(step.temporaries[2].last, step.end());
  ASSERT_EQ(step.outputs.size(), 1u);
  EXPECT_EQ(step.outputs[0].madeAt, 2);
  EXPECT_EQ(step.nodes[0].flops, 2.0 * 2 * 16 * 16);
}

TEST(StepModel, BiasRidesWithItsWeight) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *w = test.constant("w", floats({16, 16}));
  Value *b = test.constant("b", floats({16}));
  Value *h = test.node("fc", "MatMul", {x, w}, floats({2, 16}));
  Value *r = test.node("relu", "Relu", {x}, floats({2, 16}));
  Value *y = test.node("bias", "Add", {h, b}, floats({2, 16}));
  test.output(test.node("sum", "Add", {y, r}, floats({2, 16})));
  StepModel step = read(test);
  ASSERT_EQ(step.weights.size(), 1u);
  ASSERT_EQ(step.weights[0].parts.size(), 2u);
  EXPECT_EQ(step.weights[0].bytes(), 1024 + 512);
  // One stretch from the product to the addition.
  ASSERT_EQ(step.weights[0].reads.size(), 1u);
  EXPECT_EQ(step.weights[0].reads[0].first, 0);
  EXPECT_EQ(step.weights[0].reads[0].last, 2);
}

TEST(StepModel, ViewsHaveNoBytesOfTheirOwn) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *w = test.constant("w", floats({16, 16}));
  Value *shape = test.constant("shape", tensorType(DataType::Int64, {1}));
  Value *wt = test.node("turn", "Transpose", {w}, floats({16, 16}));
  Value *h = test.node("fc", "MatMul", {x, wt}, floats({2, 16}));
  Value *flat = test.node("flat", "Reshape", {h, shape}, floats({32}));
  test.output(test.node("relu", "Relu", {flat}, floats({32})));
  StepModel step = read(test);
  ASSERT_EQ(step.views.size(), 2u);
  EXPECT_EQ(step.views[0].source, "w");
  EXPECT_EQ(step.views[1].source, "fc_out");
  ASSERT_EQ(step.temporaries.size(), 2u);
  EXPECT_EQ(step.temporaries[0].name, "fc_out");
  EXPECT_EQ(step.temporaries[0].last, 3); // read by relu, through the view
  ASSERT_EQ(step.weights.size(), 1u);
  EXPECT_EQ(step.weights[0].reads[0].first, 0);
  EXPECT_EQ(step.weights[0].reads[0].last, 1);
}

/// Heads of one operand of an attention: the product's parts, each with its
/// heads split and turned. Names of what makes views, in node order.
std::vector<std::string> viewsOfHeads(const std::string &reader,
                                      const Dim &batch) {
  TestGraph test;
  auto sized = [&](std::vector<int64_t> dims, std::vector<unsigned> dynamic) {
    TensorType type = floats(std::move(dims));
    for (unsigned axis : dynamic)
      type.dims[axis] = batch;
    return type;
  };
  const int64_t n = batch.bound;
  Value *x = test.input("x", sized({3, 5, n, 64}, {2}));
  Value *index = test.constant("index", tensorType(DataType::Int64, {}));
  Value *shape = test.constant("shape", tensorType(DataType::Int64, {3}));
  Value *all = test.node("all", "Relu", {x}, sized({3, 5, n, 64}, {2}));
  Value *part =
      test.node("part", "Gather", {all, index}, sized({5, n, 64}, {1}));
  TensorType heads = floats({5, n * 4, 16}), turned = floats({n * 4, 5, 16});
  if (!batch.isStatic())
    heads.dims[1] = turned.dims[0] = {n * 4, "split_axis1"};
  Value *split = test.node("split", "Reshape", {part, shape}, heads);
  Value *turn = test.node("turn", "Transpose", {split}, turned);
  turn->definingNode()->attributes["perm"] = std::vector<int64_t>{1, 0, 2};
  TensorType four = sized({n, 4, 5, 16}, {0});
  Value *grouped = test.node("grouped", "Reshape", {turn, shape}, four);
  test.output(test.node("read", reader, {grouped}, four));
  std::vector<std::string> names;
  for (const StepModel::View &view : read(test).views)
    names.push_back(view.name);
  return names;
}

TEST(StepModel, PartsAndSplitAxesAreViewsWhateverTheSizes) {
  const std::vector<std::string> all = {"part_out", "split_out", "turn_out",
                                        "grouped_out"};
  EXPECT_EQ(viewsOfHeads("Relu", {2, ""}), all);
  EXPECT_EQ(viewsOfHeads("Relu", {2, "batch"}), all);
  EXPECT_EQ(viewsOfHeads("Relu", {1, "batch"}), all);
}

TEST(StepModel, ATurnIsACopyWhereAReshapeBehindItHasAReaderWithoutStrides) {
  EXPECT_EQ(viewsOfHeads("Softmax", {2, ""}),
            (std::vector<std::string>{"part_out", "split_out", "grouped_out"}));
}

TEST(StepModel, ATurnIsACopyForAReshapeThatNoStridesReach) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 6}));
  Value *shape = test.constant("shape", tensorType(DataType::Int64, {1}));
  Value *h = test.node("h", "Relu", {x}, floats({4, 6}));
  Value *turn = test.node("turn", "Transpose", {h}, floats({6, 4}));
  Value *flat = test.node("flat", "Reshape", {turn, shape}, floats({24}));
  test.output(test.node("read", "Relu", {flat}, floats({24})));
  StepModel step = read(test);
  ASSERT_EQ(step.views.size(), 1u);
  EXPECT_EQ(step.views[0].name, "flat_out");
}

TEST(StepModel, APartThatBeginsBetweenSixteenBytesIsACopy) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 3}));
  Value *index =
      test.graph.addInitializer("index", tensorType(DataType::Int64, {}),
                                TensorData::owned({1, 0, 0, 0, 0, 0, 0, 0}));
  Value *h = test.node("h", "Relu", {x}, floats({2, 3}));
  Value *part = test.node("part", "Gather", {h, index}, floats({3}));
  test.output(test.node("read", "Relu", {part}, floats({3})));
  StepModel step = read(test);
  EXPECT_TRUE(step.views.empty());
  // The index is known before the step: nobody stages it.
  EXPECT_TRUE(step.weights.empty());
}

TEST(StepModel, TransposeIsACopyForReadersWithoutStrides) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *t = test.node("turn", "Transpose", {x}, floats({16, 2}));
  test.output(test.node("soft", "Softmax", {t}, floats({16, 2})));
  StepModel step = read(test);
  EXPECT_TRUE(step.views.empty());
  EXPECT_EQ(step.temporaries.size(), 2u);
}

TEST(StepModel, TransposeThatIsFetchedIsACopy) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  test.output(test.node("turn", "Transpose", {x}, floats({16, 2})));
  EXPECT_TRUE(read(test).views.empty());
}

TEST(StepModel, SmallConstantsOfOtherNodesStay) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 32768}));
  Value *s = test.constant("scale", floats({16}));
  Value *large = test.constant("large", floats({2, 32768}));
  Value *h = test.node("mul", "Mul", {x, large}, floats({2, 32768}));
  test.output(test.node("scaled", "Mul", {h, s}, floats({2, 32768})));
  StepModel step = read(test);
  ASSERT_EQ(step.weights.size(), 2u);
  EXPECT_FALSE(step.weights[0].staysResident); // 256 KiB
  EXPECT_TRUE(step.weights[1].staysResident);
}

TEST(StepModel, QuantizedPartsAreOneWeightAndSinkToTheirReader) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *q = test.constant("q", tensorType(DataType::Int8, {16, 16}));
  Value *s = test.constant("s", floats({16}));
  Value *z = test.constant("z", tensorType(DataType::Int8, {16}));
  Value *w =
      test.node("expand", "DequantizeLinear", {q, s, z}, floats({16, 16}));
  Value *h = test.node("relu", "Relu", {x}, floats({2, 16}));
  test.output(test.node("fc", "MatMul", {h, w}, floats({2, 16})));
  StepModel step = read(test);
  ASSERT_EQ(step.weights.size(), 1u);
  EXPECT_EQ(step.weights[0].parts.size(), 3u);
  // Expanded right before the product, though the model does so first.
  EXPECT_EQ(step.nodes[0].name, "relu");
  EXPECT_EQ(step.nodes[1].name, "expand");
  EXPECT_EQ(step.weights[0].reads[0].first, 1);
}

TEST(StepModel, LargeTablesAreLookedUpWhereIdsAreKnown) {
  TestGraph test;
  Value *ids = test.input("ids", tensorType(DataType::Int64, {3}));
  Value *table = test.constant("table", floats({4000, 64}));
  Value *w = test.constant("w", floats({64, 200}));
  Value *rows = test.node("look", "Gather", {table, ids}, floats({3, 64}));
  test.output(test.node("fc", "MatMul", {rows, w}, floats({3, 200})));

  StepModel device = read(test, false);
  EXPECT_EQ(device.weights.size(), 2u);
  ASSERT_EQ(device.staged.size(), 1u);
  EXPECT_EQ(device.staged[0].name, "ids");

  StepModel host = read(test, true);
  ASSERT_EQ(host.weights.size(), 1u);
  EXPECT_EQ(host.weights[0].name(), "w");
  ASSERT_EQ(host.lookups.size(), 1u);
  ASSERT_EQ(host.staged.size(), 1u); // the rows; ids stay on the host
  EXPECT_EQ(host.staged[0].name, "look_out");
  EXPECT_EQ(host.staged[0].bytes, 3 * 64 * 4);
  EXPECT_EQ(host.lookups[0].staged, 0u);
}

TEST(StepModel, TableStaysAWeightWhereIdsAreComputed) {
  TestGraph test;
  Value *x = test.input("x", floats({3, 7}));
  Value *h = test.node("relu", "Relu", {x}, floats({3, 7}));
  Value *ids =
      test.node("top", "ArgMax", {h}, tensorType(DataType::Int64, {3, 1}));
  Value *table = test.constant("table", floats({4000, 64}));
  Value *rows = test.node("look", "Gather", {table, ids}, floats({3, 1, 64}));
  test.output(test.node("tanh", "Tanh", {rows}, floats({3, 1, 64})));
  StepModel step = read(test, true);
  EXPECT_TRUE(step.lookups.empty());
  ASSERT_EQ(step.weights.size(), 1u);
  EXPECT_EQ(step.weights[0].kind, "embedding");
}

/// Rows that no fetched output comes after could be written anew by the next
/// step while they are still copied.
TEST(StepModel, TableStaysAWeightWhereNoOutputFollowsItsRows) {
  TestGraph test;
  Value *ids = test.input("ids", tensorType(DataType::Int64, {3}));
  Value *x = test.input("x", floats({3, 64}));
  Value *table = test.constant("table", floats({4000, 64}));
  test.output(test.node("relu", "Relu", {x}, floats({3, 64})));
  Value *rows = test.node("look", "Gather", {table, ids}, floats({3, 64}));
  test.node("dead", "Tanh", {rows}, floats({3, 64}));
  EXPECT_TRUE(read(test, true).lookups.empty());
}

TEST(StepModel, ResultsTakeOverWhatNobodyReadsLater) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *row = test.input("row", floats({16}));
  Value *a = test.node("a", "Relu", {x}, floats({2, 16}));   // x is a feed
  Value *b = test.node("b", "Tanh", {a}, floats({2, 16}));   // a is read by d
  Value *c = test.node("c", "Neg", {b}, floats({2, 16}));    // over b
  Value *d = test.node("d", "Add", {c, a}, floats({2, 16})); // over c, so b
  Value *e = test.node("e", "Mul", {d, d}, floats({2, 16})); // reads d twice
  Value *f = test.node("f", "Cast", {e}, floats({2, 16}));   // not by its row
  Value *r = test.node("r", "Neg", {row}, floats({16}));
  Value *g = test.node("g", "Add", {r, f}, floats({2, 16})); // r is smaller
  test.output(g);
  test.output(test.node("h", "Neg", {g}, floats({2, 16}))); // g is an output
  StepModel step = read(test);
  ASSERT_EQ(step.takeOvers.size(), 2u);
  EXPECT_EQ(step.takeOvers[0].name, "c_out");
  EXPECT_EQ(step.takeOvers[0].source, "b_out");
  EXPECT_EQ(step.takeOvers[1].name, "d_out");
  EXPECT_EQ(step.takeOvers[1].source, "c_out");
  ASSERT_EQ(step.temporaries.size(), 7u); // a b e f r g h
  EXPECT_EQ(step.temporaries[1].name, "b_out");
  EXPECT_EQ(step.temporaries[1].last, 4); // read as d by e
}

TEST(StepModel, NothingIsTakenOverThatAViewStillNames) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  Value *shape = test.constant("shape", tensorType(DataType::Int64, {1}));
  Value *a = test.node("a", "Relu", {x}, floats({2, 16}));
  Value *v = test.node("v", "Reshape", {a, shape}, floats({32}));
  test.output(test.node("b", "Neg", {a}, floats({2, 16})));
  test.output(test.node("c", "Neg", {v}, floats({32})));
  EXPECT_TRUE(read(test).takeOvers.empty());
}

TEST(StepModel, RefusesWhatHasNoBound) {
  TestGraph test;
  TensorType type = floats({2, 4});
  type.dims[0] = {Dim::kUnbound, "n"};
  Value *x = test.input("x", type);
  test.output(test.node("relu", "Relu", {x}, type));
  llvm::Expected<StepModel> step = readStep(test.graph, false);
  ASSERT_FALSE(bool(step));
  std::string message = llvm::toString(step.takeError());
  EXPECT_NE(message.find("'x' at [relu] (Relu) has no bound"),
            std::string::npos)
      << message;
}

TEST(StepModel, DropoutIsAViewInInferenceAndRefusedInTraining) {
  auto dropout = [](uint8_t mode, bool isFed) {
    auto test = std::make_unique<TestGraph>();
    Value *x = test->input("x", floats({4}));
    TensorType flag = tensorType(DataType::Bool, {});
    Value *training = isFed ? test->input("training", flag)
                            : test->graph.addInitializer(
                                  "training", flag, TensorData::owned({mode}));
    test->output(
        test->node("drop", "Dropout", {x, nullptr, training}, floats({4})));
    return test;
  };
  EXPECT_EQ(read(*dropout(0, false)).views.size(), 1u);
  EXPECT_EQ(read(*dropout(0, true)).views.size(), 0u);
  llvm::Expected<StepModel> step = readStep(dropout(1, false)->graph, false);
  ASSERT_FALSE(bool(step));
  EXPECT_NE(llvm::toString(step.takeError()).find("is in training mode"),
            std::string::npos);
}

TEST(StepModel, RefusesState) {
  TestGraph test;
  Value *x = test.input("x", floats({4}));
  Value *y = test.node("relu", "Relu", {x}, floats({4}));
  test.output(y);
  test.graph.states["x"] = "relu_out";
  llvm::Expected<StepModel> step = readStep(test.graph, false);
  ASSERT_FALSE(bool(step));
  EXPECT_NE(llvm::toString(step.takeError()).find("'x' is a state"),
            std::string::npos);
}

} // namespace
