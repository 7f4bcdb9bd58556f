// What every device must do, judged by bytes that come back to the host.
//
// Compute tasks of a test touch device memory only by the device's own fills
// and copies, so the suite holds for devices whose memory the host cannot
// reach.

#include "DeviceFactories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace offload::rt {
namespace {

constexpr Queue kQueues[] = {Queue::Compute, Queue::H2D, Queue::D2H,
                             Queue::Host};
constexpr int64_t kMillisecond = 1000000;

class DeviceConformance : public testing::TestWithParam<DeviceFactory> {
protected:
  std::unique_ptr<Device> device = GetParam().make();

  std::unique_ptr<Memory> pattern(int64_t bytes, unsigned seed) {
    std::unique_ptr<Memory> memory = device->allocateHost(bytes, true);
    std::mt19937 random(seed);
    for (int64_t i = 0; i < bytes; ++i)
      memory->data()[i] = static_cast<std::byte>(random());
    return memory;
  }
  static bool same(const Memory &a, const Memory &b) {
    return a.sizeBytes() == b.sizeBytes() &&
           !std::memcmp(a.data(), b.data(), static_cast<size_t>(a.sizeBytes()));
  }
  static bool isAll(const Memory &memory, int value) {
    return std::all_of(memory.data(), memory.data() + memory.sizeBytes(),
                       [&](std::byte b) { return b == std::byte(value); });
  }
};

TEST_P(DeviceConformance, MemoryIsAlignedAndExact) {
  for (int64_t bytes : {int64_t(0), int64_t(1), int64_t(513), int64_t(1) << 20})
    for (Memory *memory : {device->allocateDevice(bytes).release(),
                           device->allocateHost(bytes, true).release(),
                           device->allocateHost(bytes, false).release()}) {
      std::unique_ptr<Memory> owned(memory);
      EXPECT_EQ(owned->sizeBytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(owned->data()) % kAlignBytes, 0u);
    }
}

TEST_P(DeviceConformance, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  try {
    device->allocateDevice(int64_t(1) << 60);
    FAIL() << "a quintillion bytes were given";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(int64_t(1) << 60)),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("free"), std::string::npos);
  }
}

TEST_P(DeviceConformance, CopiesGoBothWays) {
  for (int64_t bytes : {int64_t(1), int64_t(4097), int64_t(8) << 20}) {
    auto from = pattern(bytes, 3), to = device->allocateHost(bytes, true);
    auto there = device->allocateDevice(bytes);
    auto arrived = device->makeEvent(), back = device->makeEvent();
    device->copy(Queue::H2D, there->data(), from->data(), bytes);
    device->record(Queue::H2D, *arrived);
    device->wait(Queue::D2H, *arrived);
    device->copy(Queue::D2H, to->data(), there->data(), bytes);
    device->record(Queue::D2H, *back);
    device->synchronize(*back);
    EXPECT_TRUE(same(*from, *to)) << bytes;
  }
}

TEST_P(DeviceConformance, FillsWholeRanges) {
  auto there = device->allocateDevice(4096);
  auto to = device->allocateHost(4096, true);
  device->fill(Queue::Compute, there->data(), 0xff, 4096);
  device->fill(Queue::Compute, there->data(), 0x11, 0);
  device->drain();
  device->copy(Queue::D2H, to->data(), there->data(), 4096);
  device->drain();
  EXPECT_TRUE(isAll(*to, 0xff));
}

TEST_P(DeviceConformance, OneQueueKeepsItsOrder) {
  for (Queue queue : kQueues) {
    std::vector<int> order;
    for (int i = 0; i < 500; ++i)
      device->launch(queue, [&order, i] { order.push_back(i); });
    device->drain();
    std::vector<int> expected(500);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected) << queueName(queue);
  }
}

