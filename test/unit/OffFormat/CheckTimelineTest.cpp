// What the rule for bytes says of wrong timelines, by name.

#include "offload/OffFormat/HappensBefore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace offload;

namespace {

struct Builder {
  Timeline timeline;
  uint32_t value(std::string name, int64_t begin, int64_t end,
                 uint32_t space = 0) {
    TimelineValue value;
    value.name = std::move(name);
    value.range = {space, begin, end};
    timeline.values.push_back(value);
    return timeline.values.size() - 1;
  }
  uint32_t op(std::string name, Queue queue, std::vector<uint32_t> reads,
              std::vector<uint32_t> writes, std::vector<WaitPoint> waits = {}) {
    TimelineOp op;
    op.name = std::move(name);
    op.queue = queue;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.waits = std::move(waits);
    timeline.ops.push_back(op);
    return timeline.ops.size() - 1;
  }
};

std::vector<std::string> messagesOf(const std::vector<Violation> &found) {
  std::vector<std::string> messages;
  for (const Violation &violation : found)
    messages.push_back(violation.message);
  return messages;
}

TEST(CheckTimeline, NamesTheTwoOperationsAndTheBytes) {
  Builder b;
  uint32_t dw3 = b.value("dw3", 8392704, 12587008);
  uint32_t gw3 = b.value("gw3", 0, 4194304, 1);
  uint32_t dw2 = b.value("dw2", 8392704, 12587008);
  uint32_t gw2 = b.value("gw2", 0, 4194304, 2);
  uint32_t fc3 = b.op("fc3_dw", Queue::Compute, {}, {dw3});
  b.op("send_gw3", Queue::D2H, {dw3}, {gw3}, {{fc3, false}});
  uint32_t fc2 = b.op("fc2_dw", Queue::Compute, {}, {dw2});
  uint32_t send = b.op("send_gw2", Queue::D2H, {dw2}, {gw2}, {{fc2, false}});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].message, "[fc2_dw] writes 'dw2' into bytes "
                              "8392704..12587008 while [send_gw3] still reads "
                              "'dw3' there");
  EXPECT_EQ(found[0].note, "nothing orders [send_gw3] before [fc2_dw]");
  EXPECT_EQ(found[0].kind, ViolationKind::ReadAfterOverwrite);
  EXPECT_EQ(found[0].first, "[send_gw3]");
  EXPECT_EQ(found[0].second, "[fc2_dw]");
  std::vector<std::string> messages = messagesOf(found);
  EXPECT_EQ(std::count(messages.begin(), messages.end(),
                       "[fc3_dw] of the next step writes 'dw3' into bytes "
                       "8392704..12587008 while [send_gw2] still reads 'dw2' "
                       "there"),
            1);
  EXPECT_EQ(checkTimeline(b.timeline, 2).size(), 2u);
  b.timeline.ops[fc2].waits.push_back({1, false});
  b.timeline.ops[fc3].waits.push_back({send, true});
  EXPECT_TRUE(checkTimeline(b.timeline).empty());
}

TEST(CheckTimeline, StateIsOneValueOverTheBorder) {
  Builder b;
  uint32_t w = b.value("w", 0, 64, 1);
  uint32_t wNext = b.value("w_next", 0, 64, 1);
  uint32_t fly = b.value("w_fly", 0, 64);
  b.timeline.values[w].carriedFrom = wNext;
  b.timeline.values[wNext].inPlaceOf = w;
  uint32_t stage = b.op("stage", Queue::H2D, {w}, {fly});
  uint32_t update = b.op("update", Queue::Host, {w}, {wNext});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].message, "[update] writes 'w_next' into host bytes 0..64 "
                              "while [stage] still reads 'w' there");
  EXPECT_EQ(
      found[1].message,
      "[stage] of the next step reads 'w' before [update] has written it");
  EXPECT_EQ(found[1].note,
            "nothing orders [update] before [stage] of the next step");
  EXPECT_EQ(found[1].kind, ViolationKind::ReadBeforeWrite);
  b.timeline.ops[update].waits.push_back({stage, false});
  b.timeline.ops[stage].waits.push_back({update, true});
  EXPECT_TRUE(checkTimeline(b.timeline).empty());
  // Only the value that it names may be taken over by the reader itself.
  b.timeline.values[wNext].inPlaceOf = TimelineValue::kNone;
  found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "[update] writes 'w_next' into host bytes "
                              "0..64, where it reads 'w'");
  EXPECT_EQ(found[0].note, "'w_next' is not made in place of 'w'");
}

