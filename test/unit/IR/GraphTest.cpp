// Edits of a graph: names, users and order stay right, and verify sees when
// they are not.

#include "offload/IR/Graph.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

TensorType floats(std::initializer_list<int64_t> sizes) {
  TensorType type;
  type.elem = DataType::Float;
  type.hasRank = true;
  for (int64_t size : sizes)
    type.dims.push_back(Dim{size, ""});
  return type;
}

TensorData zeros(int64_t bytes) {
  return TensorData::owned(std::vector<uint8_t>(bytes));
}

std::string verified(const Graph &graph) {
  return llvm::toString(graph.verify());
}

/// y = Relu (Gemm (x, w)), w a constant.
class GraphTest : public testing::Test {
protected:
  void SetUp() override {
    x = graph.addInput("x", floats({2, 4}));
    w = graph.addInitializer("w", floats({4, 3}), zeros(48));
    gemm = graph.addNode("fc", "", "Gemm", {x, w, nullptr}, {"h"});
    h = gemm->result();
    relu = graph.addNode("act", "", "Relu", {h}, {"y"});
    y = relu->result();
    graph.addOutput(y);
    ASSERT_EQ(verified(graph), "");
  }

  Graph graph;
  Value *x, *w, *h, *y;
  Node *gemm, *relu;
};

TEST_F(GraphTest, LinksNodesAndValues) {
  EXPECT_EQ(graph.findValue("h"), h);
  EXPECT_EQ(graph.findNode("fc"), gemm);
  EXPECT_EQ(graph.findValue("z"), nullptr);
  EXPECT_TRUE(x->isGraphInput());
  EXPECT_FALSE(x->isConstant());
  EXPECT_TRUE(w->isConstant());
  EXPECT_EQ(h->definingNode(), gemm);
  EXPECT_EQ(h->users().size(), 1u);
  EXPECT_EQ(gemm->operands().size(), 3u);
  EXPECT_EQ(gemm->operand(2), nullptr);
  EXPECT_EQ(gemm->operand(9), nullptr);
  EXPECT_TRUE(graph.isOutput(y));
}

TEST_F(GraphTest, AnInputWithADefaultIsNoConstant) {
  Value *d = graph.addInput("d", floats({1}), zeros(4));
  EXPECT_FALSE(d->isConstant());
  EXPECT_FALSE(d->data.empty());
}

TEST_F(GraphTest, NamesStayUnique) {
  EXPECT_EQ(graph.uniqueValueName("z"), "z");
  EXPECT_EQ(graph.uniqueValueName("x"), "x_2");
  graph.addInput("x_2", floats({1}));
  EXPECT_EQ(graph.uniqueValueName("x"), "x_3");
  EXPECT_EQ(graph.uniqueNodeName("fc"), "fc_2");
  graph.inserts["stage_w"];
  graph.plannedValues["w_fly"];
  EXPECT_EQ(graph.uniqueNodeName("stage_w"), "stage_w_2");
  EXPECT_EQ(graph.uniqueValueName("w_fly"), "w_fly_2");
}

TEST_F(GraphTest, ANodeThatReadsAValueTwiceIsTwoUsers) {
  Node *mul = graph.addNode("square", "", "Mul", {h, h}, {"s"});
  EXPECT_EQ(h->users().size(), 3u);
  mul->setOperand(0, x);
  EXPECT_EQ(h->users().size(), 2u);
  EXPECT_EQ(verified(graph), "");
  graph.replaceAllUses(h, x);
  EXPECT_TRUE(h->users().empty());
  EXPECT_EQ(x->users().size(), 4u);
  EXPECT_EQ(verified(graph), "");
}

TEST_F(GraphTest, ReplacingKeepsTheExceptionAndMovesOutputsAndStates) {
  Value *s = graph.addInput("s", floats({2, 3}));
  graph.states["s"] = "y";
  Node *copy = graph.addNode("copy", "", "Identity", {y}, {"y_copy"});
  graph.replaceAllUses(y, copy->result(), copy);
  EXPECT_EQ(copy->operand(0), y);
  EXPECT_EQ(graph.outputs()[0], copy->result());
  EXPECT_EQ(graph.states["s"], "y_copy");
  EXPECT_EQ(verified(graph), "");
  (void)s;
}

TEST_F(GraphTest, RenamingCarriesStatesAndProperties) {
  h->properties.set("view", "x");
  graph.inserts["stage_x"].set("op", "Stage");
  graph.inserts["stage_x"].setList("of", {"w", "x"});
  graph.plannedValues["x_fly"].set("inplace", "x");
  graph.states["x"] = "y";
  graph.renameValue(x, "x in");
  graph.renameValue(y, "out");
  EXPECT_EQ(graph.findValue("x"), nullptr);
  EXPECT_EQ(graph.findValue("x in"), x);
  EXPECT_EQ(h->properties.getList("view"), std::vector<std::string>{"x in"});
  EXPECT_EQ(graph.inserts["stage_x"].getList("of"),
            (std::vector<std::string>{"w", "x in"}));
  EXPECT_EQ(graph.plannedValues["x_fly"].getList("inplace"),
            std::vector<std::string>{"x in"});
  EXPECT_EQ(graph.states.at("x in"), "out");
}

