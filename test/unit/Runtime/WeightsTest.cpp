// Weights that are listed, read and replaced between runs: streamed with a
// bias, resident, mapped from a file, folded, known to the launching thread,
// trained.

#include "OffFile.h"
#include "StepTraining.h"

#include "offload/Runtime/Session.h"

#include <gtest/gtest.h>

#include <thread>

namespace offload::rt {
namespace {

using Values = std::vector<float>;

std::vector<std::string> namesOf(const std::vector<ValueInfo> &infos) {
  std::vector<std::string> names;
  for (const ValueInfo &info : infos)
    names.push_back(info.name);
  return names;
}

class LiveWeights : public OffFile {};

// A streamed weight with its bias in one copy, a resident that is an output
// too, another resident behind a transposing view.
constexpr const char *kPlaces = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.b_fly": "offset=1024 bytes=8",
  "offload.value.g": "offset=3072 bytes=8",
  "offload.value.h": "offset=1536 bytes=8",
  "offload.value.r": "residency=resident offset=2048 bytes=16",
  "offload.value.s": "residency=resident offset=2560 bytes=8",
  "offload.value.t": "view=r",
  "offload.value.w_fly": "offset=512 bytes=16",
  "offload.value.x_fly": "offset=0 bytes=8",
  "offload.value.y_dev": "offset=3584 bytes=8"]>
g (float[1,2] x) => (float[1,2] y, float[2] s)
  <float[2,2] w = {1, 2, 3, 4}, float[2] b = {10, 20},
   float[2,2] r = {1, 0, 1, 1}, float[2] s = {1, 1},
   float[3] unread = {1, 2, 3}>
{
  [stage_x] x_fly = offload.Stage (x, "")
  [stage_w] w_fly, b_fly = offload.Stage:two (w, b, "")
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [wait_w] w_dev = offload.Wait (w_fly, "")
  [wait_b] b_dev = offload.Wait (b_fly, "")
  [fc] h = Gemm (x_dev, w_dev, b_dev)
  [turn] t = Transpose <perm = [1, 0]> (r)
  [fc2] g = MatMul (h, t)
  [add] y_dev = Add (g, s)
  [fetch] y = offload.Fetch (y_dev, "")
}
)";

/// x is (1, 1).
Values placesResult(const Values &w, const Values &b, const Values &r,
                    const Values &s) {
  Values h = {w[0] + w[2] + b[0], w[1] + w[3] + b[1]};
  return {h[0] * r[0] + h[1] * r[1] + s[0], h[0] * r[2] + h[1] * r[3] + s[1]};
}

TEST_F(LiveWeights, EveryPlaceIsReplacedAndPutBack) {
  for (bool poison : {false, true}) {
    SessionOptions options;
    options.poison = poison;
    options.delays = {{Queue::H2D, 1, 0}};
    auto session = load(kPlaces, options);
    EXPECT_EQ(namesOf(session->weights()),
              (std::vector<std::string>{"w", "b", "r", "s", "unread"}));
    EXPECT_EQ(session->weights()[0].dims, (std::vector<int64_t>{2, 2}));
    EXPECT_FALSE(session->weights()[0].optional);
    TensorMap feeds = {{"x", floats({1, 2}, {1, 1})}}, old, now;
    Tensor first = session->run(feeds)["y"];
    EXPECT_EQ(valuesOf(first),
              placesResult({1, 2, 3, 4}, {10, 20}, {1, 0, 1, 1}, {1, 1}));
    for (const ValueInfo &info : session->weights()) {
      old[info.name] = session->weight(info.name);
      now[info.name] = Tensor::allocate(info.type, info.dims);
      for (int64_t i = 0; i < now[info.name].numElements(); ++i)
        now[info.name].data<float>()[i] =
            static_cast<float>(7 * info.name[0] % 5 + 3 * i);
    }
    EXPECT_EQ(valuesOf(old["unread"]), (Values{1, 2, 3}));
    for (const auto &[name, tensor] : now) {
      Tensor given = floats(tensor.dims, valuesOf(tensor));
      session->setWeight(name, given);
      std::fill_n(given.data<float>(), given.numElements(), -1.0f); // a copy
      EXPECT_TRUE(sameBytes(session->weight(name), tensor)) << name;
    }
    TensorMap outputs = session->run(feeds);
    EXPECT_EQ(valuesOf(outputs["y"]),
              placesResult(valuesOf(now["w"]), valuesOf(now["b"]),
                           valuesOf(now["r"]), valuesOf(now["s"])));
    EXPECT_TRUE(sameBytes(outputs["s"], now["s"]));
    for (const auto &[name, tensor] : old)
      session->setWeight(name, tensor);
    outputs = session->run(feeds);
    EXPECT_TRUE(sameBytes(outputs["y"], first));
    EXPECT_TRUE(sameBytes(outputs["s"], old["s"]));
  }
}

