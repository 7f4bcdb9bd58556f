// What sessions must keep on any device, judged through Session.h alone.
//
// In:  OFFLOAD_SESSION_FILES, a folder of `.off` files with feeds and right
//      results (test/differential/session_files.py makes it);
//      OFFLOAD_SESSION_DEVICE, "host" unless given, and
//      OFFLOAD_SESSION_OTHER_DEVICE, the same one unless given: of the second
//      session where two meet.
// Not: what one session alone computes (the judges of models), queues and
//      events (DeviceTest.cpp).
// How: bits of sessions that run beside others are those of a session alone;
//      after an error a session gives them again. What only a card can show is
//      a suite that a host device has no instance of.

#include "offload/Runtime/Session.h"
#include "offload/Runtime/Device.h"
#include "offload/Runtime/Npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <regex>
#include <set>

namespace offload::rt {
namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

std::string deviceName() {
  const char *given = std::getenv("OFFLOAD_SESSION_DEVICE");
  return given ? given : "host";
}

std::string otherDeviceName() {
  const char *given = std::getenv("OFFLOAD_SESSION_OTHER_DEVICE");
  return given ? given : deviceName();
}

std::string fileOf(const std::string &name) {
  const char *folder = std::getenv("OFFLOAD_SESSION_FILES");
  if (!folder)
    throw Error("OFFLOAD_SESSION_FILES names no folder; "
                "test/differential/session_files.py makes one");
  return std::string(folder) + "/" + name;
}

TensorMap feedsOf(const std::string &name) {
  return readNpz(fileOf(name + ".feeds.npz"));
}

std::unique_ptr<Session> load(const std::string &name,
                              SessionOptions options = {},
                              const std::string &device = deviceName()) {
  options.device = device;
  return Session::load(fileOf(name + ".off"), options);
}

/// A copy of its own, floats halved.
TensorMap halved(const TensorMap &feeds) {
  TensorMap made;
  for (const auto &[name, tensor] : feeds) {
    Tensor copy = Tensor::allocate(tensor.type, tensor.dims);
    std::memcpy(copy.bytes.get(), tensor.bytes.get(),
                static_cast<size_t>(tensor.sizeBytes()));
    for (int64_t i = 0; copy.type == DataType::Float && i < copy.numElements();
         ++i)
      copy.data<float>()[i] *= 0.5F;
    made[name] = copy;
  }
  return made;
}

/// Within 1e-4 of the largest right value.
bool isRight(const std::string &name, const TensorMap &got) {
  TensorMap want = readNpz(fileOf(name + ".expected.npz"));
  for (const auto &[output, right] : want) {
    auto made = got.find(output);
    if (made == got.end() || made->second.dims != right.dims ||
        made->second.type != DataType::Float || right.type != DataType::Float)
      return false;
    float most = 0, worst = 0;
    for (int64_t i = 0; i < right.numElements(); ++i) {
      float a = made->second.data<float>()[i], b = right.data<float>()[i];
      if (!std::isfinite(a))
        return false;
      most = std::max(most, std::fabs(b));
      worst = std::max(worst, std::fabs(a - b));
    }
    if (!(worst <= 1e-4F * most))
      return false;
  }
  return !want.empty();
}

/// Two runs' feeds of a file, and what a session alone makes of them on a
/// device.
struct Work {
  explicit Work(const std::string &name,
                const std::string &device = deviceName())
      : name(name), device(device),
        feeds{feedsOf(name), halved(feedsOf(name))} {
    std::unique_ptr<Session> session = start();
    for (const TensorMap &fed : feeds)
      alone.push_back(session->run(fed));
    EXPECT_TRUE(isRight(name, alone[0])) << name;
    EXPECT_FALSE(sameBits(alone[0], alone[1])) << name;
  }
  std::unique_ptr<Session> start(const SessionOptions &options = {}) const {
    return load(name, options, device);
  }
  /// How many of so many runs gave other bits.
  int wrongOf(Session &session, int runs) const {
    int wrong = 0;
    for (int i = 0; i < runs; ++i)
      wrong += !sameBits(session.run(feeds[i % 2]), alone[i % 2]);
    return wrong;
  }
  std::string name, device;
  std::vector<TensorMap> feeds, alone;
};

/// One line that holds all of these.
void expectError(const std::function<void()> &act,
                 std::initializer_list<std::string> parts) {
  try {
    act();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

/// Files whose sessions meet: of the same file, and of different ones.
const std::pair<const char *, const char *> kPairs[] = {
    {"chain", "chain"}, {"image", "image"}, {"chain", "image"}};

TEST(Sessions, TwoOfThemTakeTurns) {
  for (auto [first, second] : kPairs) {
    Work a(first), b(second, otherDeviceName());
    auto one = a.start(), other = b.start();
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(a.wrongOf(*one, 1 + i % 3), 0) << first;
      EXPECT_EQ(b.wrongOf(*other, 2), 0) << second;
    }
  }
}

TEST(Sessions, TwoOfThemRunAtTheSameTime) {
  for (auto [first, second] : kPairs) {
    Work a(first), b(second, otherDeviceName());
    auto one = a.start(), other = b.start();
    auto beside =
        std::async(std::launch::async, [&] { return a.wrongOf(*one, 30); });
    EXPECT_EQ(b.wrongOf(*other, 30), 0) << second;
    EXPECT_EQ(beside.get(), 0) << first;
  }
}

TEST(Sessions, TwoOfThemRunAtTheSameTimeDelayedAndPoisoned) {
  Work a("chain"), b("image", otherDeviceName());
  SessionOptions options;
  options.poison = true;
  options.delays = {{Queue::H2D, 1, 7}, {Queue::Compute, 0.2, 8}};
  auto one = a.start(options);
  options.delays = {{Queue::D2H, 2, 9}, {Queue::Compute, 0.3, 10}};
  auto other = b.start(options);
  auto beside =
      std::async(std::launch::async, [&] { return a.wrongOf(*one, 10); });
  EXPECT_EQ(b.wrongOf(*other, 10), 0);
  EXPECT_EQ(beside.get(), 0);
}

TEST(Sessions, TwoOfThemAreLoadedAtTheSameTime) {
  Work a("chain"), b("image", otherDeviceName());
  for (int i = 0; i < 3; ++i) {
    auto beside = std::async(std::launch::async, [&] {
      auto session = a.start();
      return a.wrongOf(*session, 4);
    });
    auto session = b.start();
    EXPECT_EQ(b.wrongOf(*session, 4), 0);
    EXPECT_EQ(beside.get(), 0);
  }
}

TEST(Sessions, OneEndsWhileAnotherRuns) {
  Work a("chain"), b("image", otherDeviceName());
  auto running = a.start();
  std::atomic<bool> isOver = false;
  auto beside = std::async(std::launch::async, [&] {
    int wrong = 0;
    do
      wrong += a.wrongOf(*running, 4);
    while (!isOver);
    return wrong;
  });
  struct Over { // also where something throws
    std::atomic<bool> &flag;
    ~Over() { flag = true; }
  };
  {
    Over over{isOver};
    for (int i = 0; i < 4; ++i) {
      auto ending = (i % 2 ? a : b).start();
      EXPECT_EQ((i % 2 ? a : b).wrongOf(*ending, 2), 0);
    }
  }
  EXPECT_EQ(beside.get(), 0);
}

TEST(Sessions, AWeightOfOneIsNoneOfAnother) {
  for (auto [name, weight] : {std::pair("image", "k1"), {"chain", "w5"}}) {
    Work work(name), otherWork(name, otherDeviceName());
    auto one = work.start(), other = otherWork.start();
    TensorMap old = {{weight, one->weight(weight)}};
    one->setWeight(weight, halved(old)[weight]);
    EXPECT_EQ(work.wrongOf(*one, 4), 4) << name;
    EXPECT_EQ(otherWork.wrongOf(*other, 4), 0) << name;
    one->setWeight(weight, old[weight]);
    EXPECT_EQ(work.wrongOf(*one, 4), 0) << name;
  }
}

TEST(Sessions, AComputedIndexOutOfRangeNamesItsNode) {
  Work work("computed");
  TensorMap bad = readNpz(fileOf("computed.bad.npz"));
  auto session = load("computed");
  for (int i = 0; i < 3; ++i) {
    expectError([&] { session->run(bad); }, {"[lookup]", "Gather", "compute"});
    EXPECT_EQ(work.wrongOf(*session, 2), 0);
  }
}

TEST(Sessions, AnErrorOfOneIsNoneOfAnother) {
  Work computed("computed"), chain("chain", otherDeviceName());
  TensorMap bad = readNpz(fileOf("computed.bad.npz"));
  auto failing = computed.start(), running = chain.start();
  auto beside = std::async(std::launch::async,
                           [&] { return chain.wrongOf(*running, 20); });
  for (int i = 0; i < 10; ++i) {
    expectError([&] { failing->run(bad); }, {"[lookup]"});
    EXPECT_EQ(computed.wrongOf(*failing, 1), 0);
  }
  EXPECT_EQ(beside.get(), 0);
}

TEST(Sessions, SizesThatAKernelRefusesNameItsNode) {
  Work work("unequal");
  TensorMap bad = readNpz(fileOf("unequal.bad.npz"));
  auto session = load("unequal");
  for (int i = 0; i < 3; ++i) {
    expectError([&] { session->run(bad); }, {"[product]", "MatMul", "compute"});
    EXPECT_EQ(work.wrongOf(*session, 2), 0);
  }
}

TEST(Sessions, AFailureAtEachNodeNamesItAndTheNextRunIsRight) {
  Work work("computed");
  std::mutex mutex; // nodes run on the queues' threads
  std::set<std::string> names;
  std::string failing;
  SessionOptions options;
  options.beforeNode = [&](const std::string &node) {
    std::lock_guard lock(mutex);
    names.insert(node);
    if (node == failing)
      throw std::runtime_error("on purpose");
  };
  auto session = load("computed", options);
  auto fail = [&](const std::string &node) {
    std::lock_guard lock(mutex);
    failing = node;
  };
  session->run(work.feeds[0]);
  session->statistics(); // no queue runs a node any more
  std::set<std::string> seen = names;
  EXPECT_GE(seen.size(), 5u);
  EXPECT_TRUE(seen.count("lookup"));
  for (const std::string &node : seen) {
    fail(node);
    // What fails behind the landed output is thrown by the next call.
    expectError(
        [&] {
          session->run(work.feeds[0]);
          session->statistics();
        },
        {"[" + node + "]", "on purpose"});
    fail("");
    EXPECT_EQ(work.wrongOf(*session, 2), 0) << node;
    session->statistics();
  }
}

/// Cards alone: what a driver tells of their memory.
class SessionsOnACard : public testing::TestWithParam<std::string> {
protected:
  /// Of all processes, as the management library tells.
  static int64_t freeBytes() {
    return makeDevice(GetParam())->cardBefore().freeBytes;
  }
};

TEST_P(SessionsOnACard, ManyLoadsLeaveNothingBehind) {
  for (const char *name : {"chain", "image"}) {
    Work work(name); // the context and all libraries are there from now on
    load(name);      // and all that a second session beside it takes
    int64_t before = freeBytes();
    ASSERT_GT(before, 0);
    for (int i = 0; i < 5; ++i) {
      auto session = load(name);
      EXPECT_EQ(work.wrongOf(*session, 2), 0);
    }
    int64_t grown = before - freeBytes();
    EXPECT_LE(grown, 32 * kMiB) << name;
    std::cout << name << ": " << grown << " bytes more are taken after 5 loads"
              << std::endl;
  }
}

/// All but about `left` bytes of the card; memory comes in large pages, so a
/// little less may be had than is free.
std::unique_ptr<Memory> takeAllBut(Device &device, int64_t free, int64_t left) {
  for (int64_t more = 0;; more += 32 * kMiB)
    try {
      return device.allocateDevice(free - left - more);
    } catch (const Error &) {
      if (more >= 256 * kMiB)
        throw;
    }
}

TEST_P(SessionsOnACard, TooLittleRoomAtLoadIsToldWithBothFigures) {
  ASSERT_GT(freeBytes(), 0);
  Work("room");
  std::unique_ptr<Device> device = makeDevice(GetParam());
  // The file's arena is 512 MiB.
  std::unique_ptr<Memory> held = takeAllBut(*device, freeBytes(), 160 * kMiB);
  ASSERT_LT(freeBytes(), 500 * kMiB);
  for (int i = 0; i < 2; ++i)
    try {
      load("room");
      ADD_FAILURE() << "it was loaded with " << freeBytes() << " bytes free";
    } catch (const Error &error) {
      std::string text = error.what();
      EXPECT_TRUE(std::regex_search(
          text, std::regex("room\\.off': needs [0-9]+ MiB of .* [0-9]+ MiB "
                           "are free")))
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      std::cout << text << std::endl;
    }
  held.reset();
  EXPECT_TRUE(isRight("room", load("room")->run(feedsOf("room"))));
}

std::vector<std::string> cards() {
  return deviceName() == "host" ? std::vector<std::string>{}
                                : std::vector<std::string>{deviceName()};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SessionsOnACard);
INSTANTIATE_TEST_SUITE_P(Card, SessionsOnACard, testing::ValuesIn(cards()));

} // namespace
} // namespace offload::rt