TEST_F(GraphTest, ErasesNodesAndValues) {
  Node *dead = graph.addNode("dead", "", "Split", {h}, {"a", "", "b"});
  EXPECT_EQ(dead->result(1), nullptr);
  graph.eraseValue(dead->result(0));
  EXPECT_EQ(dead->result(0), nullptr);
  EXPECT_EQ(verified(graph), "");
  graph.eraseNode(dead);
  EXPECT_EQ(graph.findValue("b"), nullptr);
  EXPECT_EQ(h->users().size(), 1u);
  Value *unused = graph.addInitializer("u", floats({1}), zeros(4));
  graph.eraseValue(unused);
  EXPECT_EQ(graph.initializers().size(), 1u);
  Value *spare = graph.addInput("spare", floats({1}));
  graph.eraseValue(spare);
  EXPECT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(verified(graph), "");
}

TEST_F(GraphTest, MovesAndInsertsBefore) {
  Node *late = graph.addNode("late", "", "Relu", {x}, {"r"});
  graph.moveBefore(late, gemm);
  Node *first = graph.addNode("first", "", "Abs", {x}, {"a"}, late);
  std::vector<llvm::StringRef> order;
  for (const Node &node : graph.nodeList())
    order.push_back(node.name());
  EXPECT_EQ(order,
            (std::vector<llvm::StringRef>{"first", "late", "fc", "act"}));
  graph.moveBefore(first, nullptr);
  EXPECT_EQ(graph.nodeList().back().name(), "first");
  EXPECT_EQ(verified(graph), "");
}

TEST_F(GraphTest, OutputsAreAListOfTheirOwn) {
  graph.addOutput(h);
  graph.setOutput(0, h);
  graph.removeOutput(h);
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.outputs()[0], h);
}

TEST_F(GraphTest, QueueIsOfThePropertyThenOfTheRow) {
  EXPECT_EQ(gemm->queue(), Queue::Compute);
  Node *stage = graph.addNode("stage", "offload", "Stage", {w, nullptr}, {"f"});
  ASSERT_NE(stage->info, nullptr);
  EXPECT_TRUE(stage->isOffload("Stage"));
  EXPECT_EQ(stage->queue(), Queue::H2D);
  gemm->properties.set("queue", "host");
  EXPECT_EQ(gemm->queue(), Queue::Host);
}

//===-- verify ------------------------------------------------------------===//

TEST_F(GraphTest, VerifyFindsAReadBeforeItsMaker) {
  graph.moveBefore(relu, gemm);
  EXPECT_EQ(verified(graph), "[act] reads 'h' before it is made");
}

TEST_F(GraphTest, VerifyFindsStatesWithoutInputOrOutput) {
  graph.states["h"] = "y";
  EXPECT_EQ(verified(graph), "state 'h' is no input of the graph");
  graph.states = {{"x", "h"}};
  EXPECT_NE(verified(graph).find("is no output"), std::string::npos);
  graph.addInput("x2", floats({1}));
  graph.states = {{"x", "y"}, {"x2", "y"}};
  EXPECT_EQ(verified(graph), "output 'y' is the next value of two states");
}

TEST_F(GraphTest, VerifyFindsInsertsThatNameNothing) {
  graph.inserts["stage_w"].set("before", "nowhere");
  EXPECT_EQ(verified(graph),
            "insert 'stage_w' goes before 'nowhere', which is no node");
  graph.inserts["stage_w"].set("before", "wait_w");
  graph.inserts["wait_w"].set("before", "fc");
  EXPECT_EQ(verified(graph), "");
  graph.inserts["fc"].set("before", "act");
  EXPECT_NE(verified(graph).find("is a node already"), std::string::npos);
}

//===-- types and errors --------------------------------------------------===//

TEST(TensorTypeTest, CountsBytesAtTheBound) {
  TensorType type = floats({3, 5});
  EXPECT_EQ(type.bytesAtBound(), 60);
  type.dims[0] = Dim{7, "batch"};
  EXPECT_TRUE(type.isBounded());
  EXPECT_FALSE(type.dims[0].isStatic());
  EXPECT_EQ(type.bytesAtBound(), 140);
  type.elem = DataType::Int4;
  EXPECT_EQ(type.bytesAtBound(), 18); // 35 halves of bytes
  type.dims[1] = Dim{};
  EXPECT_FALSE(type.isBounded());
}

TEST(ErrorTest, IsOneLine) {
  EXPECT_EQ(llvm::toString(makeError("a\n  b\r\n\n\tc\n")), "a b c");
}

TEST(FormTest, NamesAreReadBack) {
  for (Form form : {Form::Imported, Form::Planned, Form::Scheduled})
    EXPECT_EQ(parseForm(formName(form)), form);
  EXPECT_EQ(parseForm("planned"), std::nullopt);
}

} // namespace