TEST_F(LiveWeights, WhatIsNoWeightOrDoesNotFitIsRefused) {
  auto session = load(kPlaces);
  TensorMap feeds = {{"x", floats({1, 2}, {1, 1})}};
  Tensor first = session->run(feeds)["y"];
  auto set = [&](const std::string &name, const Tensor &value) {
    return [&session, name, value] { session->setWeight(name, value); };
  };
  expectError(set("nothing", first), {"no weight 'nothing'", "w, b, r, s"});
  expectError([&] { session->weight("y_dev"); }, {"no weight 'y_dev'"});
  expectError(set("x", first), {"'x'", "is fed"});
  expectError(set("w", floats({4}, {1, 2, 3, 4})),
              {"'w'", "float[4]", "float[2,2]"});
  expectError(set("b", int64s({2}, {1, 2})), {"'b'", "int64[2]", "float[2]"});
  Tensor empty = floats({2}, {1, 2});
  empty.bytes.reset();
  expectError(set("s", empty), {"'s'", "without bytes"});
  EXPECT_TRUE(sameBytes(session->run(feeds)["y"], first));
}

// A table that the host queue reads where it lies: in the mapped file.
constexpr const char *kTable = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.node.look": "queue=host",
  "offload.value.rows_fly": "offset=0 bytes=16",
  "offload.value.y_dev": "offset=512 bytes=16"]>
g (int64[2] ids) => (float[2,2] y)
  <float[4,2] table = ["location": "t.bin", "offset": "0", "length": "32"]>
{
  [look] rows = Gather (table, ids)
  [stage] rows_fly = offload.Stage (rows, "")
  [wait] rows_dev = offload.Wait (rows_fly, "")
  [same] y_dev = Add (rows_dev, rows_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
)";

TEST_F(LiveWeights, AMappedTableIsReplacedInMemoryAlone) {
  Values table = {0, 1, 10, 11, 20, 21, 30, 31};
  std::string path = folder / "t.bin";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(table.data()), 32);
  auto session = load(kTable);
  auto look = [&] {
    return valuesOf(session->run({{"ids", int64s({2}, {3, 0})}})["y"]);
  };
  EXPECT_EQ(look(), (Values{60, 62, 0, 2}));
  // The mapped table was counted, and its own memory takes its place.
  int64_t hostBytes = session->statistics().measured.hostBytes;
  session->setWeight("table", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(look(), (Values{14, 16, 2, 4}));
  session->setWeight("table", floats({4, 2}, {0, 0, 0, 0, 0, 0, 9, 9}));
  EXPECT_EQ(look(), (Values{18, 18, 0, 0}));
  EXPECT_EQ(valuesOf(session->weight("table"))[6], 9);
  EXPECT_EQ(session->statistics().measured.hostBytes, hostBytes);
  Values after(8);
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char *>(after.data()), 32);
  EXPECT_EQ(after, table);
}

// The scale s is folded from a and b, and u from s and a shape that nothing
// else reads; s is resident, u streams.
constexpr const char *kFolded = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.h": "offset=1024 bytes=8",
  "offload.value.s": "residency=resident offset=512 bytes=8",
  "offload.value.u_fly": "offset=2048 bytes=8",
  "offload.value.x_fly": "offset=0 bytes=8",
  "offload.value.y_dev": "offset=1536 bytes=8"]>
