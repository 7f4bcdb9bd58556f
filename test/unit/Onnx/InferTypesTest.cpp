// Types at the bound of dynamic dimensions, `--dim`, and folding.

#include "offload/Onnx/Import.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace offload;

namespace {

ImportOptions dims(std::vector<std::string> arguments) {
  ImportOptions options;
  options.dims = std::move(arguments);
  return options;
}

std::string model(const std::string &rest) {
  return "<ir_version: 10, opset_import: [\"\": 21]> g " + rest;
}

std::unique_ptr<Graph> read(const std::string &text,
                            std::vector<std::string> arguments = {}) {
  auto graph = importText(text, ".", dims(std::move(arguments)));
  if (!graph) {
    ADD_FAILURE() << llvm::toString(graph.takeError());
    return std::make_unique<Graph>();
  }
  return std::move(*graph);
}

std::string error(const std::string &text,
                  std::vector<std::string> arguments = {}) {
  auto graph = importText(text, ".", dims(std::move(arguments)));
  EXPECT_FALSE(static_cast<bool>(graph));
  return graph ? std::string() : llvm::toString(graph.takeError());
}

/// "4", "batch<=4", "batch" without bound, "?".
std::string shape(const Graph &graph, const char *name) {
  const Value *value = graph.findValue(name);
  if (!value)
    return "no such value";
  std::string text;
  for (const Dim &dim : value->type.dims) {
    text += text.empty() ? "" : " ";
    if (dim.isStatic())
      text += std::to_string(dim.bound);
    else if (dim.bound >= 0)
      text += dim.name + "<=" + std::to_string(dim.bound);
    else
      text += dim.name.empty() ? "?" : dim.name;
  }
  return text;
}

std::vector<int64_t> ints(const Graph &graph, const char *name) {
  const Value *value = graph.findValue(name);
  if (!value || !value->isConstant())
    return {-999};
  std::vector<int64_t> numbers(value->data.sizeBytes() / 8);
  std::memcpy(numbers.data(), value->data.bytes().data(), numbers.size() * 8);
  return numbers;
}

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::string kTwoInputs = model(R"(
  (float[batch,seq,8] x, float[batch,8] c, float[N,?] z)
  => (float[p,q,r] y, float[a,b] d) {
    y = Relu (x)
    d = Identity (z)
  })");

TEST(DimTest, FixesAndBoundsByNameInAllInputs) {
  std::string text = model(R"((float[batch,8] x, float[batch,8] c)
    => (float[batch,8] y) { y = Add (x, c) })");
  auto fixed = read(text, {"batch=4"});
  EXPECT_EQ(shape(*fixed, "x"), "4 8");
  EXPECT_EQ(shape(*fixed, "y"), "4 8");
  auto bound = read(text, {"batch<=4"});
  EXPECT_EQ(shape(*bound, "c"), "batch<=4 8");
  EXPECT_EQ(shape(*bound, "y"), "batch<=4 8");
  EXPECT_EQ(bound->modelProperties.at("offload.dims"), "batch<=4");
  auto open = read(text);
  EXPECT_EQ(shape(*open, "y"), "batch 8");
}

TEST(DimTest, TellsApartByAxisWhatSharesAName) {
  std::string text = model(R"((float[n,8] x, float[n,8] c)
    => (float[n,8] y, float[n,8] d) { y = Relu (x) d = Relu (c) })");
  auto graph = read(text, {"x:0<=3", "c:0<=5"});
  EXPECT_EQ(shape(*graph, "y"), "x_axis0<=3 8");
  EXPECT_EQ(shape(*graph, "d"), "c_axis0<=5 8");
  auto mixed = read(text, {"x:0=3", "n<=5"});
  EXPECT_EQ(shape(*mixed, "y"), "3 8");
  EXPECT_EQ(shape(*mixed, "d"), "n<=5 8");
  auto single = read(model("(float[m,8] x) => (float[m,8] y) { y = Relu (x) }"),
                     {"x:0<=3"});
  EXPECT_EQ(shape(*single, "y"), "m<=3 8") << "its own name is kept";
}

TEST(DimTest, NamesWhatHasNoName) {
  auto graph = read(model("(float[?,8] x) => (float[?,8] y) { y = Relu (x) }"),
                    {"x:0<=48"});
  EXPECT_EQ(shape(*graph, "x"), "x_axis0<=48 8");
  EXPECT_EQ(shape(*graph, "y"), "x_axis0<=48 8");
  auto fixed = read(model("(float[?,8] x) => (float[?,8] y) { y = Relu (x) }"),
                    {"x:0=48", "x:1=8"});
  EXPECT_EQ(shape(*fixed, "y"), "48 8");
}

TEST(DimTest, RefusesArgumentsThatNameNothingOrContradict) {
  EXPECT_EQ(error(kTwoInputs, {"bach=4"}),
            "--dim 'bach=4' names no dynamic dimension of an input; there are "
            "'batch' = 'x:0', 'seq' = 'x:1', 'batch' = 'c:0', 'N' = 'z:0', "
            "'z:1'");
  EXPECT_HAS(error(kTwoInputs, {"w:0=4"}), "names no dynamic dimension");
  EXPECT_HAS(error(kTwoInputs, {"x:3=4"}), "input 'x' has no axis 3");
  EXPECT_HAS(error(kTwoInputs, {"x:2=9"}), "has the fixed size 8");
  EXPECT_HAS(error(kTwoInputs, {"batch=4", "batch<=5"}),
             "are for one dimension");
  for (const char *bad : {"batch", "batch=", "=4", "batch=four", "batch=-1",
                          "batch<=0", "batch<4", ""})
    EXPECT_HAS(error(kTwoInputs, {bad}), "is not of the form") << bad;
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) { y = Relu (x) }"),
                   {"batch=4"}),
             "there are none");
}

