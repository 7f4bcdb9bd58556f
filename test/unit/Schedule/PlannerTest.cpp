// Uses, residents, depth, budgets: the numbers of a plan by hand.

#include "TestGraph.h"

#include "offload/Schedule/PlanTable.h"
#include "offload/Schedule/Planner.h"

#include "llvm/Support/JSON.h"

#include <chrono>
#include <random>

using namespace offload;

namespace {

Target hostTarget() { return llvm::cantFail(Target::load("host")); }

PlanModel modelOf(TestGraph &test) {
  llvm::cantFail(prepareForPlan(test.graph));
  return llvm::cantFail(readPlanModel(test.graph));
}

PlanRequest request(int64_t bytes, unsigned depth = 0) {
  PlanRequest wanted;
  wanted.target = hostTarget();
  wanted.deviceMemoryBytes = bytes;
  wanted.depth = depth;
  return wanted;
}

/// A step of `count` nodes, weight i read at the positions in reads[i].
StepModel stepWithReads(int32_t count,
                        const std::vector<std::vector<int32_t>> &reads) {
  StepModel step;
  for (int32_t i = 0; i < count; ++i)
    step.nodes.emplace_back().name = "n" + std::to_string(i);
  for (size_t i = 0; i < reads.size(); ++i) {
    StepModel::Weight weight;
    weight.parts.push_back({"w" + std::to_string(i), 1024, reads[i]});
    for (int32_t at : reads[i])
      weight.reads.push_back({at, at});
    step.weights.push_back(weight);
  }
  return step;
}

std::vector<StagedUse> usesOf(const StepModel &step, unsigned depth) {
  return planUses(step, std::vector<bool>(step.weights.size(), false), depth);
}

TEST(StagedUses, DepthSaysWhenACopyMayStart) {
  StepModel step = stepWithReads(4, {{0}, {1}, {2}, {3}});
  auto uses = usesOf(step, 2);
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[0].after, StagedUse::kAtOnce);
  EXPECT_EQ(uses[1].after, StagedUse::kAtOnce);
  EXPECT_EQ(uses[2].after, 0);
  EXPECT_EQ(uses[3].after, 1);
  EXPECT_EQ(usesOf(step, 3)[3].after, 0);
  EXPECT_EQ(usesOf(step, 4)[3].after, StagedUse::kAtOnce);
}

TEST(StagedUses, ReadsThatFollowEachOtherShareAUse) {
  StepModel step = stepWithReads(3, {{0, 2}, {1}});
  auto uses = usesOf(step, 2);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].last, 2);
}

TEST(StagedUses, FarReadsAreCopiedAgain) {
  StepModel step = stepWithReads(4, {{0, 3}, {1}, {2}});
  auto uses = usesOf(step, 2);
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[3].weight, 0u);
  EXPECT_EQ(uses[3].after, 1);
  EXPECT_EQ(usesOf(step, 3).size(), 3u);
}

TEST(StagedUses, WhatOneNodeReadsAtOnceIsCopiedRightBefore) {
  StepModel step = stepWithReads(2, {{1}, {1}, {1}});
  auto uses = usesOf(step, 2);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[2].after, 0);
}

/// On random steps, uses cover all reads, starts come before first reads and
/// never go back, and at most `depth` uses are open unless a node demands it.
TEST(StagedUses, HoldOnRandomSteps) {
  std::mt19937 random(5);
  for (unsigned round = 0; round < 300; ++round) {
    const int32_t count = 12;
    std::vector<std::vector<int32_t>> reads(1 + random() % 6);
    for (auto &positions : reads)
      for (int32_t at = 0; at < count; ++at)
        if (random() % 5 == 0 || (positions.empty() && at + 1 == count))
          positions.push_back(at);
    StepModel step = stepWithReads(count, reads);
    const unsigned depth = 2 + random() % 3;
    auto uses = usesOf(step, depth);
    for (size_t k = 0; k < uses.size(); ++k) {
      ASSERT_LT(uses[k].after, uses[k].first);
      if (k > 0) {
        ASSERT_LE(uses[k - 1].first, uses[k].first);
        ASSERT_LE(uses[k - 1].after, uses[k].after);
      }
      unsigned open = 1; // what is unfinished when this copy starts
      for (size_t j = 0; j < k; ++j)
        open += uses[j].last > uses[k].after;
      if (uses[k].after < uses[k].first - 1) {
        ASSERT_LE(open, depth);
      }
    }
    for (size_t w = 0; w < reads.size(); ++w)
      for (int32_t at : reads[w]) {
        unsigned covering = 0;
        for (const StagedUse &use : uses)
          covering += use.weight == w && use.first <= at && at <= use.last;
        ASSERT_EQ(covering, 1u);
      }
  }
}

