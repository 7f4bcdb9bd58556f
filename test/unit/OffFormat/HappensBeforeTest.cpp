// Clocks against an explicit closure, the rule for bytes against an exploration
// of all interleavings, waits against both.

#include "offload/OffFormat/HappensBefore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace offload;

namespace {

using Random = std::mt19937;

/// The order that the rules state, edge by edge: operations of two steps, and
/// the caller's write of feeds between them.
struct Edges {
  uint32_t count, caller;
  std::vector<std::vector<bool>> before; // end of a, start of b

  explicit Edges(const Timeline &timeline)
      : count(timeline.ops.size()), caller(2 * count),
        before(2 * count + 1, std::vector<bool>(2 * count + 1)) {
    for (uint32_t step : {0u, 1u})
      for (uint32_t i = 0; i < count; ++i)
        addEdges(timeline, step * count, i, step == 1);
  }

  void addEdges(const Timeline &timeline, uint32_t base, uint32_t i,
                bool second) {
    const TimelineOp &op = timeline.ops[i];
    for (uint32_t j = 0; j < base + i; ++j)
      if (timeline.ops[j % count].queue == op.queue)
        before[j][base + i] = true;
    for (const WaitPoint &wait : op.waits) {
      if (!wait.previousStep)
        before[base + wait.op][base + i] = true;
      else if (second)
        before[wait.op][base + i] = true;
    }
    bool reads = false;
    for (uint32_t value : op.reads)
      reads |= timeline.values[value].feed;
    if (reads && second)
      before[caller][base + i] = true;
    if ((reads || op.landsOutput) && !second)
      before[i][caller] = true;
  }

  void close() {
    for (uint32_t k = 0; k < before.size(); ++k)
      for (uint32_t i = 0; i < before.size(); ++i)
        for (uint32_t j = 0; j < before.size(); ++j)
          if (before[i][k] && before[k][j])
            before[i][j] = true;
  }
};

/// Runs every interleaving of two steps of a small timeline, and says whether
/// any of them goes wrong. Knows nothing of clocks and versions.
class Explorer {
public:
  explicit Explorer(const Timeline &timeline)
      : timeline(timeline), edges(timeline), count(timeline.ops.size()) {}

  bool goesWrong() {
    return conflictsWithItself() || loadsMeet() || readsWrongBytes() || races();
  }

private:
  struct Touch {
    uint32_t value;
    bool write;
  };

  std::vector<Touch> touches(uint32_t task) const {
    std::vector<Touch> all;
    if (task == edges.caller) {
      for (uint32_t v = 0; v < timeline.values.size(); ++v)
        if (timeline.values[v].feed)
          all.push_back({v, true});
      return all;
    }
    for (uint32_t value : timeline.ops[task % count].reads)
      all.push_back({value, false});
    for (uint32_t value : timeline.ops[task % count].writes)
      all.push_back({value, true});
    return all;
  }
  bool meet(uint32_t a, uint32_t b) const {
    return timeline.values[a].range.meets(timeline.values[b].range);
  }

  bool conflictsWithItself() const {
    for (const TimelineOp &op : timeline.ops)
      for (uint32_t written : op.writes) {
        for (uint32_t other : op.writes)
          if (other != written && meet(written, other))
            return true;
        for (uint32_t read : op.reads)
          if (read != written && meet(written, read) &&
              timeline.values[written].inPlaceOf != read)
            return true;
      }
    return false;
  }

  bool isLoaded(uint32_t value) const {
    return timeline.values[value].feed ||
           timeline.values[value].carriedFrom != TimelineValue::kNone;
  }

  bool loadsMeet() const {
    for (uint32_t a = 0; a < timeline.values.size(); ++a)
      for (uint32_t b = 0; b < a; ++b)
        if (isLoaded(a) && isLoaded(b) && meet(a, b))
          return true;
    return false;
  }

  uint32_t writerOf(uint32_t value) const {
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t written : timeline.ops[i].writes)
        if (written == value)
          return i;
    return TimelineValue::kNone;
  }

  /// What a value must hold when operation `i` of a step reads it: the value
  /// that was written and in which step, -1 for what was loaded.
  std::pair<uint32_t, int> content(uint32_t value, int step, uint32_t i) const {
    uint32_t writer = writerOf(value);
    const TimelineValue &info = timeline.values[value];
    if (writer != TimelineValue::kNone && !(isLoaded(value) && i <= writer))
      return {value, step};
    if (info.feed)
      return {value, step == 0 ? -1 : step};
    if (step == 0 || info.carriedFrom == TimelineValue::kNone)
      return {value, -1};
    return content(info.carriedFrom, step - 1, count);
  }

