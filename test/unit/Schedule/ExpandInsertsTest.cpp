// From a plan to nodes: what is inserted where, and who reads what.

#include "TestGraph.h"

#include "offload/Schedule/ExpandInserts.h"
#include "offload/Schedule/PlanWriter.h"
#include "offload/Schedule/Planner.h"

using namespace offload;

namespace {

/// One line a node: `[name] results = Op:overload (operands)`.
std::vector<std::string> listing(const Graph &graph) {
  std::vector<std::string> lines;
  for (const Node &node : graph.nodeList()) {
    std::string line = "[" + node.name().str() + "] ";
    for (const Value *result : node.results())
      line += (result == node.result() ? "" : ", ") + result->name().str();
    line += " = " + node.opType;
    if (!node.overload.empty())
      line += ":" + node.overload;
    line += " (";
    for (unsigned i = 0; i < node.operands().size(); ++i)
      line += (i ? ", " : "") +
              (node.operand(i) ? node.operand(i)->name().str() : "\"\"");
    lines.push_back(line + ")");
  }
  return lines;
}

using Lines = std::vector<std::string>;

bool all(const Properties &) { return true; }

Properties entry(const std::string &text) {
  std::string why;
  std::optional<Properties> parsed = Properties::parse(text, &why);
  EXPECT_TRUE(parsed) << why;
  return parsed.value_or(Properties());
}

/// Plans with the fewest residents at depth 2 and expands.
void schedule(TestGraph &test, bool resident = false, bool onHost = false) {
  llvm::cantFail(prepareForPlan(test.graph));
  StepModel step = llvm::cantFail(readStep(test.graph, onHost));
  Schedule plan =
      layOut(step, resident ? allResident(step) : fewestResident(step), 2);
  llvm::cantFail(writePlan(test.graph, step, plan));
  llvm::cantFail(test.graph.verify());
  llvm::cantFail(expandInserts(test.graph, all));
  llvm::cantFail(test.graph.verify());
  EXPECT_TRUE(test.graph.inserts.empty());
  EXPECT_TRUE(test.graph.plannedValues.empty());
}

std::string failure(Graph &graph) {
  llvm::Expected<unsigned> made = expandInserts(graph, all);
  return made ? "" : llvm::toString(made.takeError());
}

TEST(ExpandInserts, ChainStreamsThroughTwoPlaces) {
  TestGraph test;
  addChain(test, 3, 64);
  schedule(test);
  EXPECT_EQ(listing(test.graph),
            (Lines{"[stage_x] x_fly = Stage (x, step_idle)",
                   "[stage_w0] w0_fly = Stage (w0, \"\")",
                   "[stage_w1] w1_fly = Stage (w1, \"\")",
                   "[wait_x] x_dev = Wait (x_fly, \"\")",
                   "[wait_w0] w0_dev = Wait (w0_fly, \"\")",
                   "[fc0] fc0_out = MatMul (x_dev, w0_dev)",
                   "[release_w0] w0_free = Release (w0_dev)",
                   "[stage_w2] w2_fly = Stage (w2, w0_free)",
                   "[wait_w1] w1_dev = Wait (w1_fly, \"\")",
                   "[fc1] fc1_out = MatMul (fc0_out, w1_dev)",
                   "[wait_w2] w2_dev = Wait (w2_fly, \"\")",
                   "[fc2] fc2_out_dev = MatMul (fc1_out, w2_dev)",
                   "[fetch_fc2_out] fc2_out = Fetch (fc2_out_dev, \"\")",
                   "[release_step] step_free = Release (fc2_out_dev)"}));
  EXPECT_EQ(test.graph.states.at("step_idle"), "step_free");
  EXPECT_EQ(test.graph.outputs()[0]->name(), "fc2_out");
  const Value *idle = test.graph.findValue("step_idle");
  ASSERT_FALSE(idle->data.empty());
  EXPECT_EQ(idle->data.bytes()[0], 1);
  // w2 takes w0's place.
  auto offset = [&](const char *name) {
    return test.graph.findValue(name)->properties.getInt("offset");
  };
  EXPECT_TRUE(offset("w2_fly"));
  EXPECT_EQ(offset("w2_fly"), offset("w0_fly"));
  EXPECT_NE(offset("w1_fly"), offset("w0_fly"));
  EXPECT_EQ(test.graph.findValue("x_fly")->type,
            test.graph.findValue("x")->type);
}

TEST(ExpandInserts, ResidentsNeedNoCopies) {
  TestGraph test;
  addChain(test, 2, 64);
  schedule(test, /*resident=*/true);
  EXPECT_EQ(listing(test.graph),
            (Lines{"[stage_x] x_fly = Stage (x, step_idle)",
                   "[wait_x] x_dev = Wait (x_fly, \"\")",
                   "[fc0] fc0_out = MatMul (x_dev, w0)",
                   "[fc1] fc1_out_dev = MatMul (fc0_out, w1)",
                   "[fetch_fc1_out] fc1_out = Fetch (fc1_out_dev, \"\")",
                   "[release_step] step_free = Release (fc1_out_dev)"}));
  EXPECT_EQ(test.graph.findValue("w1")->properties.print(),
            "residency=resident offset=16384 bytes=16384");
}

TEST(ExpandInserts, BiasTravelsWithItsWeightAndViewsNameTheirBytes) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 64}));
  Value *w = test.constant("w", floats({64, 64}));
  Value *b = test.constant("b", floats({64}));
  Value *t = test.node("turn", "Transpose", {w}, floats({64, 64}));
  test.output(test.node("fc", "Gemm", {x, t, b}, floats({2, 64})));
  schedule(test);
  EXPECT_EQ(listing(test.graph),
            (Lines{"[stage_x] x_fly = Stage (x, step_idle)",
                   "[stage_w] w_fly, b_fly = Stage:two (w, b, \"\")",
                   "[wait_x] x_dev = Wait (x_fly, \"\")",
                   "[wait_w] w_dev = Wait (w_fly, \"\")",
                   "[turn] turn_out = Transpose (w_dev)",
                   "[wait_b] b_dev = Wait (b_fly, \"\")",
                   "[fc] fc_out_dev = Gemm (x_dev, turn_out, b_dev)",
                   "[fetch_fc_out] fc_out = Fetch (fc_out_dev, \"\")",
                   "[release_step] step_free = Release (fc_out_dev)"}));
  EXPECT_EQ(test.graph.findValue("turn_out")->properties.print(), "view=w_fly");
  EXPECT_EQ(*test.graph.findValue("b_fly")->properties.getInt("offset"),
            *test.graph.findValue("w_fly")->properties.getInt("offset") +
                64 * 64 * 4);
}

