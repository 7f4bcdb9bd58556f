// Modelled time by hand: a link, a queue of copies, stalls and their causes.

#include "TestGraph.h"

#include "offload/Schedule/Planner.h"
#include "offload/Schedule/Simulate.h"

using namespace offload;

namespace {

/// 1 GB/s both ways (a byte a nanosecond), 1 us for each compute node, no
/// latency worth a nanosecond.
Target slowLink() {
  Target target = llvm::cantFail(Target::load("host"));
  target.h2dBytesPerSecond = target.d2hBytesPerSecond = 1e9;
  target.copyLatencySeconds = 1e-12;
  target.launchSeconds = 1e-6;
  target.deviceBytesPerSecond = 1e15;
  target.float32FlopsPerSecond = 1e18;
  target.hostBytesPerSecond = 1e9;
  return target;
}

StepModel chain(unsigned count) {
  TestGraph test;
  addChain(test, count, 64); // 16384 bytes a weight, 512 of x and y
  llvm::cantFail(prepareForPlan(test.graph));
  return llvm::cantFail(readStep(test.graph, false));
}

TEST(Simulate, ResidentStepIsCopiesAndCompute) {
  StepModel step = chain(3);
  Schedule schedule = layOut(step, allResident(step), 2);
  Simulation result = simulate(step, schedule, slowLink());
  EXPECT_EQ(result.stepNs, 512 + 3 * 1000 + 512);
  EXPECT_EQ(result.computeNs, 3000);
  ASSERT_EQ(result.stalls.size(), 1u); // for x
  EXPECT_EQ(result.stalls[0].node, "fc0");
  EXPECT_EQ(result.stalls[0].ns, 512);
  EXPECT_EQ(result.stalls[0].cause, Stall::Cause::Link);
}

TEST(Simulate, LinkIsTheBoundWhereAllStream) {
  StepModel step = chain(4);
  Schedule schedule = layOut(step, fewestResident(step), 4);
  Simulation result = simulate(step, schedule, slowLink());
  // All copies back to back, the last product, its output.
  EXPECT_EQ(result.stepNs, 512 + 4 * 16384 + 1000 + 512);
  EXPECT_EQ(result.boundNs, 512 + 4 * 16384);
  ASSERT_EQ(result.stalls.size(), 4u);
  for (const Stall &stall : result.stalls)
    EXPECT_EQ(stall.cause, Stall::Cause::Link);
}

TEST(Simulate, TooFewPlacesStallForMemory) {
  StepModel step = chain(3);
  step.nodes[0].flops = 1e14; // 100 us; the other products take 1 us
  Schedule schedule = layOut(step, fewestResident(step), 2);
  Simulation result = simulate(step, schedule, slowLink());
  // The third copy starts when the first product has given its place up.
  const int64_t first = 512 + 16384 + 100000;
  ASSERT_EQ(result.stalls.size(), 2u);
  EXPECT_EQ(result.stalls[1].node, "fc2");
  EXPECT_EQ(result.stalls[1].cause, Stall::Cause::Memory);
  EXPECT_EQ(result.stalls[1].ns, 16384 - 1000);
  EXPECT_EQ(result.stepNs, first + 16384 + 1000 + 512);
}

TEST(Simulate, LiveBytesFollowTheLifetimes) {
  StepModel step = chain(3);
  Schedule schedule = layOut(step, allResident(step), 2);
  Simulation result = simulate(step, schedule, slowLink());
  const int64_t weights = 3 * 16384;
  EXPECT_EQ(
      result.liveBytes,
      (std::vector<int64_t>{weights + 1024, weights + 1024, weights + 1024}));
  EXPECT_EQ(result.peakBytes, schedule.peakBytes);
}

TEST(Simulate, MorePlacesAreNeverSlower) {
  StepModel step = chain(24);
  int64_t last = INT64_MAX;
  for (unsigned depth : {2, 3, 4, 6, 8}) {
    Schedule schedule = layOut(step, fewestResident(step), depth);
    int64_t ns = simulate(step, schedule, slowLink()).stepNs;
    EXPECT_LE(ns, last);
    last = ns;
  }
}

} // namespace
