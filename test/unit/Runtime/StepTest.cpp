// The whole training step of step.onnxtxt on the host device, against plain
// loops, and what must not change its bits.

#include "StepTraining.h"

#include "../../../lib/Runtime/SessionParts.h"

#include <gtest/gtest.h>

namespace offload::rt {
namespace {

constexpr std::pair<float, bool> kSteps[] = {
    {1e-4f, true}, {2e-4f, true}, {2e-4f, false}, {5e-5f, true}};

class StepOnHost : public testing::Test {
protected:
  TestFolder folder;
  std::string path = writeText(readInput("step.onnxtxt"), folder / "step.off");

  /// Losses and states of the four steps.
  TensorMap bitsOf(const SessionOptions &options) {
    auto session = Session::load(path, options);
    StepReference(5).set(*session);
    TensorMap all;
    for (unsigned i = 0; i < std::size(kSteps); ++i) {
      StepFeeds feeds =
          StepReference::feeds(100 + i, kSteps[i].first, kSteps[i].second);
      all["loss" + std::to_string(i)] = session->run(feeds.tensors())["loss"];
    }
    for (const ValueInfo &state : session->states())
      all[state.name] = session->state(state.name);
    return all;
  }
  static void expectSame(const TensorMap &a, const TensorMap &b,
                         const std::string &what) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto &[name, tensor] : a)
      EXPECT_TRUE(sameBytes(tensor, b.at(name))) << what << ": " << name;
  }
};

TEST_F(StepOnHost, FourStepsGiveTheNumbersOfPlainLoops) {
  auto session = Session::load(path, {});
  StepReference reference(5);
  reference.set(*session);
  for (unsigned i = 0; i < std::size(kSteps); ++i) {
    StepFeeds feeds =
        StepReference::feeds(100 + i, kSteps[i].first, kSteps[i].second);
    StepReference before = reference;
    std::map<std::string, Tensor> heldBefore;
    for (const auto &[name, matrix] : reference.states)
      heldBefore[name] = session->state(name);
    float loss = reference.step(feeds);
    TensorMap outputs = session->run(feeds.tensors());
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_LT(relativeError(valuesOf(outputs["loss"]), {loss}), 1e-4) << i;
    for (const auto &[name, want] : reference.states) {
      Tensor got = session->state(name);
      EXPECT_LT(relativeError(valuesOf(got), want), 1e-4) << name << i;
      if (!feeds.apply) {
        EXPECT_TRUE(sameBytes(got, heldBefore[name])) << name << i;
        continue;
      }
      // The change, not the weight, which hides it.
      Matrix change = valuesOf(got), right = want;
      Matrix old = valuesOf(heldBefore[name]);
      for (size_t k = 0; k < right.size(); ++k) {
        change[k] -= old[k];
        right[k] -= before.states[name][k];
      }
      EXPECT_LT(relativeError(change, right), 2e-3) << name << i;
    }
  }
}

TEST_F(StepOnHost, BytesAndPeaksAreThoseOfTheFile) {
  SessionOptions options;
  options.keepTimes = true;
  auto session = Session::load(path, options);
  StepReference(5).set(*session);
  session->run(StepReference::feeds(1, 1e-4f, true).tensors());
  Statistics statistics = session->statistics();
  // x, w1, b1, w2, w3, t and the spilled h1 come in; loss, h1, three weight
  // gradients and one bias gradient go out.
  EXPECT_EQ(statistics.measured.h2dBytes, 2 * 32768 + 3 * 4194304 + 4096 + 512);
  EXPECT_EQ(statistics.measured.d2hBytes, 4 + 32768 + 3 * 4194304 + 4096);
  EXPECT_EQ(statistics.predicted.h2dBytes, statistics.measured.h2dBytes);
  EXPECT_EQ(statistics.predicted.d2hBytes, statistics.measured.d2hBytes);
  EXPECT_EQ(statistics.predicted.peakDeviceBytes, 12958208);
  EXPECT_LE(statistics.measured.peakDeviceBytes, 12958208);
  EXPECT_GE(statistics.measured.peakDeviceBytes, 12953604);
  EXPECT_EQ(statistics.runs, 1u);
  EXPECT_GT(statistics.measured.stepNs, 0);
  EXPECT_GT(statistics.queues[0].busyNs, 0);
  EXPECT_EQ(statistics.queues[1].operations, 6u);
  EXPECT_GT(statistics.waits, 5u);
  EXPECT_GT(statistics.droppedWaits, 0u);
}

TEST_F(StepOnHost, LiveBytesEqualThePredictionAtEveryNode) {
  auto session = Session::load(path, {});
  session->run(StepReference::feeds(1, 1e-4f, true).tensors());
  auto &parts = dynamic_cast<SessionParts &>(*session);
  std::vector<int64_t> predicted =
      predictLiveBytes(parts.program(), parts.launchList());
  EXPECT_EQ(parts.lastCounts().liveBytes, predicted);
  EXPECT_GT(*std::max_element(predicted.begin(), predicted.end()), 8 << 20);
}