TEST_P(DeviceConformance, FillsAndCopiesOfOneQueueKeepTheirOrder) {
  auto there = device->allocateDevice(1 << 20);
  auto from = pattern(1 << 20, 5), to = device->allocateHost(1 << 20, true);
  for (int i = 0; i < 20; ++i) {
    device->fill(Queue::H2D, there->data(), i, 1 << 20);
    device->copy(Queue::H2D, there->data(), from->data(), 1 << 20);
  }
  device->drain();
  device->copy(Queue::D2H, to->data(), there->data(), 1 << 20);
  device->drain();
  EXPECT_TRUE(same(*from, *to));
}

TEST_P(DeviceConformance, AWaitHoldsBackEveryPairOfQueues) {
  auto there = device->allocateDevice(64), first = device->allocateDevice(64);
  for (Queue maker : kQueues)
    for (Queue reader : kQueues) {
      if (maker == Queue::Host || reader == Queue::Host || maker == reader)
        continue;
      auto to = device->allocateHost(64, true);
      auto made = device->makeEvent(), read = device->makeEvent();
      device->fill(maker, there->data(), 1, 64);
      device->delay(maker, 3 * kMillisecond);
      device->fill(maker, there->data(), 2, 64);
      device->record(maker, *made);
      device->wait(reader, *made);
      device->fill(reader, there->data(), 3, 64);
      device->record(reader, *read);
      device->wait(Queue::D2H, *read);
      device->copy(Queue::D2H, to->data(), there->data(), 64);
      device->drain();
      EXPECT_TRUE(isAll(*to, 3)) << queueName(maker) << queueName(reader);
    }
}

TEST_P(DeviceConformance, HostTasksWaitForCopiesAndHoldThemBack) {
  auto from = pattern(4096, 7), to = device->allocateHost(4096, true);
  auto there = device->allocateDevice(4096);
  std::unique_ptr<Memory> landed = device->allocateHost(4096, true);
  auto arrived = device->makeEvent(), back = device->makeEvent();
  auto changed = device->makeEvent();
  device->delay(Queue::H2D, 2 * kMillisecond);
  device->copy(Queue::H2D, there->data(), from->data(), 4096);
  device->record(Queue::H2D, *arrived);
  device->wait(Queue::D2H, *arrived);
  device->copy(Queue::D2H, landed->data(), there->data(), 4096);
  device->record(Queue::D2H, *back);
  device->wait(Queue::Host, *back);
  device->launch(Queue::Host, [&] {
    std::memcpy(to->data(), landed->data(), 4096);
    std::memset(from->data(), 9, 4096);
  });
  device->record(Queue::Host, *changed);
  device->wait(Queue::H2D, *changed);
  device->copy(Queue::H2D, there->data(), from->data(), 4096);
  device->record(Queue::H2D, *arrived);
  device->wait(Queue::D2H, *arrived);
  device->copy(Queue::D2H, landed->data(), there->data(), 4096);
  device->drain();
  EXPECT_TRUE(same(*pattern(4096, 7), *to));
  EXPECT_TRUE(isAll(*landed, 9));
}

TEST_P(DeviceConformance, AnEventStandsForItsLastRecord) {
  auto there = device->allocateDevice(64), to = device->allocateHost(64, true);
  auto event = device->makeEvent();
  for (int step = 1; step <= 50; ++step) {
    device->fill(Queue::Compute, there->data(), step, 64);
    device->record(Queue::Compute, *event);
    device->wait(Queue::D2H, *event);
    device->copy(Queue::D2H, to->data(), there->data(), 64);
    auto landed = device->makeEvent();
    device->record(Queue::D2H, *landed);
    device->synchronize(*landed);
    ASSERT_TRUE(isAll(*to, step)) << step;
  }
}