  /// Runs the operations in issue order and looks at every byte read.
  bool readsWrongBytes() const {
    using Content = std::pair<uint32_t, int>;
    std::map<std::pair<uint32_t, int64_t>, Content> memory;
    auto fill = [&](uint32_t value, int step) {
      const ByteRange &range = timeline.values[value].range;
      for (int64_t at = range.begin; at < range.end; ++at)
        memory[{range.space, at}] = {value, step};
    };
    for (uint32_t v = 0; v < timeline.values.size(); ++v)
      if (isLoaded(v))
        fill(v, -1);
    for (int step : {0, 1}) {
      for (uint32_t v = 0; step == 1 && v < timeline.values.size(); ++v)
        if (timeline.values[v].feed)
          fill(v, 1);
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t value : timeline.ops[i].reads) {
          const ByteRange &range = timeline.values[value].range;
          for (int64_t at = range.begin; at < range.end; ++at) {
            auto found = memory.find({range.space, at});
            if (found == memory.end() ||
                found->second != content(value, step, i))
              return true;
          }
        }
        for (uint32_t value : timeline.ops[i].writes)
          fill(value, step);
      }
    }
    return false;
  }

  bool conflict(uint32_t a, uint32_t b) const {
    for (const Touch &x : touches(a))
      for (const Touch &y : touches(b))
        if ((x.write || y.write) && meet(x.value, y.value))
          return true;
    return false;
  }

  /// Breadth-first over all states of progress: for each task idle, running or
  /// done. Two conflicting tasks that run at once are a race.
  bool races() const {
    uint32_t tasks = 2 * count + 1;
    using State = std::pair<uint32_t, uint32_t>; // running, done: sets
    std::set<State> seen = {{0, 0}};
    std::vector<State> pending = {{0, 0}};
    while (!pending.empty()) {
      auto [running, done] = pending.back();
      pending.pop_back();
      std::vector<State> next;
      for (uint32_t t = 0; t < tasks; ++t) {
        uint32_t bit = 1u << t;
        if (running & bit)
          next.push_back({running & ~bit, done | bit});
        if ((running | done) & bit)
          continue;
        bool ready = true;
        for (uint32_t e = 0; e < tasks; ++e)
          ready &= !edges.before[e][t] || (done >> e & 1);
        if (!ready)
          continue;
        for (uint32_t other = 0; other < tasks; ++other)
          if ((running >> other & 1) && conflict(t, other))
            return true;
        next.push_back({running | bit, done});
      }
      for (const State &state : next)
        if (seen.insert(state).second)
          pending.push_back(state);
    }
    return false;
  }

  const Timeline &timeline;
  Edges edges;
  uint32_t count;
};

ByteRange randomRange(Random &random) {
  ByteRange range;
  range.space = random() % 3 == 0;
  range.begin = random() % 12;
  range.end = range.begin + 1 + random() % 3;
  return range;
}

/// Operations that each make a value, read some earlier ones and states; each
/// wait for a maker on another queue is there with a certain probability.
Timeline randomTimeline(Random &random, unsigned numOps, unsigned numLoaded,
                        double waitProbability) {
  Timeline timeline;
  auto chance = [&](double p) {
    return std::uniform_real_distribution<>(0, 1)(random) < p;
  };
  auto addValue = [&](ByteRange range) {
    TimelineValue value;
    value.name = "v" + std::to_string(timeline.values.size());
    value.range = range;
    timeline.values.push_back(value);
    return static_cast<uint32_t>(timeline.values.size() - 1);
  };
  std::vector<uint32_t> states;
  for (unsigned i = 0; i < numLoaded; ++i) {
    uint32_t value = addValue(randomRange(random));
    TimelineValue &info = timeline.values[value];
    if (chance(0.3))
      info.feed = true;
    else
      info.carriedFrom = value;
    if (!info.feed && chance(0.6))
      states.push_back(value);
  }
  std::vector<uint32_t> maker(timeline.values.size(), TimelineValue::kNone);
  for (uint32_t i = 0; i < numOps; ++i) {
    TimelineOp op;
    op.name = "n" + std::to_string(i);
    op.queue = static_cast<Queue>(random() % kNumQueues);
    op.landsOutput = chance(0.2);
    unsigned reads = random() % 3;
    for (unsigned r = 0; r < reads && !timeline.values.empty(); ++r)
      op.reads.push_back(random() % timeline.values.size());
    for (uint32_t value : op.reads) {
      if (!chance(waitProbability))
        continue;
      if (maker[value] != TimelineValue::kNone)
        op.waits.push_back({maker[value], false});
    }
    if (chance(0.8)) {
      uint32_t value;
      if (!states.empty() && chance(0.5)) {
        // The next value of a state lies where the state lies.
        uint32_t state = states.back();
        states.pop_back();
        if (chance(0.3)) {
          value = state;
        } else {
          value = addValue(timeline.values[state].range);
          timeline.values[state].carriedFrom = value;
          maker.push_back(TimelineValue::kNone);
          if (chance(0.7))
            timeline.values[value].inPlaceOf = state;
        }
      } else {
        value = addValue(randomRange(random));
        maker.push_back(TimelineValue::kNone);
      }
      maker[value] = i;
      op.writes.push_back(value);
    }
    while (i > 0 && chance(0.4))
      op.waits.push_back({static_cast<uint32_t>(random() % i), false});
    while (chance(0.3))
      op.waits.push_back({static_cast<uint32_t>(random() % numOps), true});
    timeline.ops.push_back(op);
  }
  return timeline;
}