TEST_F(StepOnHost, AGroupIsOneCopy) {
  auto session = Session::load(path, {});
  session->run(StepReference::feeds(1, 1e-4f, true).tensors());
  // x, w1 with b1, w2, t, w3, h1 in; h1, loss, gw3, gw2, gw1 with gb1 out.
  auto &parts = dynamic_cast<SessionParts &>(*session);
  EXPECT_EQ(parts.lastCounts().copies, 6u + 5u);
}

TEST_F(StepOnHost, NeitherPoisonNorDelaysChangeBits) {
  TensorMap reference = bitsOf({});
  SessionOptions poisoned;
  poisoned.poison = true;
  expectSame(reference, bitsOf(poisoned), "poison");
  for (Queue queue : {Queue::Compute, Queue::H2D, Queue::D2H, Queue::Host}) {
    SessionOptions options;
    options.poison = true;
    options.delays = {{queue, 3, 0}};
    expectSame(reference, bitsOf(options), std::string(queueName(queue)));
    options.delays = {{queue, 2, 7}, {Queue::Compute, 1, 9}};
    expectSame(reference, bitsOf(options), std::string(queueName(queue)));
  }
}

TEST_F(StepOnHost, StatesStartFromZerosAndTokensAreNone) {
  auto session = Session::load(path, {});
  std::vector<std::string> names;
  for (const ValueInfo &state : session->states()) {
    names.push_back(state.name);
    Tensor tensor = session->state(state.name);
    EXPECT_EQ(tensor.dims, state.dims);
    for (float value : valuesOf(tensor))
      ASSERT_EQ(value, 0) << state.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"w1", "b1", "w2", "w3", "head"}));
  expectError([&] { session->state("x_idle"); }, {"no state 'x_idle'", "w1"});
  expectError([&] { session->setState("b1", floats({2}, {1, 2})); },
              {"state 'b1'", "float[2]", "float[1024]"});
}

TEST_F(StepOnHost, AFailureAtAnyNodeLeavesASessionThatGoesOnRight) {
  std::string failing;
  SessionOptions options;
  options.atomicSteps = true;
  options.beforeNode = [&](const std::string &node) {
    if (node == failing)
      throw Error("on purpose");
  };
  auto session = Session::load(path, options);
  StepReference reference(5);
  reference.set(*session);
  StepFeeds feeds = StepReference::feeds(3, 1e-4f, true);
  TensorMap right = bitsOf({});
  auto &parts = dynamic_cast<SessionParts &>(*session);
  for (uint32_t node : parts.launchList().nodes) {
    failing = parts.program().nodes[node].name;
    TensorMap before;
    for (const ValueInfo &state : session->states())
      before[state.name] = session->state(state.name);
    expectError([&] { session->run(feeds.tensors()); },
                {"[" + failing + "]", "on purpose", " on "});
    for (const auto &[name, tensor] : before)
      ASSERT_TRUE(sameBytes(session->state(name), tensor))
          << failing << " changed " << name;
  }
  failing.clear();
  for (unsigned i = 0; i < std::size(kSteps); ++i)
    EXPECT_TRUE(
        sameBytes(session->run(StepReference::feeds(100 + i, kSteps[i].first,
                                                    kSteps[i].second)
                                   .tensors())["loss"],
                  right["loss" + std::to_string(i)]))
        << i;
}

TEST_F(StepOnHost, WithoutAtomicStepsEveryStateIsWhole) {
  bool isArmed = false;
  SessionOptions options;
  options.beforeNode = [&](const std::string &node) {
    if (isArmed && node == "update_w2")
      throw Error("on purpose");
  };
  auto session = Session::load(path, options);
  StepReference reference(5);
  reference.set(*session);
  TensorMap before;
  for (const ValueInfo &state : session->states())
    before[state.name] = session->state(state.name);
  isArmed = true;
  // The loss lands long before the update: the run may return, and then the
  // error comes with the next call.
  expectError(
      [&] {
        session->run(StepReference::feeds(100, 1e-4f, true).tensors());
        session->statistics();
      },
      {"[update_w2] offload.SGD on host", "on purpose"});
  isArmed = false; // the error has drained the queues
  StepReference after = reference;
  after.step(StepReference::feeds(100, 1e-4f, true));
  for (const auto &[name, tensor] : before) {
    Tensor now = session->state(name);
    bool isOld = sameBytes(now, tensor);
    EXPECT_TRUE(isOld ||
                relativeError(valuesOf(now), after.states[name]) < 1e-4)
        << name;
    if (name == "w2" || name == "w1" || name == "b1") {
      EXPECT_TRUE(isOld) << name;
    }
  }
}

} // namespace
} // namespace offload::rt
