// Where values live, whose bytes they are, and whose places they take.

#include "../Schedule/TestGraph.h"

#include "offload/Analysis/GraphTimeline.h"

using namespace offload;

namespace {

Value *offloadNode(TestGraph &test, const std::string &name,
                   const std::string &op, std::vector<Value *> operands) {
  Node *made =
      test.graph.addNode(name, "offload", op, operands, {name + "_out"});
  made->result()->type = floats({4, 8});
  return made->result();
}

void onQueue(Value *value, std::string_view queue) {
  value->definingNode()->properties.set("queue", queue);
}

TEST(ValueHomes, OfWhatIsLoadedAndWhatQueuesMake) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *c = test.constant("c", floats({4, 8}));
  Value *r = test.constant("r", floats({4, 8}));
  r->properties.set("residency", "resident");
  Value *fly = offloadNode(test, "stage", "Stage", {x, nullptr});
  Value *dev = offloadNode(test, "wait", "Wait", {fly, nullptr});
  Value *h = test.node("add", "Add", {dev, r}, floats({4, 8}));
  Value *host = offloadNode(test, "fetch", "Fetch", {h, nullptr});
  Value *onHost = test.node("neg", "Neg", {host}, floats({4, 8}));
  onQueue(onHost, "host");
  Value *shape = test.node("shape", "Shape", {h}, floats({2}));
  Value *token = offloadNode(test, "release", "Release", {h});
  Value *both = offloadNode(test, "join", "Join", {token, host});
  auto home = [&](const Value *value) { return homeOf(test.graph, *value); };
  EXPECT_EQ(home(x), Home::Host);
  EXPECT_EQ(home(c), Home::Host);
  EXPECT_EQ(home(r), Home::Device);
  EXPECT_EQ(home(fly), Home::Device);
  EXPECT_EQ(home(dev), Home::Device);
  EXPECT_EQ(home(h), Home::Device);
  EXPECT_EQ(home(host), Home::Host);
  EXPECT_EQ(home(onHost), Home::Host);
  EXPECT_EQ(home(shape), Home::Launch);
  EXPECT_EQ(home(token), Home::Token);
  EXPECT_EQ(home(both), Home::Token);
  EXPECT_TRUE(isFeed(test.graph, *x));
  EXPECT_FALSE(isFeed(test.graph, *c));
}

TEST(ValueHomes, AWaitMovesNothing) {
  TestGraph test;
  Value *c = test.constant("c", floats({4, 8}));
  Value *w = offloadNode(test, "wait", "Wait", {c, nullptr});
  Value *again = offloadNode(test, "wait_again", "Wait", {w, nullptr});
  EXPECT_EQ(homeOf(test.graph, *again), Home::Host);
  EXPECT_EQ(rootOf(*again), c);
  EXPECT_FALSE(runsKernel(*again->definingNode()));
}

TEST(ValueHomes, OfStatesByTheirNextValues) {
  TestGraph test;
  Value *idle = test.input("idle", tensorType(DataType::Bool, {}));
  Value *count = test.input("count", tensorType(DataType::Int64, {}));
  Value *left = test.input("left", floats({4, 8}));
  Value *right = test.input("right", floats({4, 8}));
  Value *head = test.input("head", floats({4, 8}));
  head->properties.set("residency", "resident");
  Value *free = offloadNode(test, "release", "Release", {head});
  Value *counted = test.node("next", "Neg", {count}, count->type);
  onQueue(counted, "launch");
  Value *toLeft = offloadNode(test, "wait_r", "Wait", {right, nullptr});
  Value *toRight = offloadNode(test, "wait_l", "Wait", {left, nullptr});
  Value *updated = test.node("update", "Neg", {head}, floats({4, 8}));
  for (Value *next : {free, counted, toLeft, toRight, updated})
    test.output(next);
  test.graph.states = {{"idle", "release_out"},
                       {"count", "next_out"},
                       {"left", "wait_r_out"},
                       {"right", "wait_l_out"},
                       {"head", "update_out"}};
  EXPECT_EQ(homeOf(test.graph, *idle), Home::Token);
  EXPECT_EQ(homeOf(test.graph, *count), Home::Launch);
  EXPECT_EQ(homeOf(test.graph, *head), Home::Device);
  // Two that name each other: no home is looked for in a circle.
  EXPECT_EQ(homeOf(test.graph, *left), Home::Host);
  EXPECT_EQ(homeOf(test.graph, *toLeft), Home::Host);
  EXPECT_EQ(nextOfState(test.graph, *head), updated);
  EXPECT_EQ(stateOfNext(test.graph, *updated), head);
  EXPECT_EQ(stateOfNext(test.graph, *head), nullptr);
  EXPECT_FALSE(isFeed(test.graph, *count));
}

TEST(ValueHomes, ViewsFollowOperandsAndNotNames) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *fly = offloadNode(test, "stage", "Stage", {x, nullptr});
  Value *dev = offloadNode(test, "wait", "Wait", {fly, nullptr});
  Value *turned = test.node("turn", "Transpose", {dev}, floats({8, 4}));
  turned->properties.set("view", "turn_out"); // itself: a name is not followed
  Value *same = test.node("same", "Identity", {turned}, floats({8, 4}));
  same->properties.set("view", "stage_out");
  EXPECT_EQ(rootOf(*same), fly);
  EXPECT_EQ(sourceOf(*same), turned);
  EXPECT_EQ(sourceOf(*turned), dev);
  EXPECT_EQ(sourceOf(*fly), nullptr);
  EXPECT_TRUE(isStrided(*same));
  EXPECT_FALSE(isStrided(*dev));
  EXPECT_FALSE(runsKernel(*same->definingNode()));
  // On the host nothing is a view.
  onQueue(same, "host");
  EXPECT_EQ(rootOf(*same), same);
}

TEST(ValueHomes, PlacesTakenOver) {
  TestGraph test;
  Value *x = test.input("x", floats({4, 8}));
  Value *a = offloadNode(test, "stage", "Stage", {x, nullptr});
  Value *b = offloadNode(test, "wait", "Wait", {a, nullptr});
  Value *sum = test.node("sum", "Add", {b, b}, floats({4, 8}));
  Value *product = test.node("product", "MatMul", {b, b}, floats({4, 8}));
  sum->properties.set("inplace", "stage_out");
  EXPECT_EQ(takenOver(test.graph, *sum), a);
  sum->properties.set("inplace", "sum_out");
  EXPECT_EQ(takenOver(test.graph, *sum), nullptr); // not its own
  sum->properties.set("inplace", "nothing");
  EXPECT_EQ(takenOver(test.graph, *sum), nullptr);
  product->properties.set("inplace", "stage_out");
  EXPECT_EQ(takenOver(test.graph, *product), nullptr); // no operator for it
  EXPECT_EQ(takenOver(test.graph, *a), nullptr);
}

TEST(ValueHomes, AdamWritesWeightAndMomentsInPlace) {
  Graph graph;
  std::vector<Value *> operands;
  for (const char *name :
       {"w", "g", "m", "v", "lr", "b1", "b2", "e", "d", "s", "apply"})
    operands.push_back(graph.addInput(name, floats({})));
  Node *adam = graph.addNode("adam", "offload", "AdamW", operands,
                             {"w_next", "m_next", "v_next"});
  EXPECT_EQ(inPlaceOperand(*adam, 0), 0);
  EXPECT_EQ(inPlaceOperand(*adam, 1), 2);
  EXPECT_EQ(inPlaceOperand(*adam, 2), 3);
}

} // namespace