std::string describe(const Timeline &timeline) {
  std::string text;
  for (const TimelineValue &value : timeline.values)
    text += value.name + " space " + std::to_string(value.range.space) + " " +
            std::to_string(value.range.begin) + ".." +
            std::to_string(value.range.end) + (value.feed ? " feed" : "") +
            " from " + std::to_string(int(value.carriedFrom)) +
            " in place of " + std::to_string(int(value.inPlaceOf)) + "\n";
  for (const TimelineOp &op : timeline.ops) {
    text += op.name + " " + std::string(queueName(op.queue)) + " reads";
    for (uint32_t value : op.reads)
      text += " v" + std::to_string(value);
    text += " writes";
    for (uint32_t value : op.writes)
      text += " v" + std::to_string(value);
    text += " waits";
    for (const WaitPoint &wait : op.waits)
      text += (wait.previousStep ? " <n" : " n") + std::to_string(wait.op);
    text += op.landsOutput ? " lands\n" : "\n";
  }
  for (const Violation &violation : checkTimeline(timeline))
    text += violation.message + "; " + violation.note + "\n";
  return text;
}

TEST(HappensBefore, ClocksAreTheClosure) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    Timeline timeline = randomTimeline(random, 1 + random() % 8, 3, 0.5);
    Edges edges(timeline);
    edges.close();
    HappensBefore order(timeline);
    for (uint32_t a = 0; a < 2 * edges.count; ++a)
      for (uint32_t b = 0; b < 2 * edges.count; ++b)
        ASSERT_EQ(order.endsBefore(a, b), edges.before[a][b])
            << a << " before " << b << "\n"
            << describe(timeline);
  }
}

TEST(HappensBefore, CheckAgreesWithAllInterleavings) {
  Random random(2);
  unsigned right = 0, wrong = 0;
  for (int round = 0; round < 20000; ++round) {
    // Sparse and dense ones, so that many are right and many are wrong.
    double waits = round % 3 == 0 ? 0.4 : 1;
    Timeline timeline =
        randomTimeline(random, 1 + random() % 5, random() % 3, waits);
    bool expected = Explorer(timeline).goesWrong();
    ++(expected ? wrong : right);
    ASSERT_EQ(!checkTimeline(timeline).empty(), expected) << describe(timeline);
  }
  EXPECT_GT(right, 2000u);
  EXPECT_GT(wrong, 2000u);
}

/// Whether two timelines order the same operations.
bool sameOrder(const Timeline &a, const Timeline &b) {
  HappensBefore x(a), y(b);
  for (uint32_t op = 0; op < 2 * a.ops.size(); ++op)
    if (x.startOf(op) != y.startOf(op))
      return false;
  return true;
}

TEST(HappensBefore, DroppedWaitsChangeNothingAndNoMoreCanGo) {
  Random random(3);
  unsigned dropped = 0, kept = 0;
  for (int round = 0; round < 3000; ++round) {
    Timeline before = randomTimeline(random, 1 + random() % 10, 3, 0.9);
    Timeline after = before;
    unsigned count = dropRedundantWaits(after);
    unsigned difference = 0;
    for (size_t i = 0; i < before.ops.size(); ++i)
      difference += before.ops[i].waits.size() - after.ops[i].waits.size();
    ASSERT_EQ(count, difference);
    ASSERT_TRUE(sameOrder(before, after)) << describe(before);
    dropped += count;
    for (TimelineOp &op : after.ops)
      for (size_t i = 0; i < op.waits.size(); ++i, ++kept) {
        WaitPoint wait = op.waits[i];
        op.waits.erase(op.waits.begin() + i);
        ASSERT_FALSE(sameOrder(before, after)) << describe(before);
        op.waits.insert(op.waits.begin() + i, wait);
      }
  }
  EXPECT_GT(dropped, 1000u);
  EXPECT_GT(kept, 1000u);
}

} // namespace
