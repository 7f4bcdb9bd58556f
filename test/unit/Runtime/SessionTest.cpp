// Sessions over small graphs: feeds, dynamic sizes, launch values, the host
// queue, residents, updates.

#include "DynamicRows.h"
#include "OffFile.h"

#include "../../../lib/Runtime/SessionParts.h"

#include <gtest/gtest.h>

#include <thread>

namespace offload::rt {
namespace {

using SmallSession = OffFile;

TEST_F(SmallSession, SizesFollowTheFeeds) {
  auto session = load(kDynamic);
  auto &parts = dynamic_cast<SessionParts &>(*session);
  unsigned atLoad = parts.numProfiles();
  EXPECT_EQ(atLoad, 1u); // at the bound
  for (int64_t rows : {4, 1, 3, 4, 1, 2}) {
    TensorMap feeds = dynamicFeeds(rows, static_cast<float>(rows));
    TensorMap outputs = session->run(feeds);
    EXPECT_EQ(outputs["y"].dims, (std::vector<int64_t>{2 * rows}));
    EXPECT_EQ(valuesOf(outputs["y"]), dynamicResult(valuesOf(feeds["x"])));
    EXPECT_EQ(*outputs["count"].data<int64_t>(), rows);
    Statistics statistics = session->statistics();
    EXPECT_EQ(statistics.measured.h2dBytes, 8 * rows + 16 + 8);
    EXPECT_EQ(statistics.measured.d2hBytes, 8 * rows);
    EXPECT_EQ(statistics.predicted.h2dBytes, 32 + 16 + 8);
    EXPECT_EQ(statistics.predicted.d2hBytes, 32);
  }
  EXPECT_EQ(parts.numProfiles(), atLoad + 3);
  EXPECT_EQ(parts.lastCounts().copies, 3u); // the bias rides with the weight
}

TEST_F(SmallSession, NoRowsAtAll) {
  auto session = load(kDynamic);
  EXPECT_EQ(session->run(dynamicFeeds(0, 0))["y"].numElements(), 0);
  TensorMap feeds = dynamicFeeds(2, 1);
  EXPECT_EQ(valuesOf(session->run(feeds)["y"]),
            dynamicResult(valuesOf(feeds["x"])));
}

TEST_F(SmallSession, SaysWhatItTakesAndGives) {
  auto session = load(kDynamic);
  std::vector<ValueInfo> inputs = session->inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].dims, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(inputs[0].dimNames, (std::vector<std::string>{"rows", ""}));
  EXPECT_EQ(inputs[1].dims, (std::vector<int64_t>{4, -1}));
  EXPECT_FALSE(inputs[0].optional);
  ASSERT_EQ(session->outputs().size(), 2u);
  EXPECT_TRUE(session->states().empty());
}

TEST_F(SmallSession, FeedsAreFreeOnReturnAndOutputsAreTheCallers) {
  auto session = load(kDynamic);
  TensorMap feeds = dynamicFeeds(4, 1);
  TensorMap first = session->run(feeds);
  Values expected = dynamicResult(valuesOf(feeds["x"]));
  std::fill_n(feeds["x"].data<float>(), 8, -1.0f);
  TensorMap second = session->run(feeds);
  EXPECT_EQ(valuesOf(first["y"]), expected);
  EXPECT_EQ(valuesOf(second["y"]), dynamicResult(Values(8, -1)));
  EXPECT_NE(first["y"].bytes, second["y"].bytes);
  session.reset();
  EXPECT_EQ(valuesOf(first["y"]), expected);
}

// A table on the host: its rows are looked up there and only they are staged.
constexpr const char *kLookup = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.node.look": "queue=host",
  "offload.value.rows_fly": "offset=0 bytes=24",
  "offload.value.y_dev": "offset=512 bytes=24"]>