TEST(CheckTimeline, LoadedValuesAreNeverOverwritten) {
  Builder b;
  uint32_t head = b.value("head", 0, 64);
  b.timeline.values[head].carriedFrom = head;
  uint32_t y = b.value("y", 63, 100);
  b.op("use", Queue::Compute, {head}, {});
  b.op("make", Queue::Compute, {}, {y});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "[make] writes 'y' into bytes 63..64 while [use] "
                              "of the next step later reads 'head' there");
  uint32_t other = b.value("other", 0, 1);
  b.timeline.values[other].carriedFrom = other;
  found = checkTimeline(b.timeline);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].message,
            "'head' and 'other' are both loaded into bytes 0..1");
}

TEST(CheckTimeline, TokensOrderButHoldNoBytes) {
  Builder b;
  uint32_t token = b.value("token", 0, 0);
  uint32_t made = b.op("make", Queue::Compute, {}, {token});
  b.op("use", Queue::H2D, {token}, {});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "[use] reads 'token' before [make] has written it");
  b.timeline.ops[1].waits.push_back({made, false});
  EXPECT_TRUE(checkTimeline(b.timeline).empty());
}

TEST(CheckTimeline, WaitingForWhatIsIssuedLaterIsADeadlock) {
  Builder b;
  b.op("a", Queue::Compute, {}, {}, {{1, false}});
  b.op("b", Queue::H2D, {}, {}, {{1, false}});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].message, "[a] waits for [b], which is issued after it");
  EXPECT_EQ(found[0].kind, ViolationKind::WaitsForLater);
  EXPECT_EQ(found[1].message, "[b] waits for [b], which is issued with it");
  EXPECT_EQ(dropRedundantWaits(b.timeline), 0u);
}

TEST(CheckTimeline, NothingIsReadThatNothingWrites) {
  Builder b;
  uint32_t x = b.value("x", 0, 4);
  b.op("use", Queue::Compute, {x}, {});
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "[use] reads 'x', which nothing writes");
  b.timeline.values[x].feed = true;
  EXPECT_TRUE(checkTimeline(b.timeline).empty());
}

/// A violation in the middle of a chain hides none of its neighbours.
TEST(CheckTimeline, OneViolationHidesNoOther) {
  Builder b;
  for (const char *name : {"u", "v", "w"})
    b.value(name, 0, 8);
  b.op("make_u", Queue::Compute, {}, {0});
  b.op("make_v", Queue::H2D, {}, {1}, {{0, false}});
  b.op("make_w", Queue::D2H, {}, {2});
  std::set<std::string> messages;
  for (const Violation &violation : checkTimeline(b.timeline))
    messages.insert(violation.message);
  EXPECT_TRUE(messages.count("[make_w] writes 'w' into bytes 0..8 while "
                             "[make_v] still writes 'v' there"));
  EXPECT_TRUE(messages.count("[make_w] writes 'w' into bytes 0..8 while "
                             "[make_u] still writes 'u' there"));
}

/// A streamed model of 20,000 operations that is right but for one wait.
TEST(CheckTimeline, LargeTimelines) {
  Builder b;
  constexpr unsigned layers = 5000;
  std::vector<uint32_t> releases;
  uint32_t previous = b.value("x", 1 << 20, (1 << 20) + 512);
  b.timeline.values[previous].feed = true;
  for (unsigned i = 0; i < layers; ++i) {
    std::string suffix = std::to_string(i);
    int64_t place = 4096 * (i % 4), scratch = 100000;
    int64_t act = 20000 + 512 * (i % 8);
    uint32_t w = b.value("w" + suffix, 0, 4096, 1 + i);
    b.timeline.values[w].carriedFrom = w;
    uint32_t fly = b.value("fly" + suffix, place, place + 4096);
    std::vector<WaitPoint> waits;
    if (i >= 4)
      waits.push_back({releases[i - 4], false});
    else
      waits.push_back({4 * (layers - 4 + i) + 3, true});
    uint32_t stage = b.op("stage" + suffix, Queue::H2D, {w}, {fly}, waits);
    uint32_t h = b.value("h" + suffix, act, act + 512);
    uint32_t temporary = b.value("s" + suffix, scratch, scratch + 100 + i % 7);
    b.op("wait" + suffix, Queue::Compute, {}, {}, {{stage, false}});
    b.op("fc" + suffix, Queue::Compute, {previous, fly}, {h, temporary});
    releases.push_back(b.op("free" + suffix, Queue::Compute, {}, {}));
    previous = h;
  }
  EXPECT_TRUE(checkTimeline(b.timeline).empty());
  Timeline pruned = b.timeline;
  EXPECT_EQ(dropRedundantWaits(pruned), 0u);
  b.timeline.ops[4 * 2500].waits.clear();
  std::vector<Violation> found = checkTimeline(b.timeline);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].note, "nothing orders [fc2496] before [stage2500]");
}

} // namespace