g (float[2] x) => (float[2] y)
  <float[2] a = {1, 2}, int32[1] b = {3}, int64[1] two = {2},
   float[2] s = {3, 6}, float[2] u = {9, 36}>
{
  [stage_x] x_fly = offload.Stage (x, "")
  [stage_u] u_fly = offload.Stage (u, "")
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [wait_u] u_dev = offload.Wait (u_fly, "")
  [scale] h = Mul (x_dev, s)
  [shift] y_dev = Add (h, u_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
<domain: "offload", opset_import: ["": 21]>
Folded (a, b, two) => (s, u)
{
  [cast] b_f = Cast <to = 1> (b)
  [mul] s = Mul (a, b_f)
  [square] s_2 = Mul (s, s)
  [shape] u = Reshape (s_2, two)
}
)";

TEST_F(LiveWeights, WhatWasFoldedIsMadeAnew) {
  auto session = load(kFolded);
  EXPECT_EQ(namesOf(session->weights()),
            (std::vector<std::string>{"a", "b", "two"}));
  auto result = [&] {
    return valuesOf(session->run({{"x", floats({2}, {1, 10})}})["y"]);
  };
  EXPECT_EQ(result(), (Values{3 + 9, 60 + 36}));
  session->setWeight("a", floats({2}, {2, 1}));
  EXPECT_EQ(result(), (Values{6 + 36, 30 + 9}));
  session->setWeight("b", tensorOf<int32_t>(DataType::Int32, {1}, {-1}));
  EXPECT_EQ(result(), (Values{-2 + 4, -10 + 1}));
  EXPECT_EQ(valuesOf(session->weight("a")), (Values{2, 1}));
  expectError([&] { session->setWeight("s", floats({2}, {1, 1})); },
              {"'s' is folded from a, b: set these"});
  expectError([&] { session->weight("u"); }, {"a, b, two"});
  expectError([&] { session->setWeight("two", int64s({1}, {3})); },
              {"weight 'two'", "[shape] Reshape, which was folded"});
  EXPECT_EQ(result(), (Values{-2 + 4, -10 + 1}));
  session->setWeight("a", floats({2}, {1, 2}));
  session->setWeight("b", tensorOf<int32_t>(DataType::Int32, {1}, {3}));
  EXPECT_EQ(result(), (Values{3 + 9, 60 + 36}));
}

// A folded constant that is a launch operand and data.
constexpr const char *kEdge = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.edge_fly": "offset=512 bytes=4",
  "offload.value.h": "offset=1024 bytes=8",
  "offload.value.x_fly": "offset=0 bytes=8",
  "offload.value.y_dev": "offset=1536 bytes=8"]>
g (float[2] x) => (float[2] y)
  <float top = {5}, float edge = {-5}>
{
  [stage_x] x_fly = offload.Stage (x, "")
  [stage_e] edge_fly = offload.Stage (edge, "")
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [clip] h = Clip (x_dev, edge)
  [wait_e] edge_dev = offload.Wait (edge_fly, "")
  [add] y_dev = Add (h, edge_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
<domain: "offload", opset_import: ["": 21]>
Folded (top) => (edge) { [neg] edge = Neg (top) }
)";

TEST_F(LiveWeights, AFoldedLaunchOperandIsMadeAnew) {
  auto session = load(kEdge);
  auto result = [&] {
    return valuesOf(session->run({{"x", floats({2}, {-10, 1})}})["y"]);
  };
  EXPECT_EQ(result(), (Values{-10, -4}));
  session->setWeight("top", scalarFloat(2));
  EXPECT_EQ(result(), (Values{-4, -1}));
}

TEST_F(LiveWeights, AFileThatFoldsWhatIsNotThereIsRefused) {
  auto refuse = [&](const std::string &what, const std::string &with,
                    std::initializer_list<std::string> parts) {
    expectError([&] { load(replaced(kFolded, what, with)); }, parts);
  };
  refuse("Folded (a, b, two)", "Folded (a, b, h)", {"offload.Folded", "'h'"});
  refuse("Folded (a, b, two)", "Folded (a, b)", {"[shape]", "'two'"});
  refuse("=> (s, u)", "=> (s, x)", {"offload.Folded", "'x'"});
  refuse("=> (s, u)", "=> (s, u, two2)", {"offload.Folded", "'two2'"});
  refuse("s_2 = Mul (s, s)", "s_2 = Sigmoid (s)",
         {"[square] Sigmoid is no shape arithmetic"});
}

// The launching thread looks a row up in a small table and takes a slice at
// `from`; both are cached with the sizes of a step.
constexpr const char *kLaunch = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.node.look": "queue=launch",
  "offload.value.from_fly": "offset=2048 bytes=8",
  "offload.value.part": "offset=512 bytes=8",
  "offload.value.row_fly": "offset=1024 bytes=8",
  "offload.value.x_fly": "offset=0 bytes=16",
  "offload.value.y_dev": "offset=1536 bytes=8"]>