g (int64[3] ids) => (float[3,2] y)
  <float[4,2] table = {0, 1, 10, 11, 20, 21, 30, 31}>
{
  [look] rows = Gather (table, ids)
  [stage] rows_fly = offload.Stage (rows, "")
  [wait] rows_dev = offload.Wait (rows_fly, "")
  [twice] y_dev = Add (rows_dev, rows_dev)
  [release] done = offload.Release (y_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
)";

TEST_F(SmallSession, RowsAreLookedUpOnTheHost) {
  auto session = load(kLookup);
  TensorMap outputs = session->run({{"ids", int64s({3}, {3, 0, -2})}});
  EXPECT_EQ(valuesOf(outputs["y"]), (Values{60, 62, 0, 2, 40, 42}));
  Statistics statistics = session->statistics();
  EXPECT_EQ(statistics.measured.h2dBytes, 24);
  EXPECT_LT(statistics.measured.pinnedBytes, 2048);
  EXPECT_EQ(statistics.predicted.hostBytes - statistics.predicted.pinnedBytes,
            32 + 24); // the table and the ids
  expectError([&] { session->run({{"ids", int64s({3}, {0, 4, 0})}}); },
              {"[look] Gather on host"});
  outputs = session->run({{"ids", int64s({3}, {1, 1, 2})}});
  EXPECT_EQ(valuesOf(outputs["y"]), (Values{20, 22, 20, 22, 40, 42}));
}

// A quantized weight crosses packed, all parts in one copy, and expands on the
// device.
constexpr const char *kQuantized = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.state.idle": "done",
  "offload.value.q_fly": "offset=0 bytes=3",
  "offload.value.s_fly": "offset=512 bytes=4",
  "offload.value.w": "offset=2048 bytes=20",
  "offload.value.x_fly": "offset=1536 bytes=20",
  "offload.value.y_dev": "offset=2560 bytes=20",
  "offload.value.z_fly": "offset=1024 bytes=1"]>
g (float[5] x, bool idle) => (float[5] y, bool done) <float s = {0.5}>
{
  [stage_x] x_fly = offload.Stage (x, idle)
  [stage_q] q_fly, s_fly, z_fly = offload.Stage:three (q, s, z, "")
  [wait_q] q_dev = offload.Wait (q_fly, "")
  [wait_s] s_dev = offload.Wait (s_fly, "")
  [wait_z] z_dev = offload.Wait (z_fly, "")
  [expand] w = DequantizeLinear (q_dev, s_dev, z_dev)
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [mul] y_dev = Mul (x_dev, w)
  [release] done = offload.Release (y_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
)";

TEST_F(SmallSession, FourBitWeightsCrossPackedInOneCopy) {
  onnx::ModelProto model = parseText(
      replaced(kQuantized, "<float s = {0.5}>",
               "<float s = {0.5}, int8[5] q = {0, 0, 0, 0, 0}, int8 z = {0}>"));
  for (auto &tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.name() == "s")
      continue;
    tensor.set_data_type(onnx::TensorProto::INT4);
    tensor.clear_int32_data();
    // -8 7 1 -1 2, two a byte with the first in the low half; then 1.
    tensor.set_raw_data(tensor.name() == "q" ? "\x78\xf1\x02" : "\x01");
  }
  writeModel(model, folder / "m.off");
  auto session = Session::load(folder / "m.off", {});
  Values y = valuesOf(session->run({{"x", floats({5}, {1, 1, 1, 1, 2})}})["y"]);
  EXPECT_EQ(y, (Values{-4.5, 3, 0, -1, 1}));
  EXPECT_EQ(dynamic_cast<SessionParts &>(*session).lastCounts().copies, 3u);
  EXPECT_EQ(session->statistics().measured.h2dBytes, 20 + 3 + 4 + 1);
}

// A feed decides a shape: it is known only when the step runs.
constexpr const char *kFedShape = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.node.more": "queue=launch",
  "offload.state.idle": "done",
  "offload.value.m_fly": "offset=1024 bytes=8",
  "offload.value.x_fly": "offset=0 bytes=4",
  "offload.value.y_dev": "offset=512 bytes=96",
  "offload.value.z_dev": "offset=1536 bytes=8"]>
g (float x, int64[2] dims, bool idle) => (float[a,b] y, int64[1] z, bool done)
  <int64[2] one = {1, 1}, int64[1] axis = {0}>
{
  [more] more_dims = Add (dims, one)
  [stage] x_fly = offload.Stage (x, idle)
  [stage_m] m_fly = offload.Stage (picked, "")
  [wait] x_dev = offload.Wait (x_fly, "")
  [expand] y_dev = Expand (x_dev, more_dims)
  [wait_m] m_dev = offload.Wait (m_fly, "")
  [same] z_dev = Neg (m_dev)
  [release] done = offload.Release (z_dev)
  [fetch] y = offload.Fetch (y_dev, "")
  [fetch_z] z = offload.Fetch (z_dev, "")
}
)";

TEST_F(SmallSession, FedShapesAndStagedLaunchValues) {
  std::string text =
      replaced(kFedShape, "  [stage] x_fly",
               "  [pick] picked = Gather (more_dims, axis)\n  [stage] x_fly");
  text = replaced(text, "  \"offload.state.idle\"",
                  "  \"offload.node.pick\": \"queue=launch\",\n"
                  "  \"offload.state.idle\"");
  auto session = load(text);
  for (int64_t a : {1, 3, 2, 3}) {
    TensorMap outputs = session->run(
        {{"x", scalarFloat(7)}, {"dims", int64s({2}, {a, 2 * a - 1})}});
    EXPECT_EQ(outputs["y"].dims, (std::vector<int64_t>{a + 1, 2 * a}));
    EXPECT_EQ(valuesOf(outputs["y"]),
              Values(static_cast<size_t>((a + 1) * 2 * a), 7));
    EXPECT_EQ(*outputs["z"].data<int64_t>(), -(a + 1));
  }
  expectError(
      [&] {
        session->run({{"x", scalarFloat(7)}, {"dims", int64s({2}, {4, 4})}});
      },
      {"[expand] Expand on compute", "'y_dev' of 100 bytes", "float[5,5]",
       "place has 96"});
  EXPECT_EQ(session->run({{"x", scalarFloat(1)}, {"dims", int64s({2}, {0, 0})}})
                .at("y")
                .numElements(),
            1);
}

