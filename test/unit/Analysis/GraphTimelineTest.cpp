// Graphs as timelines: who waits for whom, whose bytes are read and where.

#include "offload/Analysis/GraphTimeline.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

TensorType matrix() {
  TensorType type;
  type.elem = DataType::Float;
  type.hasRank = true;
  type.dims = {Dim{8, ""}, Dim{16, ""}};
  return type;
}

TensorType flag() {
  TensorType type;
  type.elem = DataType::Bool;
  type.hasRank = true;
  return type;
}

struct TestGraph {
  Graph graph;

  Value *input(llvm::StringRef name, TensorType type = matrix()) {
    return graph.addInput(name, std::move(type));
  }
  Value *constant(llvm::StringRef name) {
    return graph.addInitializer(name, matrix(),
                                TensorData::owned(std::vector<uint8_t>(512)));
  }
  /// A node with one result; `place` is its offset, or -1 for none.
  Value *node(llvm::StringRef name, llvm::StringRef op,
              std::vector<Value *> operands, std::string result,
              int64_t place = -1, llvm::StringRef queue = "") {
    bool own = operatorInfo(op).domain == "offload";
    Node *node =
        graph.addNode(name, own ? "offload" : "", op, operands, {result});
    node->info = &operatorInfo(op);
    if (!queue.empty())
      node->properties.set("queue", std::string_view(queue));
    node->result()->type = matrix();
    if (place >= 0)
      put(node->result(), place);
    return node->result();
  }
  static const OperatorInfo &operatorInfo(llvm::StringRef name) {
    for (const OperatorInfo &row : operatorTable())
      if (name == llvm::StringRef(row.name.data(), row.name.size()))
        return row;
    llvm_unreachable("no such operator");
  }
  static void put(Value *value, int64_t offset) {
    value->properties.setInt("offset", offset);
    value->properties.setInt("bytes", 512);
  }
};

/// Names where a test compares numbers.
struct Named {
  explicit Named(const Graph &graph) : timeline(makeGraphTimeline(graph)) {}

  const TimelineOp &op(const std::string &name) const {
    for (const TimelineOp &op : timeline.ops)
      if (op.name == name)
        return op;
    throw std::out_of_range(name);
  }
  const TimelineValue &value(const std::string &name) const {
    for (const TimelineValue &value : timeline.values)
      if (value.name == name)
        return value;
    throw std::out_of_range(name);
  }
  std::string waits(const std::string &name) const {
    std::string text;
    for (const WaitPoint &wait : op(name).waits)
      text += (text.empty() ? "" : " ") + timeline.ops[wait.op].name +
              (wait.previousStep ? " before" : "");
    return text;
  }
  std::string names(const std::vector<uint32_t> &numbers) const {
    std::string text;
    for (uint32_t number : numbers)
      text += (text.empty() ? "" : " ") + timeline.values[number].name;
    return text;
  }
  std::string reads(const std::string &name) const {
    return names(op(name).reads);
  }
  std::string writes(const std::string &name) const {
    return names(op(name).writes);
  }

  Timeline timeline;
};

TEST(GraphTimeline, WaitsForMakersOnOtherQueuesAlone) {
  TestGraph g;
  Value *w = g.constant("w"), *v = g.constant("v");
  Value *wFly = g.node("stage_w", "Stage", {w, nullptr}, "w_fly", 0);
  Value *wDev = g.node("wait_w", "Wait", {wFly, nullptr}, "w_dev");
  Value *h = g.node("fc", "Abs", {wDev}, "h", 512);
  Value *free = g.node("release", "Release", {h}, "free");
  Value *vFly = g.node("stage_v", "Stage", {v, free}, "v_fly", 0);
  g.node("wait_v", "Wait", {vFly, nullptr}, "v_dev");
  Named named(g.graph);
  EXPECT_EQ(named.waits("stage_w"), "");
  EXPECT_EQ(named.waits("wait_w"), "stage_w");
  EXPECT_EQ(named.waits("fc"), "");
  EXPECT_EQ(named.waits("stage_v"), "release");
  // A Wait, a token and a Release touch no bytes; a kernel reads the root's.
  EXPECT_EQ(named.reads("wait_w"), "");
  EXPECT_EQ(named.reads("release"), "");
  EXPECT_EQ(named.reads("fc"), "w_fly");
  EXPECT_EQ(named.reads("stage_v"), "v");
  EXPECT_EQ(named.value("free").range.end, 0);
  EXPECT_EQ(named.value("w_dev").range.end, 0);
  EXPECT_EQ(named.value("h").range.begin, 512);
  EXPECT_EQ(named.value("h").range.end, 1024);
  EXPECT_EQ(named.value("w").carriedFrom, 0u);
  EXPECT_NE(named.value("w").range.space, named.value("v").range.space);
}

TEST(GraphTimeline, JoinPassesOrderThrough) {
  TestGraph g;
  Value *w = g.constant("w"), *v = g.constant("v");
  Value *a = g.node("a", "Stage", {w, nullptr}, "a_fly", 0);
  Value *b = g.node("wait_a", "Wait", {a, nullptr}, "a_dev");
  Value *home = g.node("fetch", "Fetch", {b, nullptr}, "home");
  Value *free = g.node("release", "Release", {b}, "free");
  Value *both = g.node("join", "Join", {free, home}, "both");
  Value *all = g.node("join_again", "Join", {both, free}, "all");
  g.node("c", "Stage", {v, all}, "c_fly", 0);
  Named named(g.graph);
  EXPECT_EQ(named.timeline.ops.size(), 5u);
  EXPECT_EQ(named.waits("c"), "release fetch");
}