TEST(DimTest, ListsWhatAPlanNeeds) {
  auto graph = read(kTwoInputs, {"seq<=7"});
  EXPECT_EQ(
      llvm::toString(requireBoundedInputs(*graph)),
      "dimension 'batch' of input 'x' (axis 0) has no size: give --dim "
      "'batch=N' or --dim 'batch<=N'; dimension 'N' of input 'z' (axis 0) has "
      "no size: give --dim 'N=N' or --dim 'N<=N'; dimension of input 'z' (axis "
      "1) has no size: give --dim 'z:1=N' or --dim 'z:1<=N'");
  auto all = read(kTwoInputs, {"seq<=7", "batch=1", "N<=3", "z:1<=4"});
  EXPECT_EQ(llvm::toString(requireBoundedInputs(*all)), "");
}

TEST(DimTest, ASchedulesBoundsAreItsOwnUntilOthersAreGiven) {
  std::string text = R"(<ir_version: 10, opset_import: ["": 21],
    metadata_props: ["offload.form": "Scheduled",
                     "offload.dims": "my%20n<=4 old=2"]>
    g (float["my n",8] x) => (float["my n",8] y) { y = Relu (x) })";
  auto same = read(text);
  EXPECT_EQ(shape(*same, "y"), "my n<=4 8");
  EXPECT_FALSE(same->planIsStale);
  auto again = read(text, {"my n<=4"});
  EXPECT_FALSE(again->planIsStale);
  auto other = read(text, {"my n<=6"});
  EXPECT_EQ(shape(*other, "y"), "my n<=6 8");
  EXPECT_TRUE(other->planIsStale);
  EXPECT_EQ(other->modelProperties.at("offload.dims"), "my%20n<=6 old=2");
}

//===-- inference ---------------------------------------------------------===//

