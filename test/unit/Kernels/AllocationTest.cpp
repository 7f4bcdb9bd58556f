// Requests of kernels: who serves them, from where, and what is refused.

#include "../../../lib/Runtime/Kernels/Allocation.h"

#include "offload/OffFormat/DataType.h"
#include "offload/Runtime/Tensor.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include <thread>

namespace {

using namespace offload;
using namespace offload::rt;

at::Tensor floats(int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kFloat));
}

/// Aligned memory for places and scratch.
struct Block {
  explicit Block(int64_t bytes)
      : data(static_cast<std::byte *>(
            std::aligned_alloc(kAlignBytes, alignUp(bytes)))) {}
  ~Block() { std::free(data); }
  std::byte *data;
};

TEST(FirstFit, TakesTheLowestRangeThatIsLargeEnough) {
  FirstFit fit;
  EXPECT_EQ(fit.place(100), 0);
  EXPECT_EQ(fit.place(513), 512);
  EXPECT_EQ(fit.place(1), 1536);
  fit.release(512);
  EXPECT_EQ(fit.place(2000), 2048) << "1024 bytes are too few";
  EXPECT_EQ(fit.place(1024), 512);
  EXPECT_EQ(fit.highWaterBytes(), 4096);
}

TEST(ProfilingFrame, NamesTheRequestOfEachTensor) {
  ProfilingFrame frame;
  at::Tensor first = floats(10);
  at::Tensor second = floats(1000);
  EXPECT_EQ(frame.requestOf(first.data_ptr()), 0);
  EXPECT_EQ(frame.requestOf(second.data_ptr()), 1);
  EXPECT_EQ(frame.requestOf(&frame), -1);
  EXPECT_EQ(frame.numRequests(), 2u);
}

TEST(ProfilingFrame, CountsScratchAtItsHighestWithoutOutputs) {
  ProfilingFrame frame;
  at::Tensor out;
  {
    at::Tensor early = floats(256); // 1024 bytes, request 0
    out = floats(1024);             // request 1
  }
  at::Tensor late = floats(128); // 512 bytes, after `early` is gone
  const int outputs[] = {1};
  EXPECT_EQ(frame.scratchBytes(outputs), 1024);
  EXPECT_EQ(frame.scratchBytes({}), 1024 + 4096);
}

TEST(ProfilingFrame, DoesNotCountRequestsOfNothing) {
  ProfilingFrame frame;
  at::Tensor empty = floats(0);
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(frame.numRequests(), 0u);
}

TEST(PlacedFrame, ServesOutputsAtTheirPlacesAndTheRestFromScratch) {
  Block out(4096), scratch(2048);
  PlacedFrame frame(false, {{1, out.data, 4000}}, scratch.data, 2048, 4);
  at::Tensor early = floats(256);
  at::Tensor placed = floats(1000);
  at::Tensor late = floats(128);
  EXPECT_EQ(early.data_ptr(), scratch.data);
  EXPECT_EQ(placed.data_ptr(), out.data);
  EXPECT_EQ(late.data_ptr(), scratch.data + 1024);
  early.reset();
  at::Tensor again = floats(256);
  EXPECT_EQ(again.data_ptr(), scratch.data) << "freed scratch is used again";
}

TEST(PlacedFrame, RefusesWhatDoesNotFit) {
  Block out(4096), scratch(1024);
  PlacedFrame frame(false, {{0, out.data, 400}}, scratch.data, 1024, 3);
  EXPECT_THROW(floats(101), Error) << "larger than its place";
  at::Tensor placed = floats(100); // what was refused is not counted
  at::Tensor all = floats(256);
  try {
    floats(1);
    FAIL() << "scratch is full";
  } catch (const c10::OutOfMemoryError &error) { // libraries try less then
    EXPECT_STREQ(error.what_without_backtrace(),
                 "asks for 4 bytes of scratch at 1024, its scratch has 1024 "
                 "bytes");
  }
  all.reset();
  at::Tensor third = floats(1);
  EXPECT_THROW(floats(1), Error) << "a fourth request";
}

TEST(ProfilingFrame, SaysHowMuchRoomItsLimitLeaves) {
  ProfilingFrame frame;
  frame.limit(4096 + 100);
  EXPECT_EQ(frame.largestRequest(), 4096);
  at::Tensor first = floats(129); // 516 bytes, so 1024
  EXPECT_EQ(frame.largestRequest(), 3072);
  EXPECT_THROW(floats(769), c10::OutOfMemoryError);
  EXPECT_EQ(frame.numRequests(), 1u) << "what failed is not counted";
  at::Tensor rest = floats(768);
  EXPECT_EQ(frame.largestRequest(), 0);
  first.reset();
  EXPECT_EQ(frame.largestRequest(), 1024);
}

TEST(PlacedFrame, SaysHowMuchRoomItsScratchLeavesAndTakesAnyRequests) {
  Block out(4096), scratch(4096);
  PlacedFrame frame(false, {{0, out.data, 4096}}, scratch.data, 4096,
                    PlacedFrame::kAnyRequests);
  EXPECT_EQ(frame.largestRequest(), 4096);
  at::Tensor placed = floats(1024);
  EXPECT_EQ(frame.largestRequest(), 4096);
  at::Tensor one = floats(1), two = floats(1);
  EXPECT_EQ(frame.largestRequest(), 3072);
  one.reset();
  EXPECT_EQ(frame.largestRequest(), 3072) << "a gap is not counted on";
  two.reset();
  EXPECT_EQ(frame.largestRequest(), 4096);
  EXPECT_EQ(frame.numRequests(), 3u);
}

TEST(AllocationFrame, LeavesOtherThreadsAlone) {
  Block scratch(512);
  PlacedFrame frame(false, {}, scratch.data, 512, 1);
  std::thread other([] {
    at::Tensor large = floats(1 << 20);
    large.zero_();
  });
  other.join();
  EXPECT_EQ(frame.numRequests(), 0u);
}

TEST(AllocationFrame, TakesBackWhatAnotherThreadFrees) {
  Block scratch(512);
  PlacedFrame frame(false, {}, scratch.data, 512, 2);
  at::Tensor tensor = floats(100);
  std::thread other([moved = std::move(tensor)]() mutable { moved.reset(); });
  other.join();
  at::Tensor again = floats(100);
  EXPECT_EQ(again.data_ptr(), scratch.data);
}

TEST(AllocationFrame, OutlivedByTensorsOfOrdinaryMemory) {
  at::Tensor before = floats(100);
  {
    ProfilingFrame frame;
    before.reset();
    at::Tensor inside = floats(100);
    EXPECT_EQ(frame.numRequests(), 1u);
  }
  at::Tensor after = floats(100);
  after.zero_();
}

TEST(AllocationFrame, DoesNotNest) {
  ProfilingFrame frame;
  EXPECT_THROW(ProfilingFrame inner, Error);
  floats(10);
  EXPECT_EQ(frame.numRequests(), 1u) << "the outer frame is still open";
}

} // namespace