TEST_P(DeviceConformance, AWaitBeforeTheNextRecordMeansTheLastOne) {
  // h2d waits for the event of the step before although compute records it
  // again right after, behind a long pause: the copy must not wait for that.
  auto event = device->makeEvent(), copied = device->makeEvent();
  auto there = device->allocateDevice(64);
  device->record(Queue::Compute, *event);
  device->wait(Queue::H2D, *event);
  std::atomic<bool> isReleased = false;
  device->launch(Queue::Host, [&] {
    while (!isReleased)
      std::this_thread::yield();
  });
  auto hostDone = device->makeEvent();
  device->record(Queue::Host, *hostDone);
  device->wait(Queue::Compute, *hostDone);
  device->record(Queue::Compute, *event);
  device->fill(Queue::H2D, there->data(), 1, 64);
  device->record(Queue::H2D, *copied);
  device->synchronize(*copied); // hangs where the wait took the later record
  isReleased = true;
  device->synchronize(*event);
}

TEST_P(DeviceConformance, AnEventThatWasNeverRecordedHasPassed) {
  auto event = device->makeEvent();
  bool hasRun = false;
  device->wait(Queue::Compute, *event);
  device->launch(Queue::Compute, [&] { hasRun = true; });
  device->synchronize(*event);
  device->drain();
  EXPECT_TRUE(hasRun);
}

TEST_P(DeviceConformance, AnEventMayGoWhileItIsWaitedFor) {
  std::atomic<int> reached = 0;
  for (int i = 0; i < 100; ++i) {
    auto event = device->makeEvent();
    device->launch(Queue::Compute, [&] { ++reached; });
    device->record(Queue::Compute, *event);
    device->wait(Queue::Host, *event);
    device->launch(Queue::Host, [&] { ++reached; });
  }
  device->drain();
  EXPECT_EQ(reached, 200);
}

TEST_P(DeviceConformance, ManyEventsAcrossAllQueues) {
  // A chain that hops over the queues at random. Compute writes a new byte to
  // the device, d2h brings it to the host, the host adds one and notes it, h2d
  // takes it back; so a lost wait shows in what the host noted.
  constexpr int kLinks = 2000;
  std::mt19937 random(17);
  std::vector<std::unique_ptr<Event>> events;
  auto there = device->allocateDevice(1), here = device->allocateHost(1, true);
  device->fill(Queue::Compute, there->data(), 0, 1);
  device->drain();
  std::byte onDevice{0}, onHost{0}; // what must be there
  here->data()[0] = onHost;
  std::vector<std::byte> noted, expected;
  for (int i = 0; i < kLinks; ++i) {
    Queue queue = kQueues[random() % kNumQueues];
    if (i)
      device->wait(queue, *events.back());
    switch (queue) {
    case Queue::Compute:
      onDevice = std::byte(i);
      device->fill(queue, there->data(), i & 255, 1);
      break;
    case Queue::H2D:
      onDevice = onHost;
      device->copy(queue, there->data(), here->data(), 1);
      break;
    case Queue::D2H:
      onHost = onDevice;
      device->copy(queue, here->data(), there->data(), 1);
      break;
    default:
      onHost = std::byte(std::to_integer<int>(onHost) + 1);
      expected.push_back(onHost);
      device->launch(queue, [&noted, at = here->data()] {
        *at = std::byte(std::to_integer<int>(*at) + 1);
        noted.push_back(*at);
      });
    }
    events.push_back(device->makeEvent());
    device->record(queue, *events.back());
  }
  device->drain();
  EXPECT_GT(expected.size(), 100u);
  EXPECT_EQ(noted, expected);
}

TEST_P(DeviceConformance, QueuesRunSideBySide) {
  auto a = device->makeEvent();
  auto there = device->allocateDevice(64);
  std::atomic<bool> isReleased = false;
  device->launch(Queue::Host, [&] {
    while (!isReleased)
      std::this_thread::yield();
  });
  device->fill(Queue::H2D, there->data(), 1, 64);
  device->record(Queue::H2D, *a);
  device->synchronize(*a); // hangs where one queue holds up another
  isReleased = true;
  device->drain();
}