TEST(InferTest, NamesSurviveAndBoundsAreComputed) {
  auto graph = read(model(R"((float[batch,seq,8] x, float[8,16] w)
    => (float[a,b,c] y, float[d,e] z) {
    y = MatMul (x, w)
    z = Flatten <axis: int = 2> (y)
  })"),
                    {"batch<=2", "seq<=5"});
  EXPECT_EQ(shape(*graph, "y"), "batch<=2 seq<=5 16");
  EXPECT_EQ(shape(*graph, "z"), "d<=10 16") << "no name of the inputs' fits";
}

TEST(InferTest, ShapeArithmeticIsFoldedWhereItIsStatic) {
  // Axis 1 and 2 are static though axis 0 is not.
  auto graph = read(model(R"((float[batch,6,4] x) => (float[p,q] y) {
    s = Shape (x)
    one = Constant <value_int: int = 1> ()
    two = Constant <value_int: int = 2> ()
    d1 = Gather (s, one)
    d2 = Gather (s, two)
    n = Mul (d1, d2)
    axis = Constant <value_ints: ints = [0]> ()
    n1 = Unsqueeze (n, axis)
    minus = Constant <value_ints: ints = [-1]> ()
    target = Concat <axis: int = 0> (minus, n1)
    y = Reshape (x, target)
  })"),
                    {"batch<=3"});
  EXPECT_EQ(ints(*graph, "target"), (std::vector<int64_t>{-1, 24}));
  ASSERT_EQ(graph->nodeList().size(), 1u) << "the chain is gone";
  EXPECT_EQ(graph->findValue("s"), nullptr);
  EXPECT_EQ(graph->findValue("two"), nullptr);
  EXPECT_EQ(graph->findValue("y")->type.dims[0].bound, 3);
  EXPECT_FALSE(graph->findValue("y")->type.dims[0].isStatic());
  EXPECT_EQ(graph->findValue("y")->type.dims[1], (Dim{24, ""}));
}

TEST(InferTest, WhatDependsOnABoundIsNeverFolded) {
  const std::string text = model(R"((float[batch,6] x) => (float[a,b] y) {
    s = Shape (x)
    zero = Constant <value_ints: ints = [0]> ()
    b = Gather (s, zero)
    two = Constant <value_ints: ints = [2]> ()
    b2 = Mul (b, two)
    three = Constant <value_ints: ints = [3]> ()
    target = Concat <axis: int = 0> (b2, three)
    y = Reshape (x, target)
  })");
  auto bound = read(text, {"batch<=4"});
  EXPECT_EQ(bound->nodeList().size(), 5u);
  EXPECT_EQ(shape(*bound, "y"), "a<=8 3");
  auto fixed = read(text, {"batch=4"});
  EXPECT_EQ(fixed->nodeList().size(), 1u);
  EXPECT_EQ(ints(*fixed, "target"), (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(shape(*fixed, "y"), "8 3");
}

TEST(InferTest, SizesThatDependOnContentsAreAtTheBound) {
  auto graph = read(model(R"((float[n,2] x) => (int64[m] r, float[k,2] e) {
    zero = Constant <value_int: int = 0> ()
    one = Constant <value_int: int = 1> ()
    s = Shape (x)
    first = Gather (s, zero)
    r = Range (zero, first, one)
    zeros = Constant <value_ints: ints = [0]> ()
    two = Constant <value_ints: ints = [2]> ()
    top = Unsqueeze (first, zeros)
    shape = Concat <axis: int = 0> (top, two)
    e = Expand (x, shape)
  })"),
                    {"n<=9"});
  EXPECT_EQ(graph->findValue("r")->type.dims[0].bound, 9);
  EXPECT_FALSE(graph->findValue("r")->type.dims[0].isStatic());
  EXPECT_EQ(shape(*graph, "e"), "n<=9 2");
}