TEST(ExpandInserts, AWeightReadFarApartIsCopiedTwice) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 64}));
  Value *w[3];
  for (int i = 0; i < 3; ++i)
    w[i] = test.constant("w" + std::to_string(i), floats({64, 64}));
  int index = 0;
  for (int i : {0, 1, 2, 0})
    x = test.node("fc" + std::to_string(index++), "MatMul", {x, w[i]},
                  floats({2, 64}));
  test.output(x);
  schedule(test);
  Lines lines = listing(test.graph);
  EXPECT_TRUE(
      llvm::is_contained(lines, "[stage_w0_2] w0_fly_2 = Stage (w0, w1_free)"));
  EXPECT_TRUE(llvm::is_contained(
      lines, "[fc3] fc3_out_dev = MatMul (fc2_out, w0_dev_2)"));
  EXPECT_TRUE(
      llvm::is_contained(lines, "[fc0] fc0_out = MatMul (x_dev, w0_dev)"));
}

TEST(ExpandInserts, RowsOfALookupAreStaged) {
  TestGraph test;
  Value *ids = test.input("ids", tensorType(DataType::Int64, {3}));
  Value *table = test.constant("table", floats({4000, 64}));
  Value *w = test.constant("w", floats({64, 64}));
  Value *rows = test.node("look", "Gather", {table, ids}, floats({3, 64}));
  test.output(test.node("fc", "MatMul", {rows, w}, floats({3, 64})));
  schedule(test, false, /*onHost=*/true);
  EXPECT_EQ(
      listing(test.graph),
      (Lines{"[look] look_out = Gather (table, ids)",
             "[stage_look_out] look_out_fly = Stage (look_out, step_idle)",
             "[stage_w] w_fly = Stage (w, \"\")",
             "[wait_look_out] look_out_dev = Wait (look_out_fly, \"\")",
             "[wait_w] w_dev = Wait (w_fly, \"\")",
             "[fc] fc_out_dev = MatMul (look_out_dev, w_dev)",
             "[fetch_fc_out] fc_out = Fetch (fc_out_dev, \"\")",
             "[release_step] step_free = Release (fc_out_dev)"}));
  EXPECT_EQ(test.graph.findNode("look")->queue(), Queue::Host);
  EXPECT_EQ(test.graph.findValue("table")->properties.print(),
            "residency=host");
}