g (float[4] x) => (float[2] y, int64[1] from)
  <float[3,2] table = {0, 1, 10, 20, 5, 6}, int64 one = {1},
   int64[1] from = {0}, int64[1] to = {2}>
{
  [stage_x] x_fly = offload.Stage (x, "")
  [look] row = Gather (table, one)
  [stage_row] row_fly = offload.Stage (row, "")
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [cut] part = Slice (x_dev, from, to)
  [wait_row] row_dev = offload.Wait (row_fly, "")
  [add] y_dev = Add (part, row_dev)
  [fetch] y = offload.Fetch (y_dev, "")
}
)";

TEST_F(LiveWeights, WhatTheLaunchingThreadKnowsIsReplacedUnlessSizesChange) {
  auto session = load(replaced(kLaunch,
                               "  \"offload.value.from_fly\": \"offset=2048 "
                               "bytes=8\",\n",
                               ""));
  EXPECT_EQ(namesOf(session->weights()),
            (std::vector<std::string>{"table", "from"}));
  auto result = [&] {
    return valuesOf(session->run({{"x", floats({4}, {1, 2, 3, 4})}})["y"]);
  };
  EXPECT_EQ(result(), (Values{11, 22}));
  session->setWeight("table", floats({3, 2}, {0, 0, 100, 200, 0, 0}));
  EXPECT_EQ(result(), (Values{101, 202}));
  EXPECT_EQ(valuesOf(session->weight("table"))[3], 200);
  expectError([&] { session->setWeight("from", int64s({1}, {1})); },
              {"weight 'from'", "[cut] Slice", "compile again"});
  EXPECT_EQ(*session->weight("from").data<int64_t>(), 0);
  session->setWeight("from", int64s({1}, {-4})); // the same size
  TensorMap outputs = session->run({{"x", floats({4}, {1, 2, 3, 4})}});
  EXPECT_EQ(valuesOf(outputs["y"]), (Values{101, 202}));
  EXPECT_EQ(*outputs["from"].data<int64_t>(), -4);
  expectError([&] { session->setWeight("to", int64s({1}, {3})); },
              {"'to' is no weight: [cut] Slice"});
  EXPECT_EQ(result(), (Values{101, 202}));
}

TEST_F(LiveWeights, ATrainedWeightIsItsState) {
  auto session = load(readInput("step.onnxtxt"));
  std::vector<std::string> names = namesOf(session->weights());
  for (const char *name : {"w1", "w2", "w3", "head"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(std::count(names.begin(), names.end(), "x_idle"), 0);
  Tensor head = session->weight("head");
  std::fill_n(head.data<float>(), head.numElements(), 0.25f);
  session->setWeight("head", head);
  EXPECT_TRUE(sameBytes(session->state("head"), head));
  std::fill_n(head.data<float>(), head.numElements(), 0.5f);
  session->setState("head", head);
  EXPECT_TRUE(sameBytes(session->weight("head"), head));
  expectError([&] { session->setWeight("head", floats({1}, {1})); },
              {"'head'", "float[1]"});
}

TEST_F(LiveWeights, SessionsOfOneFileHaveWeightsOfTheirOwn) {
  std::string path = writeText(kPlaces, folder / "m.off");
  auto one = Session::load(path, {}), two = Session::load(path, {});
  TensorMap feeds = {{"x", floats({1, 2}, {1, 1})}};
  Tensor first = one->run(feeds)["y"];
  std::thread other([&] {
    for (float value = 0; value < 20; ++value) {
      two->setWeight("b", floats({2}, {value, value}));
      two->run(feeds);
    }
  });
  for (int i = 0; i < 20; ++i) {
    one->setWeight("r", floats({2, 2}, {1, 0, 1, 1}));
    EXPECT_TRUE(sameBytes(one->run(feeds)["y"], first));
  }
  other.join();
}

} // namespace
} // namespace offload::rt