TEST(InferTest, ADefaultThatACallerMayReplaceIsNotFolded) {
  auto graph = read(model(R"((float[2,3] x, int64[2] t) => (float[p,q] y)
    <int64[2] t = {3, 2}> { u = Add (t, t) v = Sub (u, t) y = Reshape (x, v) }
  )"));
  EXPECT_EQ(graph->nodeList().size(), 3u);
  EXPECT_EQ(graph->findValue("y")->type.dims[0].bound, Dim::kUnbound);
}

TEST(InferTest, WeightsBehindViewsStayWeights) {
  auto graph = read(model(R"((float[2,2] x) => (float[2,3] y)
    <float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[2] s = {2, 3}> {
    i = Identity (w)
    t = Transpose (i)
    r = Reshape (t, s)
    y = MatMul (x, r)
  })"));
  EXPECT_EQ(graph->nodeList().size(), 4u);
}

std::vector<std::string> foldedNodes(const Graph &graph) {
  std::vector<std::string> names;
  for (const FoldedNode &node : graph.folded)
    names.push_back(node.name);
  return names;
}

TEST(InferTest, HowDataWasFoldedIsKept) {
  auto graph = read(model(R"((float[2,3] x) => (float[2,3] y)
    <float[3] w = {1, 2, 3}, float v = {2}, int64[1] one = {1},
     int64[1] three = {3}, float unread = {4}> {
    [view] r = Reshape (w, three)
    [scale] s = Mul (r, v)
    [again] t = Add (s, w)
    [sizes] n = Add (one, one)
    [more] m = Add (n, one)
    [flat] u = Reshape (x, d)
    [cat] d = Concat <axis: int = 0> (n, m)
    [use] y = Mul (u, t)
  })"));
  EXPECT_EQ(foldedNodes(*graph),
            (std::vector<std::string>{"view", "scale", "again"}))
      << "what sizes are made of is forgotten";
  EXPECT_EQ(graph->nodeList().size(), 2u);
  for (const char *kept : {"w", "v", "three", "t", "unread"})
    ASSERT_NE(graph->findValue(kept), nullptr) << kept;
  for (const char *gone : {"one", "n", "m", "s", "r"})
    EXPECT_EQ(graph->findValue(gone), nullptr) << gone;
  EXPECT_TRUE(graph->findValue("w")->users().empty());
  EXPECT_EQ(graph->folded[1].operands, (std::vector<std::string>{"r", "v"}));
  graph->renameValue(graph->findValue("v"), "velocity");
  EXPECT_EQ(graph->folded[1].operands[1], "velocity");
}

TEST(InferTest, WhatFollowsFromShapesHasNoSource) {
  auto graph = read(model(R"((float[2,4] x) => (float[2,4] y) {
    s = Shape <start: int = 1> (x)
    f = Cast <to: int = 1> (s)
    r = Sqrt (f)
    y = Div (x, r)
  })"));
  EXPECT_EQ(graph->nodeList().size(), 1u);
  // The folded shape is the constant that the rest is made of.
  EXPECT_EQ(foldedNodes(*graph).size(), 2u);
  ASSERT_NE(graph->findValue("s"), nullptr);
  EXPECT_TRUE(graph->findValue("s")->isConstant());
}

TEST(InferTest, AFoldedOutputKeepsItsName) {
  auto graph = read(model(R"((float[2,3] x) => (float[2,3] y, int64[2] s) {
    y = Relu (x)
    s = Shape (x)
  })"));
  ASSERT_EQ(graph->outputs().size(), 2u);
  EXPECT_EQ(graph->outputs()[1]->name(), "s");
  EXPECT_EQ(ints(*graph, "s"), (std::vector<int64_t>{2, 3}));
}

TEST(InferTest, DeclaredTypesFillAndContradict) {
  auto filled = read(model(R"((float[2,3] x, int64[2] t) => (float[3,2] y)
    { y = Reshape (x, t) })"));
  EXPECT_EQ(shape(*filled, "y"), "3 2");
  EXPECT_EQ(error(model("(float[4] x) => (float[5] y) { [n] y = Relu (x) }")),
            "'y' is declared float[5], and [n] makes float[4]");
  EXPECT_HAS(error(model("(float[4] x) => (int64[4] y) { [n] y = Relu (x) }")),
             "'y' is declared int64[4]");
  EXPECT_HAS(error(model("(float[4] x) => (float[2,2] y) "
                         "{ [n] y = Relu (x) }")),
             "'y' is declared float[2,2]");
}

TEST(InferTest, NamesTheNodeWhoseOperandsDoNotFit) {
  EXPECT_HAS(error(model("(float[2,3] x, float[4,5] w) => (float[2,5] y) "
                         "{ [fc] y = MatMul (x, w) }")),
             "[fc] (MatMul) does not fit its operands");
  EXPECT_HAS(error(model("(float[2,3] x, float[n,5] w) => (float[2,5] y) "
                         "{ [fc] y = MatMul (x, w) }"),
                   {"n<=4"}),
             "[fc] (MatMul)");
}

/// Operators that ONNX gives a body, and no rule.
TEST(InferTest, OperatorsWithoutARuleAreTyped) {
  auto at = [](int opset, const std::string &rest) {
    return "<ir_version: 10, opset_import: [\"\": " + std::to_string(opset) +
           "]> g " + rest;
  };
  const std::vector<std::string> bound = {"b<=7"};
  for (const char *op : {"GreaterOrEqual", "LessOrEqual"}) {
    auto compared =
        read(at(13, "(float[b,4] x, float[4] c) => (bool[p,q] y) { y = " +
                        std::string(op) + " (x, c) }"),
             bound);
    EXPECT_EQ(shape(*compared, "y"), "b<=7 4") << op;
  }
  auto grouped = read(at(21, "(float[b,4,3] x, float[4] s, float[4] c) => "
                             "(float[p,q,r] y) { y = GroupNormalization "
                             "<num_groups: int = 2> (x, s, c) }"),
                      bound);
  EXPECT_EQ(shape(*grouped, "y"), "b<=7 4 3");
  auto centred = read(at(13, "(float[b,4,3,5] x) => (float[p,q,r,s] y) "
                             "{ y = MeanVarianceNormalization (x) }"),
                      bound);
  EXPECT_EQ(shape(*centred, "y"), "b<=7 4 3 5");
}

TEST(InferTest, OffloadOperatorsHaveTypesOfTheirOwn) {
  auto graph = read(R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
    metadata_props: ["offload.form": "Scheduled"]>
    g (float[4] w, bfloat16[4] g, float[4] m, float[4] v, float lr, float b1,
       float b2, float e, float d, int64 t, bool apply)
    => (float[4] w_next, float[4] m_next, float[4] v_next, bool token) {
    w_fly = offload.Stage (w, "")
    w_dev = offload.Wait (w_fly, "")
    r1 = offload.Release (w_dev)
    r2 = offload.Release (w_dev)
    token = offload.Join (r1, r2)
    w_next, m_next, v_next =
      offload.AdamW (w, g, m, v, lr, b1, b2, e, d, t, apply)
  })");
  EXPECT_EQ(graph->findValue("w_dev")->type, graph->findValue("w")->type);
  EXPECT_EQ(graph->findValue("token")->type.elem, DataType::Bool);
  EXPECT_TRUE(graph->findValue("token")->type.dims.empty());
  EXPECT_EQ(graph->findValue("v_next")->type, graph->findValue("v")->type);
}

TEST(InferTest, PassesAskAgainForWhatTheyAdd) {
  auto graph = read(model("(float[2,3] x) => (float[2,3] y) { y = Relu (x) }"));
  Node *made =
      graph->addNode("flat", "", "Flatten", {graph->findValue("y")}, {"f"});
  TensorType odd = graph->findValue("x")->type;
  odd.dims[0].bound = 7;
  graph->findValue("y")->type = odd;
  ASSERT_EQ(llvm::toString(inferTypes(*graph)), "");
  EXPECT_EQ(made->sinceVersion, 21);
  ASSERT_NE(made->info, nullptr);
  EXPECT_EQ(shape(*graph, "f"), "7 3") << "typed values keep their type";
}

} // namespace