TEST_P(DeviceConformance, AnErrorSkipsWhatFollowsAndIsKept) {
  for (Queue queue : kQueues) {
    std::atomic<bool> hasRun = false;
    auto failed = device->makeEvent();
    device->launch(queue, [] { throw Error("first"); });
    device->record(queue, *failed);
    for (Queue other : kQueues) {
      device->wait(other, *failed);
      if (!GetParam().runsAtIssue || queue != Queue::Host ||
          other == Queue::Host) // else that one is the first to fail
        device->launch(other, [] { throw Error("later"); });
    }
    device->launch(queue, [&] { hasRun = true; });
    device->synchronize(*failed);
    device->drain();
    ASSERT_TRUE(device->error()) << queueName(queue);
    EXPECT_FALSE(hasRun) << queueName(queue);
    try {
      std::rethrow_exception(device->error());
    } catch (const Error &error) {
      EXPECT_STREQ(error.what(), "first") << queueName(queue);
    }
    device->recover();
    EXPECT_FALSE(device->error());
    device->launch(queue, [&] { hasRun = true; });
    device->drain();
    EXPECT_TRUE(hasRun) << queueName(queue);
  }
}

TEST_P(DeviceConformance, CopiesAndFillsAreSkippedAfterAnError) {
  auto there = device->allocateDevice(64), to = device->allocateHost(64, true);
  device->fill(Queue::Compute, there->data(), 1, 64);
  device->drain();
  auto failed = device->makeEvent();
  device->launch(Queue::Host, [] { throw Error("no"); });
  device->record(Queue::Host, *failed);
  device->wait(Queue::Compute, *failed);
  if (GetParam().runsAtIssue)
    device->synchronize(*failed); // what a stream already holds does run
  device->fill(Queue::Compute, there->data(), 2, 64);
  device->recover();
  device->copy(Queue::D2H, to->data(), there->data(), 64);
  device->drain();
  EXPECT_TRUE(isAll(*to, 1));
}

TEST_P(DeviceConformance, SharedMemoryStartsAtZero) {
  auto shared = device->allocateShared(4096);
  EXPECT_EQ(shared->sizeBytes(), 4096);
  EXPECT_TRUE(isAll(*shared, 0));
}

TEST_P(DeviceConformance, TellsPinnedMemoryFromOther) {
  auto pinned = device->allocateHost(8192, true);
  auto plain = device->allocateHost(8192, false);
  EXPECT_TRUE(device->isPinned(pinned->data(), 8192));
  EXPECT_TRUE(device->isPinned(pinned->data() + 4000, 100));
  EXPECT_EQ(device->isPinned(plain->data(), 8192), !device->copiesNeedPinned());
}

TEST_P(DeviceConformance, TwoDevicesDoNotMeet) {
  std::unique_ptr<Device> other = GetParam().make();
  auto mine = device->allocateDevice(64), theirs = other->allocateDevice(64);
  auto to = device->allocateHost(64, true);
  other->launch(Queue::Host, [] { throw Error("theirs"); });
  other->drain();
  EXPECT_TRUE(other->error());
  EXPECT_FALSE(device->error());
  device->fill(Queue::Compute, mine->data(), 4, 64);
  device->drain();
  device->copy(Queue::D2H, to->data(), mine->data(), 64);
  device->drain();
  EXPECT_TRUE(isAll(*to, 4));
  other->recover();
  other.reset();
  device->fill(Queue::Compute, mine->data(), 5, 64);
  device->drain();
}

TEST_P(DeviceConformance, DrainAwaitsEveryQueue) {
  std::atomic<int> done = 0;
  for (Queue queue : kQueues) {
    device->delay(queue, 5 * kMillisecond);
    device->launch(Queue::Host, [] {});
    auto end = device->makeEvent();
    device->record(queue, *end);
    device->wait(Queue::Host, *end);
    device->launch(Queue::Host, [&] { ++done; });
  }
  device->drain();
  EXPECT_EQ(done, 4);
}

