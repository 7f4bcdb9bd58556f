// What sessions refuse, at load and by run, and that they go on working.

#include "DynamicRows.h"
#include "OffFile.h"

#include "../../../lib/Runtime/SessionParts.h"

#include <gtest/gtest.h>

#include <thread>

namespace offload::rt {
namespace {

using SessionErrors = OffFile;

TEST_F(SessionErrors, WrongFeedsSayWhatWasExpectedAndTheSessionGoesOn) {
  auto session = load(kDynamic);
  TensorMap good = dynamicFeeds(2, 1);
  auto refused = [&](TensorMap feeds,
                     std::initializer_list<std::string> parts) {
    expectError([&] { session->run(feeds); }, parts);
    EXPECT_EQ(valuesOf(session->run(good)["y"]),
              dynamicResult(valuesOf(good["x"])));
  };
  auto with = [&](const std::string &name, Tensor tensor) {
    TensorMap feeds = good;
    feeds[name] = std::move(tensor);
    return feeds;
  };
  refused(with("z", floats({1}, {1})),
          {"no input 'z'", "x float[rows<=4,2]", "other float[rows<=4,k]"});
  refused({{"x", good["x"]}}, {"input 'other' is not fed", "float[rows<=4,k]"});
  refused(with("x", int64s({2, 2}, {1, 2, 3, 4})),
          {"input 'x'", "int64[2,2]", "expects float[rows<=4,2]"});
  refused(with("x", floats({4}, {1, 2, 3, 4})), {"input 'x'", "another rank"});
  refused(with("x", floats({2, 3}, {1, 2, 3, 4, 5, 6})),
          {"input 'x'", "axis 1 is 3, not 2"});
  refused(with("x", floats({5, 2}, Values(10))),
          {"input 'x'", "float[5,2]", "axis 0 is over its bound"});
  refused(with("x", floats({3, 2}, Values(6))),
          {"input 'other'", "'rows' is 3 in another input"});
  refused(with("x_idle", scalarBool(true)), {"'x_idle' is a state"});
  Tensor empty;
  empty.type = DataType::Float;
  empty.dims = {2, 2};
  refused(with("x", empty), {"input 'x'", "no bytes"});
}

TEST_F(SessionErrors, WhatDoesNotFitItsPlaceIsRefusedAtLoad) {
  expectError(
      [&] {
        load(
            replaced(kDynamic, "offset=1536 bytes=32", "offset=1536 bytes=24"));
      },
      {"[fc] Gemm on compute", "'h' of 32 bytes", "float[4,2]",
       "place has 24"});
}

TEST_F(SessionErrors, AnUnprovedOrderIsRefused) {
  // Behind the feed's copy the weight's one is behind the return of the step
  // before; in front of it nothing holds the weight back.
  std::string text = replaced(
      kDynamic, "  [stage_w] w_fly, b_fly = offload.Stage:two (w, b, \"\")\n",
      "");
  text = replaced(text, "{\n  [stage_x]",
                  "{\n  [stage_w] w_fly, b_fly = offload.Stage:two (w, b, "
                  "\"\")\n  [stage_x]");
  expectError([&] { load(text); },
              {"is refused", "[stage_w] of the next step writes 'w_fly'",
               "[fc]", "nothing orders"});
  SessionOptions options;
  options.skipVerification = true;
  load(text, options);
}

TEST_F(SessionErrors, AFailureAtEachNodeAndTheNextRunIsRight) {
  std::string failing;
  SessionOptions options;
  options.beforeNode = [&](const std::string &node) {
    if (node == failing)
      throw std::runtime_error("on purpose");
  };
  auto session = load(kDynamic, options);
  auto &parts = dynamic_cast<SessionParts &>(*session);
  TensorMap feeds = dynamicFeeds(3, 2);
  size_t tried = 0;
  for (uint32_t node : parts.launchList().nodes) {
    failing = parts.program().nodes[node].name;
    // What fails behind the landed output is thrown by the next call.
    expectError(
        [&] {
          session->run(feeds);
          session->statistics();
        },
        {"[" + failing + "]"});
    failing.clear();
    EXPECT_EQ(valuesOf(session->run(feeds)["y"]),
              dynamicResult(valuesOf(feeds["x"])));
    session->statistics(); // no queue reads `failing` any more
    ++tried;
  }
  EXPECT_EQ(tried, 9u);
}

TEST_F(SessionErrors, AnInterruptEndsARunAndOnlyThatOne) {
  SessionOptions options;
  options.delays = {{Queue::H2D, 30, 0}};
  auto session = load(kDynamic, options);
  TensorMap feeds = dynamicFeeds(3, 2);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    session->interrupt();
  });
  EXPECT_THROW(session->run(feeds), Interrupted);
  other.join();
  EXPECT_EQ(valuesOf(session->run(feeds)["y"]),
            dynamicResult(valuesOf(feeds["x"])));
  session->interrupt(); // before a run: it ends at once
  EXPECT_THROW(session->run(feeds), Interrupted);
  EXPECT_EQ(valuesOf(session->run(feeds)["y"]),
            dynamicResult(valuesOf(feeds["x"])));
}

TEST_F(SessionErrors, ScratchOverThePlanIsRefusedWithTheMend) {
  // Softmax of a strided operand copies it first.
  std::string text = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.state.idle": "done",
  "offload.value.t": "view=x_fly",
  "offload.value.x_fly": "offset=0 bytes=24",
  "offload.value.y_dev": "offset=512 bytes=24"]>
g (float[2,3] x, bool idle) => (float[3,2] y, bool done)
{
  [stage] x_fly = offload.Stage (x, idle)
  [wait] x_dev = offload.Wait (x_fly, "")
  [turn] t = Transpose <perm: ints = [1, 0]> (x_dev)
  [soft] y_dev = LayerNormalization (t, scale)
  [release] done = offload.Release (y_dev)
  [fetch] y = offload.Fetch (y_dev, "")
})";
  text = replaced(text, "(float[3,2] y, bool done)\n",
                  "(float[3,2] y, bool done)\n <float[2] scale = {1, 1}>\n");
  text = replaced(text, "  \"offload.value.t\"",
                  "  \"offload.value.scale\": "
                  "\"residency=resident offset=1024 bytes=8\",\n"
                  "  \"offload.value.t\"");
  expectError([&] { load(text); },
              {"[soft] LayerNormalization on compute", "bytes of scratch",
               "0 are planned", "offload.node.soft"});
  text = replaced(text, "  \"offload.state.idle\"",
                  "  \"offload.node.soft\": \"scratch=4096\",\n"
                  "  \"offload.scratch\": \"offset=1536 bytes=4096\",\n"
                  "  \"offload.state.idle\"");
  auto session = load(text);
  Values y =
      valuesOf(session->run({{"x", floats({2, 3}, {1, 2, 3, 3, 4, 9})}})["y"]);
  EXPECT_NEAR(y[0], -1, 1e-4);
  EXPECT_NEAR(y[5], 1, 1e-4);
  EXPECT_GT(session->statistics().measured.scratchBytes, 0);
}

} // namespace
} // namespace offload::rt