// A counter that the launching thread keeps, a resident that compute updates,
// a running sum that a Fetch writes back to the host.
constexpr const char *kStates = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.node.count": "queue=launch",
  "offload.state.idle": "done",
  "offload.state.scale": "scale_next",
  "offload.state.step": "step_next",
  "offload.state.sum": "sum_next",
  "offload.value.scale": "residency=resident offset=0 bytes=8",
  "offload.value.scale_next": "inplace=scale",
  "offload.value.sum_dev": "offset=1536 bytes=8",
  "offload.value.sum_fly": "offset=1024 bytes=8",
  "offload.value.x_fly": "offset=512 bytes=8",
  "offload.value.y_dev": "offset=2048 bytes=8"]>
g (float[2] x, float[2] scale, int64 step, float[2] sum, bool idle)
  => (float[2] y, float[2] scale_next, int64 step_next, float[2] sum_next,
      bool done)
  <int64 step = {5}, float[2] scale = {2, 3}, int64 one = {1}>
{
  [count] step_next = Add (step, one)
  [stage_x] x_fly = offload.Stage (x, idle)
  [stage_sum] sum_fly = offload.Stage (sum, idle)
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [mul] y_dev = Mul (x_dev, scale)
  [grow] scale_next = Add (scale, x_dev)
  [wait_sum] sum_old = offload.Wait (sum_fly, "")
  [add] sum_dev = Add (sum_old, y_dev)
  [fetch_sum] sum_next = offload.Fetch (sum_dev, "")
  [fetch] y = offload.Fetch (y_dev, "")
  [hold] y_ok = offload.Wait (y_dev, sum_next)
  [release] done = offload.Release (y_ok)
}
)";

TEST_F(SmallSession, StatesLiveFromRunToRun) {
  auto session = load(kStates);
  Values sum(2), scale = {2, 3};
  for (int i = 1; i <= 4; ++i) {
    Values x = {float(i), float(2 * i)};
    Values y = valuesOf(session->run({{"x", floats({2}, x)}})["y"]);
    for (int k = 0; k < 2; ++k) {
      EXPECT_EQ(y[k], x[k] * scale[k]);
      sum[k] += y[k];
      scale[k] += x[k];
    }
    EXPECT_EQ(valuesOf(session->state("sum")), sum);
    EXPECT_EQ(valuesOf(session->state("scale")), scale);
    EXPECT_EQ(*session->state("step").data<int64_t>(), 5 + i);
    if (i == 2) {
      sum = {100, 200};
      scale = {-1, 1};
      session->setState("sum", floats({2}, sum));
      session->setState("scale", floats({2}, scale));
    }
  }
  session->setState("step", int64s({}, {40}));
  session->run({{"x", floats({2}, {0, 0})}});
  EXPECT_EQ(*session->state("step").data<int64_t>(), 41);
}

TEST_F(SmallSession, PoisonAndDelaysChangeNoState) {
  Values expected;
  for (int variant = 0; variant < 6; ++variant) {
    SessionOptions options;
    options.poison = variant > 0;
    if (variant > 1)
      options.delays = {{static_cast<Queue>(variant - 2), 1, 3}};
    auto session = load(kStates, options);
    for (int i = 0; i < 10; ++i)
      session->run({{"x", floats({2}, {0.5f, float(i)})}});
    Values got = valuesOf(session->state("sum"));
    if (variant == 0)
      expected = got;
    EXPECT_EQ(got, expected) << variant;
  }
}

TEST_F(SmallSession, SeveralSessionsInOneProcess) {
  auto a = load(kDynamic), b = load(kDynamic);
  TensorMap feeds = dynamicFeeds(3, 2);
  Values expected = dynamicResult(valuesOf(feeds["x"]));
  std::vector<std::thread> threads;
  for (Session *session : {a.get(), b.get()})
    threads.emplace_back([=] {
      for (int i = 0; i < 50; ++i) {
        TensorMap fed = feeds;
        EXPECT_EQ(valuesOf(session->run(fed)["y"]), expected);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
} // namespace offload::rt