TEST_P(DeviceConformance, DestructionEndsWhatWasLaunched) {
  std::atomic<int> done = 0;
  {
    std::unique_ptr<Device> other = GetParam().make();
    auto event = other->makeEvent();
    other->delay(Queue::Compute, 2 * kMillisecond);
    other->record(Queue::Compute, *event);
    other->wait(Queue::Host, *event);
    other->launch(Queue::Host, [&] { ++done; });
  }
  EXPECT_EQ(done, 1);
}

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Of the last step: how long a queue did something of that kind, or anything.
int64_t sumNs(const std::vector<Span> &spans, Queue queue, bool isWait) {
  int64_t sum = 0;
  for (const Span &span : spans)
    if (span.queue == queue && (span.kind == Span::Kind::Wait) == isWait)
      sum += span.endNs - span.startNs;
  return sum;
}

TEST_P(DeviceConformance, DelaysCountAndStepsCountAnew) {
  device->keepTimes(1, {});
  device->beginStep();
  device->label(0);
  device->delay(Queue::H2D, 60 * kMillisecond);
  device->beginStep();
  auto event = device->makeEvent();
  device->delay(Queue::H2D, 4 * kMillisecond);
  device->record(Queue::H2D, *event);
  device->wait(Queue::Compute, *event);
  device->drain();
  auto steps = device->spans();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_GE(sumNs(steps[0], Queue::H2D, false), 4 * kMillisecond);
  EXPECT_LT(sumNs(steps[0], Queue::H2D, false), 60 * kMillisecond);
  EXPECT_EQ(sumNs(steps[0], Queue::D2H, false), 0);
  EXPECT_GT(sumNs(steps[0], Queue::Compute, true), 2 * kMillisecond);
  device->beginStep();
  device->drain();
  ASSERT_EQ(device->spans().size(), 1u);
  EXPECT_TRUE(device->spans()[0].empty());
  device->keepTimes(0, {});
  device->beginStep();
  device->delay(Queue::H2D, kMillisecond);
  device->drain();
  EXPECT_TRUE(device->spans().empty());
}

TEST_P(DeviceConformance, SpansLieBetweenLaunchAndEndInOrder) {
  constexpr unsigned kSteps = 5, kKept = 3, kOps = 60;
  constexpr int64_t kBytes = 1 << 16;
  // Each queue has bytes of its own: nothing orders them here.
  auto stageTo = device->allocateDevice(kBytes);
  auto fetchFrom = device->allocateDevice(kBytes);
  auto filled = device->allocateDevice(kBytes);
  auto stageFrom = device->allocateHost(kBytes, true);
  auto fetchTo = device->allocateHost(kBytes, true);
  device->keepTimes(kKept, {kOps, kOps, kOps, kOps});
  struct Given {
    Queue queue;
    Span::Kind kind;
    int64_t launchNs;
  };
  std::vector<std::vector<Given>> steps;
  std::vector<int64_t> endNs; // when all of a step had ended
  std::mt19937 random(5);
  auto event = device->makeEvent();
  for (unsigned step = 0; step < kSteps; ++step) {
    device->beginStep();
    std::vector<Given> &given = steps.emplace_back();
    for (uint32_t op = 0; op < kOps; ++op) {
      Queue queue = kQueues[random() % kNumQueues];
      bool isCopy = queue == Queue::H2D || queue == Queue::D2H;
      device->label(op);
      given.push_back(
          {queue, isCopy ? Span::Kind::Copy : Span::Kind::Work, nowNs()});
      if (op % 7 == 3)
        given.back().kind = Span::Kind::Wait;
      if (op % 7 == 3)
        device->wait(queue, *event);
      else if (queue == Queue::H2D)
        device->copy(queue, stageTo->data(), stageFrom->data(), kBytes);
      else if (queue == Queue::D2H)
        device->copy(queue, fetchTo->data(), fetchFrom->data(), kBytes);
      else
        device->launch(queue, [] {});
      device->record(queue, *event);
    }
    device->label(Device::kNoLabel);
    device->fill(Queue::Compute, filled->data(), 0, kBytes);
    device->drain();
    endNs.push_back(nowNs());
  }
  // A card's times are late by at most this much.
  constexpr int64_t kLateNs = 200000;
  auto kept = device->spans();
  ASSERT_EQ(kept.size(), kKept);
  for (unsigned k = 0; k < kKept; ++k) {
    unsigned step = kSteps - kKept + k;
    EXPECT_EQ(kept[k].size(), kOps);
    std::array<int64_t, kNumQueues> last{};
    std::vector<bool> isSeen(kOps);
    for (const Span &span : kept[k]) {
      ASSERT_LT(span.label, kOps);
      const Given &given = steps[step][span.label];
      EXPECT_FALSE(isSeen[span.label]);
      isSeen[span.label] = true;
      EXPECT_EQ(span.queue, given.queue);
      EXPECT_EQ(span.kind, given.kind);
      EXPECT_GE(span.startNs, given.launchNs) << span.label;
      EXPECT_GE(span.endNs, span.startNs) << span.label;
      EXPECT_LE(span.endNs, endNs[step] + kLateNs) << span.label;
      int64_t &before = last[static_cast<unsigned>(span.queue)];
      EXPECT_GE(span.startNs, before) << "not first in, first out";
      before = span.endNs;
    }
  }
}

