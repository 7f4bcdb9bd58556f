// Timelines of a whole training step: what each operation's times must keep,
// and the trace that is written of them.

#include "StepTraining.h"

#include "offload/Runtime/Timeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

namespace offload::rt {
namespace {

constexpr int64_t kMillisecond = 1000000;

class Timed : public testing::Test {
protected:
  TestFolder folder;
  std::string path = writeText(readInput("step.onnxtxt"), folder / "step.off");

  std::unique_ptr<Session> trained(SessionOptions options, unsigned runs,
                                   unsigned timedRuns) {
    options.keepTimes = timedRuns != 0;
    options.timedRuns = timedRuns;
    auto session = Session::load(path, options);
    StepReference(5).set(*session);
    for (unsigned i = 0; i < runs; ++i)
      session->run(StepReference::feeds(i, 1e-4f, true).tensors());
    return session;
  }
  static const TimedOperation &find(const TimedRun &run,
                                    const std::string &node) {
    for (const TimedOperation &operation : run.operations)
      if (operation.node == node)
        return operation;
    throw Error("no operation " + node);
  }
};

TEST_F(Timed, TellsOfTheLastRunsOnly) {
  auto session = trained({}, 5, 3);
  MeasuredTimeline timeline = session->timeline();
  ASSERT_EQ(timeline.runs.size(), 3u);
  for (unsigned i = 0; i < 3; ++i)
    EXPECT_EQ(timeline.runs[i].number, 3 + i);
  EXPECT_EQ(timeline.device, "host");
  EXPECT_TRUE(trained({}, 2, 0)->timeline().runs.empty());
  EXPECT_EQ(trained({}, 1, 3)->timeline().runs.size(), 1u);
}

TEST_F(Timed, EveryOperationKeepsTheOrderOfItsQueueAndOfItsWaits) {
  auto session = trained({}, 4, 4);
  for (const TimedRun &run : session->timeline().runs) {
    EXPECT_LE(run.startNs, run.operations.front().launchNs);
    EXPECT_LE(run.launchedNs, run.landedNs);
    std::map<Queue, int64_t> last;
    std::map<std::string, int64_t> ended;
    int64_t launch = 0;
    for (const TimedOperation &operation : run.operations) {
      EXPECT_GE(operation.launchNs, launch);
      launch = operation.launchNs;
      EXPECT_LE(launch, run.launchedNs);
      int64_t &before = last[operation.queue];
      for (const TimedPause &pause : operation.pauses) {
        ASSERT_FALSE(pause.node.empty());
        EXPECT_GE(pause.startNs, std::max(before, launch));
        EXPECT_GE(pause.endNs, pause.startNs);
        before = pause.endNs;
        if (!pause.ofLastRun)
          EXPECT_GE(pause.endNs, ended[pause.node])
              << operation.node << " waits for " << pause.node;
      }
      if (operation.startNs < 0)
        continue;
      EXPECT_GE(operation.startNs, std::max(before, launch)) << operation.node;
      EXPECT_GE(operation.endNs, operation.startNs);
      before = ended[operation.node] = operation.endNs;
    }
  }
}

TEST_F(Timed, BytesAndTimesAreThoseOfTheStatistics) {
  auto session = trained({}, 3, 1);
  MeasuredTimeline timeline = session->timeline();
  Statistics statistics = session->statistics();
  ASSERT_EQ(timeline.runs.size(), 1u);
  std::map<Queue, int64_t> bytes, busy, stalled, count;
  for (const TimedOperation &operation : timeline.runs[0].operations) {
    ++count[operation.queue];
    bytes[operation.queue] += operation.bytes;
    busy[operation.queue] += operation.endNs - operation.startNs;
    for (const TimedPause &pause : operation.pauses)
      stalled[operation.queue] += pause.endNs - pause.startNs;
  }
  EXPECT_EQ(bytes[Queue::H2D], statistics.predicted.h2dBytes);
  EXPECT_EQ(bytes[Queue::D2H], statistics.predicted.d2hBytes);
  EXPECT_EQ(bytes[Queue::Compute] + bytes[Queue::Host], 0);
  for (unsigned q = 0; q < kNumQueues; ++q) {
    auto queue = static_cast<Queue>(q);
    EXPECT_EQ(busy[queue], statistics.queues[q].busyNs) << queueName(queue);
    EXPECT_EQ(stalled[queue], statistics.queues[q].stallNs) << q;
    EXPECT_EQ(count[queue], int64_t(statistics.queues[q].operations));
  }
}

TEST_F(Timed, ADelayedQueueHoldsUpThoseThatWaitForIt) {
  SessionOptions options;
  options.delays = {{Queue::H2D, 20}};
  auto session = trained(options, 1, 1); // no older run holds compute up
  TimedRun run = session->timeline().runs.at(0);
  const TimedOperation &stage = find(run, "stage_x");
  ASSERT_FALSE(stage.pauses.empty());
  EXPECT_EQ(stage.pauses.back().node, "");
  EXPECT_GE(stage.pauses.back().endNs - stage.pauses.back().startNs,
            20 * kMillisecond);
  const TimedOperation &wait = find(run, "wait_x");
  EXPECT_EQ(wait.startNs, -1);
  ASSERT_FALSE(wait.pauses.empty());
  EXPECT_EQ(wait.pauses[0].node, "stage_x");
  EXPECT_GE(wait.pauses[0].endNs, stage.endNs);
  EXPECT_GT(wait.pauses[0].endNs - wait.pauses[0].startNs, 2 * kMillisecond);
}

TEST_F(Timed, AFailedRunIsNotToldOfAndTheNextOneIs) {
  SessionOptions options;
  std::atomic<bool> fails = false;
  options.beforeNode = [&](const std::string &node) {
    if (fails && node == "fc1")
      throw Error("planted");
  };
  auto session = trained(options, 1, 4);
  TensorMap feeds = StepReference::feeds(1, 1e-4f, true).tensors();
  fails = true;
  EXPECT_THROW(session->run(feeds), Error);
  fails = false;
  session->run(feeds);
  MeasuredTimeline timeline = session->timeline();
  ASSERT_EQ(timeline.runs.size(), 2u);
  EXPECT_EQ(timeline.runs[0].number, 1u);
  EXPECT_EQ(timeline.runs[1].number, 3u);
  EXPECT_GT(find(timeline.runs[1], "fc1").endNs, 0);
}

std::string fileText(const std::string &path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST_F(Timed, TheTraceHoldsAnyNameAndAppearsWhole) {
  MeasuredTimeline timeline;
  timeline.model = "a \"quoted\" \\ name";
  timeline.device = "host";
  TimedRun &run = timeline.runs.emplace_back();
  run = {7, 1000, 9000, 12345, {}};
  TimedOperation operation{"fc\n\xff\xc3\xa9", "Gemm", Queue::H2D, 2000};
  operation.startNs = 3001;
  operation.endNs = 4500;
  operation.bytes = 64;
  operation.pauses.push_back({"other", true, 2500, 3000});
  run.operations.push_back(operation);
  std::string trace = folder / "trace.json";
  writeChromeTrace(trace, timeline);
  std::string text = fileText(trace);
  for (const char *part :
       {"a \\\"quoted\\\" \\\\ name on host", "\"fc\\u000a\\ufffd\xc3\xa9\"",
        "\"ts\":2.001,\"dur\":1.499", "\"bytes\":64", "\"launch\":1.000",
        "\"waits_for\":\"other\",\"of_run\":6"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  expectError(
      [&] { writeChromeTrace(folder / "no/such/trace.json", timeline); },
      {"cannot write"});
}

} // namespace
} // namespace offload::rt