TEST(GraphTimeline, ReadingAStateReadsTheLastStepsOutput) {
  TestGraph g;
  Value *w = g.input("w"), *grad = g.constant("grad");
  Value *idle = g.input("idle", flag());
  Value *lr = g.input("lr"), *apply = g.input("apply", flag());
  Value *fly = g.node("stage", "Stage", {w, idle}, "fly", 0);
  Value *dev = g.node("wait", "Wait", {fly, nullptr}, "dev");
  Value *next = g.node("update", "SGD", {w, grad, lr, apply}, "next");
  Value *free = g.node("release", "Release", {dev}, "free");
  g.graph.addOutput(next);
  g.graph.addOutput(free);
  g.graph.states["w"] = "next";
  g.graph.states["idle"] = "free";
  Named named(g.graph);
  EXPECT_EQ(named.waits("stage"), "update before release before");
  EXPECT_EQ(named.waits("update"), "");
  EXPECT_EQ(named.value("w").range.space, named.value("next").range.space);
  EXPECT_NE(named.value("w").range.space, ByteRange::kArena);
  EXPECT_EQ(named.timeline.values[named.value("w").carriedFrom].name, "next");
  EXPECT_EQ(named.timeline.values[named.value("next").inPlaceOf].name, "w");
  EXPECT_FALSE(named.op("update").landsOutput);
  // lr and apply are known before the step; the launch hands them over.
  EXPECT_EQ(named.reads("update"), "w grad");
  std::vector<Violation> found = checkTimeline(named.timeline);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].note, "nothing orders [stage] before [update]");
}

TEST(GraphTimeline, FeedsAndOutputsBelongToTheCaller) {
  TestGraph g;
  Value *x = g.input("x");
  Value *fly = g.node("stage", "Stage", {x, nullptr}, "fly", 0);
  Value *dev = g.node("wait", "Wait", {fly, nullptr}, "dev");
  Value *y = g.node("fc", "Abs", {dev}, "y", 512);
  Value *out = g.node("fetch", "Fetch", {y, nullptr}, "out");
  g.node("later", "Neg", {out}, "later", -1, "host");
  g.graph.addOutput(out);
  Named named(g.graph);
  EXPECT_TRUE(named.value("x").feed);
  EXPECT_FALSE(named.value("out").feed);
  EXPECT_EQ(named.value("out").range.end, 0); // new in every run
  EXPECT_TRUE(named.op("fetch").landsOutput);
  // A run must not return while a node still reads what it gives away.
  EXPECT_TRUE(named.op("later").landsOutput);
  EXPECT_FALSE(named.op("fc").landsOutput);
  EXPECT_TRUE(checkTimeline(named.timeline).empty());
}

TEST(GraphTimeline, ResidentsChainsInPlaceAndScratch) {
  TestGraph g;
  Value *head = g.constant("head");
  head->properties.set("residency", "resident");
  TestGraph::put(head, 1024);
  Value *a = g.node("first", "Abs", {head}, "a", 0);
  Value *view = g.node("flat", "Identity", {a}, "view");
  view->properties.set("view", "a");
  Value *b = g.node("second", "Neg", {view}, "b");
  b->properties.set("inplace", "a");
  Value *c = g.node("third", "Neg", {b}, "c");
  c->properties.set("inplace", "b");
  g.graph.findNode("third")->properties.setInt("scratch", 100);
  g.graph.modelProperties["offload.scratch"] = "offset=2048 bytes=512";
  Named named(g.graph);
  EXPECT_EQ(named.value("head").range.space, ByteRange::kArena);
  EXPECT_EQ(named.value("head").range.begin, 1024);
  EXPECT_EQ(named.timeline.values[named.value("head").carriedFrom].name,
            "head");
  EXPECT_EQ(named.reads("flat"), "");
  EXPECT_EQ(named.reads("second"), "a");
  EXPECT_EQ(named.value("c").range.end, 512);
  EXPECT_EQ(named.timeline.values[named.value("b").inPlaceOf].name, "a");
  EXPECT_EQ(named.timeline.values[named.value("c").inPlaceOf].name, "b");
  EXPECT_EQ(named.writes("third"), "c scratch of third");
  EXPECT_EQ(named.value("scratch of third").range.begin, 2048);
  EXPECT_EQ(named.value("scratch of third").range.end, 2148);
  EXPECT_TRUE(checkTimeline(named.timeline).empty());
  // Taken over twice: what is read after that is gone.
  g.node("late", "Neg", {view}, "d", 512);
  std::vector<Violation> found = checkTimeline(Named(g.graph).timeline);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].message, "[second] writes 'b' into bytes 0..512 while "
                              "[late] later reads 'a' there");
}

TEST(GraphTimeline, LaunchValuesAreFeedsAndNoOperations) {
  TestGraph g;
  Value *x = g.input("x");
  Value *shape = g.node("shape", "Shape", {x}, "shape");
  Value *fly = g.node("stage", "Stage", {shape, nullptr}, "fly", 0);
  g.node("wait", "Wait", {fly, nullptr}, "dev");
  Named named(g.graph);
  EXPECT_EQ(named.timeline.ops.size(), 2u);
  EXPECT_TRUE(named.value("shape").feed);
  EXPECT_EQ(named.reads("stage"), "shape");
  EXPECT_EQ(named.waits("stage"), "");
}

} // namespace