TEST_P(DeviceConformance, SpansShowWhoWaitedForWhom) {
  device->keepTimes(2, {4, 4, 4, 4});
  device->beginStep();
  auto made = device->makeEvent(), never = device->makeEvent();
  device->label(1);
  device->delay(Queue::D2H, 20 * kMillisecond);
  device->record(Queue::D2H, *made);
  device->label(2);
  device->wait(Queue::Host, *never);
  device->wait(Queue::Host, *made);
  device->launch(Queue::Host, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  device->drain();
  auto steps = device->spans();
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_EQ(steps[0].size(), 4u);
  const Span &pause = steps[0][0], &passed = steps[0][1];
  const Span &stall = steps[0][2], &work = steps[0][3];
  EXPECT_EQ(pause.queue, Queue::D2H);
  EXPECT_EQ(pause.kind, Span::Kind::Pause);
  EXPECT_GE(pause.endNs - pause.startNs, 20 * kMillisecond);
  EXPECT_EQ(passed.kind, Span::Kind::Wait);
  EXPECT_LT(passed.endNs - passed.startNs, 10 * kMillisecond);
  EXPECT_EQ(stall.kind, Span::Kind::Wait);
  EXPECT_GT(stall.endNs - stall.startNs, 2 * kMillisecond);
  EXPECT_GE(stall.endNs, pause.endNs);
  EXPECT_EQ(work.kind, Span::Kind::Work);
  EXPECT_GE(work.startNs, stall.endNs);
  EXPECT_GE(work.endNs - work.startNs, 2 * kMillisecond);
}

TEST_P(DeviceConformance, WhatIsSkippedHasNoSpan) {
  device->keepTimes(1, {});
  device->beginStep();
  device->label(1);
  device->launch(Queue::Host, [] { throw Error("no"); });
  device->drain();
  device->label(2);
  device->launch(Queue::Host, [] {});
  device->recover();
  auto failed = device->spans();
  ASSERT_EQ(failed.size(), 1u);
  for (const Span &span : failed[0])
    EXPECT_EQ(span.label, 1u);
  device->beginStep();
  device->launch(Queue::Host, [] {});
  device->drain();
  auto next = device->spans();
  ASSERT_EQ(next.size(), 1u);
  ASSERT_EQ(next[0].size(), 1u);
  EXPECT_EQ(next[0][0].label, 2u);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance,
                         testing::ValuesIn(deviceFactories()),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace offload::rt