TEST(ExpandInserts, WithoutFeedsTheBorderWaitsForTheOutput) {
  TestGraph test;
  Value *v = test.constant("v", floats({64, 64}));
  Value *w = test.constant("w", floats({64, 64}));
  test.output(test.node("fc", "MatMul", {v, w}, floats({64, 64})));
  schedule(test);
  EXPECT_EQ(listing(test.graph),
            (Lines{"[stage_w] w_fly = Stage (w, step_idle)",
                   "[wait_w] w_dev = Wait (w_fly, \"\")",
                   "[fc] fc_out_dev = MatMul (v, w_dev)",
                   "[fetch_fc_out] fc_out = Fetch (fc_out_dev, \"\")",
                   "[wait_step] fc_out_ok = Wait (fc_out_dev, fc_out)",
                   "[release_step] step_free = Release (fc_out_ok)"}));
}

TEST(ExpandInserts, OutputsThatNeverWereOnTheDeviceNeedNoFetch) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 64}));
  Value *w = test.constant("w", floats({64, 64}));
  test.output(test.node("fc", "MatMul", {x, w}, floats({2, 64})));
  test.output(w);
  test.output(x);
  test.output(
      test.node("shape", "Shape", {x}, tensorType(DataType::Int64, {2})));
  schedule(test);
  unsigned fetches = 0;
  for (const Node &node : test.graph.nodeList())
    fetches += node.isOffload("Fetch");
  EXPECT_EQ(fetches, 1u);
}

TEST(ExpandInserts, NamesThatAreTakenAreAvoided) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 64}));
  Value *fly = test.input("x_fly", floats({2, 64}));
  Value *idle = test.node("step_idle", "Add", {x, fly}, floats({2, 64}));
  test.graph.renameValue(idle, "step_idle");
  test.output(test.node("stage_x", "Relu", {idle}, floats({2, 64})));
  schedule(test);
  EXPECT_EQ(listing(test.graph).front(),
            "[stage_x_2] x_fly_2 = Stage (x, step_idle_2)");
}