TEST(Planner, WhatFitsStreamsNothing) {
  TestGraph test;
  addChain(test, 4, 64); // 16 KiB a weight
  PlanModel model = modelOf(test);
  // 4 weights, x and two results live at once: 512 bytes each.
  const int64_t all = 4 * 16384 + 2 * 512;
  Plan plan = llvm::cantFail(makePlan(model, request(all)));
  EXPECT_FALSE(plan.schedule.streams());
  EXPECT_EQ(plan.schedule.peakBytes, all);
  EXPECT_EQ(h2dBytes(plan.step(model), plan.schedule), 2 * 64 * 4);
}

TEST(Planner, SmallestBudgetWorksAndOneByteLessDoesNot) {
  TestGraph test;
  addChain(test, 6, 64);
  PlanModel model = modelOf(test);
  SmallestBudget smallest = smallestBudget(model, hostTarget(), 0);
  EXPECT_EQ(smallest.deviceMemoryBytes, 2 * 16384 + 2 * 512);
  Plan plan =
      llvm::cantFail(makePlan(model, request(smallest.deviceMemoryBytes)));
  EXPECT_EQ(plan.schedule.peakBytes, smallest.deviceMemoryBytes);
  EXPECT_EQ(plan.schedule.uses.size(), 6u);

  llvm::Expected<Plan> refused =
      makePlan(model, request(smallest.deviceMemoryBytes - 1));
  ASSERT_FALSE(bool(refused));
  std::string message = llvm::toString(refused.takeError());
  EXPECT_NE(message.find("needs at least 33792 bytes (set by [fc"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("give --device-memory=33792 or more"),
            std::string::npos)
      << message;
}

TEST(Planner, BudgetsHoldFromSmallestToAll) {
  TestGraph test;
  addChain(test, 20, 64);
  PlanModel model = modelOf(test);
  const int64_t least =
      smallestBudget(model, hostTarget(), 0).deviceMemoryBytes;
  int64_t lastMoved = INT64_MAX;
  for (int64_t budget = least; budget < 21 * 16384; budget += 16384) {
    Plan plan = llvm::cantFail(makePlan(model, request(budget)));
    EXPECT_LE(plan.schedule.peakBytes, budget);
    const int64_t moved = h2dBytes(plan.step(model), plan.schedule);
    EXPECT_LE(moved, lastMoved);
    lastMoved = moved;
  }
}

TEST(Planner, ResidentsAreSpread) {
  TestGraph test;
  addChain(test, 16, 64);
  PlanModel model = modelOf(test);
  // Half of the weights and two places.
  std::optional<Schedule> schedule =
      chooseResidents(model.onDevice, 2, 10 * 16384 + 2 * 512);
  ASSERT_TRUE(schedule);
  unsigned residents = 0, longest = 0, row = 0;
  for (bool resident : schedule->resident) {
    residents += resident;
    row = resident ? 0 : row + 1;
    longest = std::max(longest, row);
  }
  EXPECT_EQ(residents, 8u);
  EXPECT_LE(longest, 2u);
}

/// A share of unequal weights leaves room that single ones still fit in.
TEST(Planner, RoomThatAShareLeavesIsFilled) {
  TestGraph test;
  Value *x = test.input("x", floats({2, 16}));
  int64_t width = 16;
  for (int64_t next : {16, 16, 128, 128, 16, 16, 16}) {
    const std::string name = std::to_string(test.graph.nodeList().size());
    Value *w = test.constant("w" + name, floats({width, next}));
    x = test.node("fc" + name, "MatMul", {x, w}, floats({2, next}));
    width = next;
  }
  test.output(x);
  PlanModel model = modelOf(test);
  SmallestBudget smallest = smallestBudget(model, hostTarget(), 0);
  const int64_t small = 16 * 16 * 4;
  Plan plan = llvm::cantFail(
      makePlan(model, request(smallest.deviceMemoryBytes + 4 * small)));
  // All four small ones; only the large ones stream.
  unsigned residents = llvm::count(plan.schedule.resident, true);
  EXPECT_EQ(residents, 4u);
  for (const StagedUse &use : plan.schedule.uses)
    EXPECT_GT(model.onDevice.weights[use.weight].bytes(), small);
}

TEST(Planner, DepthIsTheUsersWhereGiven) {
  TestGraph test;
  addChain(test, 8, 64);
  PlanModel model = modelOf(test);
  Plan plan = llvm::cantFail(makePlan(model, request(6 * 16384, 4)));
  EXPECT_EQ(plan.schedule.depth, 4u);
  SmallestBudget two = smallestBudget(model, hostTarget(), 2);
  SmallestBudget four = smallestBudget(model, hostTarget(), 4);
  EXPECT_EQ(four.deviceMemoryBytes - two.deviceMemoryBytes, 2 * 16384);
}

TEST(Planner, DeeperCopiesAreChosenWhereTheyHelp) {
  // Small and large weights in turn on a slow link: a deeper queue lets the
  // large copy begin while the small ones are used.
  TestGraph test;
  Value *x = test.input("x", floats({64, 64}));
  for (unsigned i = 0; i < 12; ++i) {
    const std::string name = std::to_string(i);
    Value *w = test.constant("w" + name, floats({64, i % 4 == 3 ? 512 : 64}));
    Value *h = test.node("fc" + name, "MatMul", {x, w},
                         floats({64, i % 4 == 3 ? 512 : 64}));
    if (i % 4 != 3)
      x = h;
    else
      test.output(h);
  }
  PlanModel model = modelOf(test);
  PlanRequest wanted = request(1 << 20);
  wanted.deviceMemoryBytes =
      smallestBudget(model, wanted.target, 4).deviceMemoryBytes;
  Plan free = llvm::cantFail(makePlan(model, wanted));
  wanted.depth = 2;
  Plan shallow = llvm::cantFail(makePlan(model, wanted));
  EXPECT_LE(free.simulation.stepNs, shallow.simulation.stepNs * 101 / 100);
  EXPECT_LE(free.schedule.peakBytes, *wanted.deviceMemoryBytes);
}

TEST(Planner, TablesAreLookedUpOnTheHostOnlyWhereTheyDoNotFit) {
  TestGraph test;
  Value *ids = test.input("ids", tensorType(DataType::Int64, {3}));
  Value *table = test.constant("table", floats({4000, 64}));
  Value *w = test.constant("w", floats({64, 200}));
  Value *rows = test.node("look", "Gather", {table, ids}, floats({3, 64}));
  test.output(test.node("fc", "MatMul", {rows, w}, floats({3, 200})));
  PlanModel model = modelOf(test);

  Plan small = llvm::cantFail(makePlan(model, request(107000)));
  EXPECT_TRUE(small.lookupsOnHost);
  EXPECT_LE(small.schedule.peakBytes, 107000);
  EXPECT_LE(h2dBytes(small.step(model), small.schedule),
            3 * 64 * 4 + 64 * 200 * 4);

  Plan large = llvm::cantFail(makePlan(model, request(2 << 20)));
  EXPECT_FALSE(large.lookupsOnHost);
  EXPECT_FALSE(large.schedule.streams());
}

TEST(PlanTable, GoesFromSmallestToAllResident) {
  TestGraph test;
  addChain(test, 16, 64);
  PlanModel model = modelOf(test);
  PlanTable table = llvm::cantFail(makePlanTable(model, request(10 * 16384)));
  ASSERT_GE(table.rows.size(), 4u);
  EXPECT_EQ(table.rows.front().deviceMemoryBytes,
            table.smallest.deviceMemoryBytes);
  EXPECT_EQ(table.rows.front().h2dBytes, 16 * 16384 + 512);
  EXPECT_EQ(table.rows.back().h2dBytes, 512);
  EXPECT_EQ(table.rows.back().pinnedBytes, 2 * 512);
  unsigned given = 0;
  for (const PlanRow &row : table.rows) {
    EXPECT_LE(row.peakDeviceBytes, row.deviceMemoryBytes);
    given += row.isGiven;
  }
  EXPECT_EQ(given, 1u);

  auto json = llvm::json::parse(planTableJson(table, std::nullopt));
  ASSERT_TRUE(bool(json));
  const auto *object = json->getAsObject();
  EXPECT_EQ(object->getInteger("smallest_device_memory_bytes"),
            table.smallest.deviceMemoryBytes);
  const auto *rows = object->getArray("rows");
  ASSERT_EQ(rows->size(), table.rows.size());
  for (const char *key :
       {"device_memory_bytes", "peak_device_bytes", "h2d_bytes", "d2h_bytes",
        "host_bytes", "pinned_bytes", "step_ns"})
    EXPECT_TRUE(rows->front().getAsObject()->getInteger(key)) << key;

  std::string text = printPlanTable(table, 12 * 16384);
  EXPECT_NE(text.find("fits here"), std::string::npos);
  EXPECT_NE(text.find("too large here"), std::string::npos);
  EXPECT_NE(text.find("<- --device-memory"), std::string::npos);
}

TEST(Planner, PlansFiveThousandNodesInSeconds) {
  TestGraph test;
  Value *x = test.input("x", floats({8, 64}));
  for (unsigned i = 0; i < 1250; ++i) {
    const std::string name = std::to_string(i);
    Value *w = test.constant("w" + name, floats({64, 64}));
    Value *h = test.node("fc" + name, "MatMul", {x, w}, floats({8, 64}));
    Value *a = test.node("act" + name, "Relu", {h}, floats({8, 64}));
    Value *n = test.node("tanh" + name, "Tanh", {a}, floats({8, 64}));
    x = test.node("sum" + name, "Add", {x, n}, floats({8, 64}));
  }
  test.output(x);
  auto start = std::chrono::steady_clock::now();
  PlanModel model = modelOf(test);
  Plan plan = llvm::cantFail(makePlan(model, request(600 * 16384)));
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  EXPECT_TRUE(plan.schedule.streams());
  EXPECT_LE(plan.schedule.peakBytes, 600 * 16384);
  // Far above what it takes, far below what a quadratic step would take.
  EXPECT_LT(seconds, 20.0);
  RecordProperty("seconds", std::to_string(seconds));
}

} // namespace