/// A spill and a gradient buffer, as a training plan would write them.
TEST(ExpandInserts, SpillsComeBackAndGradientsAreWaitedFor) {
  TestGraph test;
  Value *x = test.constant("x", floats({2, 64}));
  Value *h = test.node("h", "Relu", {x}, floats({2, 64}));
  Value *y = test.node("y", "Tanh", {h}, floats({2, 64}));
  Value *z = test.node("z", "Add", {y, h}, floats({2, 64}));
  test.node("w", "Neg", {z}, floats({2, 64}));
  auto &inserts = test.graph.inserts;
  inserts["spill"] = entry("op=Fetch of=h_out makes=h_host before=y");
  inserts["wait_spill"] =
      entry("op=Wait of=h_out makes=h_ok before=y after=h_host");
  inserts["stage_h"] = entry("op=Stage of=h_host makes=h_fly before=wait_h");
  inserts["wait_h"] = entry("op=Wait of=h_fly makes=h_back before=z");
  inserts["send"] = entry("op=GradTransfer of=z_out makes=gz before=wait_gz");
  inserts["wait_gz"] = entry("op=Wait of=z_out makes=z_ok before=w after=gz");
  // Without the transfer, what names its result stays too.
  auto early = expandInserts(test.graph, [](const Properties &wanted) {
    return wanted.get("op") != "GradTransfer";
  });
  EXPECT_EQ(llvm::cantFail(std::move(early)), 4u);
  EXPECT_EQ(inserts.size(), 2u);
  EXPECT_EQ(llvm::cantFail(expandInserts(test.graph, all)), 2u);
  EXPECT_EQ(
      listing(test.graph),
      (Lines{"[h] h_out = Relu (x)", "[spill] h_host = Fetch (h_out, \"\")",
             "[wait_spill] h_ok = Wait (h_out, h_host)",
             "[y] y_out = Tanh (h_ok)",
             "[stage_h] h_fly = Stage (h_host, \"\")",
             "[wait_h] h_back = Wait (h_fly, \"\")",
             "[z] z_out = Add (y_out, h_back)",
             "[send] gz = GradTransfer (z_out, \"\")",
             "[wait_gz] z_ok = Wait (z_out, gz)", "[w] w_out = Neg (z_ok)"}));
}

TEST(ExpandInserts, NamesFollowTheUsualRule) {
  TestGraph test;
  Value *w = test.constant("w", floats({64}));
  Value *v = test.constant("v", floats({64}));
  test.output(test.node("y", "Add", {w, v}, floats({64})));
  auto &inserts = test.graph.inserts;
  inserts["stage_w"] = entry("op=Stage of=w,v before=wait_w");
  inserts["wait_w"] = entry("op=Wait of=w_fly before=wait_v");
  inserts["wait_v"] = entry("op=Wait of=v_fly before=y");
  inserts["release_w"] = entry("op=Release of=w_dev");
  llvm::cantFail(expandInserts(test.graph, all));
  EXPECT_EQ(listing(test.graph),
            (Lines{"[stage_w] w_fly, v_fly = Stage:two (w, v, \"\")",
                   "[wait_w] w_dev = Wait (w_fly, \"\")",
                   "[wait_v] v_dev = Wait (v_fly, \"\")",
                   "[y] y_out = Add (w_dev, v_dev)",
                   "[release_w] w_free = Release (w_dev)"}));
}

TEST(ExpandInserts, RefusesEntriesThatSayTooLittle) {
  auto refusal = [](const std::string &text) {
    TestGraph test;
    Value *w = test.constant("w", floats({64}));
    test.output(test.node("y", "Relu", {w}, floats({64})));
    test.graph.inserts["new"] = entry(text);
    return failure(test.graph);
  };
  EXPECT_NE(refusal("op=Gemm of=w before=y")
                .find("insert 'new' (Gemm) is of no operator"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=q before=y")
                .find("is of 'q', which is no value there"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=w before=y after=q")
                .find("starts after 'q', which is no value there"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=w before=z")
                .find("goes before 'z', which is no node"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=w before=new")
                .find("goes, in a circle, before itself"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=w,w,w,w,w before=y")
                .find("copies 5 values; a copy has one to four"),
            std::string::npos);
  EXPECT_NE(refusal("op=Stage of=w makes=w before=y")
                .find("makes 'w', which is there already"),
            std::string::npos);
  EXPECT_NE(refusal("op=GradTransfer of=w before=y")
                .find("makes 0 values instead of 1"),
            std::string::npos);
}

} // namespace
