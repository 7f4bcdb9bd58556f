// The rule for bytes, deadlocks and reads before writes, over two glued steps.
//
// In:  a Timeline and its happens-before.
// Out: violations with the two operations, the bytes and what is missing.
// Not: budgets, types, which operator may work in place
// (passes/VerifySchedule). How: a *version* is what a value holds between two
// writes of it; a state's
//      version goes from its maker in one step to its readers in the next.
//      Versions are taken in the order of their first writes. For each byte
//      range a map holds the versions that were there last: once all accesses
//      to a version end before the first write of the next one, everything
//      later follows from the next one alone, since that write is an access
//      too. So about one pair is checked for each version and range. Where a
//      pair fails, the versions that the failing one stands for are checked
//      themselves, so no violation hides another.

#include "offload/OffFormat/HappensBefore.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace offload {

namespace {

constexpr uint32_t kNone = TimelineValue::kNone;

/// An operation over both steps and the value by whose name it reads or writes.
struct Access {
  uint32_t op = kNone;
  uint32_t value = kNone;
};

struct Version {
  std::vector<ByteRange> ranges;
  std::vector<Access> writers;
  /// Last of each queue in issue order; the earlier ones end before it does.
  std::array<Access, kNumQueues> lastReads, lastWrites;
  uint32_t value = kNone;
  bool loaded = false;      // there before the first step
  bool fed = false;         // written between the two steps
  bool inFirstStep = false; // some part of it lies in the first step
  int64_t order = 0;        // of the first write
  /// Versions whose accesses all end before this one's first write, so that
  /// they need no look where this one passes.
  std::vector<uint32_t> standsFor;
};

class Checker {
public:
  explicit Checker(const Timeline &timeline)
      : timeline(timeline), order(timeline),
        count(static_cast<uint32_t>(timeline.ops.size())) {}

  std::vector<Violation> run(unsigned limit) {
    findVersions();
    checkWaits();
    checkReads();
    checkBytes();
    std::stable_sort(found.begin(), found.end(),
                     [](auto &a, auto &b) { return a.first < b.first; });
    std::vector<Violation> violations;
    for (auto &[place, violation] : found)
      if (violations.size() < limit)
        violations.push_back(std::move(violation));
    return violations;
  }

private:
  using Place = std::pair<int64_t, int64_t>; // second, first

  // Versions.
  void findVersions();
  void addAccesses(uint32_t index, uint32_t step);
  uint32_t slotOf(uint32_t value, uint32_t step, bool written) const {
    auto values = static_cast<uint32_t>(timeline.values.size());
    return (step * values + value) * 2 + written;
  }
  uint32_t rootOf(uint32_t slot) {
    while (parents[slot] != slot)
      slot = parents[slot] = parents[parents[slot]];
    return slot;
  }
  /// The version that operation `index` of a step reads under that name.
  uint32_t versionRead(uint32_t value, uint32_t index, uint32_t step) {
    uint32_t writer = firstWriters[value];
    bool carried = timeline.values[value].carriedFrom != kNone ||
                   timeline.values[value].feed;
    bool written = writer != kNone && !(carried && index <= writer);
    return rootOf(slotOf(value, step, written));
  }
  uint32_t versionWritten(uint32_t value, uint32_t step) {
    return rootOf(slotOf(value, step, true));
  }

  // Rules.
  bool readsFeed(uint32_t index) const {
    return std::any_of(
        timeline.ops[index].reads.begin(), timeline.ops[index].reads.end(),
        [this](uint32_t value) { return timeline.values[value].feed; });
  }
  void checkWaits();
  void checkReads();
  void checkRead(uint32_t index, uint32_t step, uint32_t value);
  void checkBytes();
  void place(uint32_t version, const ByteRange &range);
  bool passes(uint32_t earlier, uint32_t later);
  bool checkPair(uint32_t earlier, uint32_t later);
  bool checkAccess(const Version &earlier, const Access &access, bool isWrite,
                   const Version &later, const Access &writer);
  bool checkFed(const Version &earlier, const Version &later,
                const Access &writer);

  // Messages.
  std::string label(uint32_t op) const {
    return "[" + timeline.ops[op % count].name + "]" +
           (op < count ? "" : " of the next step");
  }
  std::string quoted(uint32_t value) const {
    return "'" + timeline.values[value].name + "'";
  }
  static ByteRange meeting(const Version &a, const Version &b);
  static std::string printBytes(const ByteRange &range) {
    return (range.space == ByteRange::kArena ? "bytes " : "host bytes ") +
           std::to_string(range.begin) + ".." + std::to_string(range.end);
  }
  void add(ViolationKind kind, uint32_t first, uint32_t second,
           const ByteRange &bytes, std::string message);

  const Timeline &timeline;
  HappensBefore order;
  uint32_t count;
  std::vector<uint32_t> firstWriters; // by value, within a step
  /// Of each queue in the second step.
  std::array<uint32_t, kNumQueues> firstFeedReaders;
  std::vector<uint32_t> parents; // of slots: one version has one root
  std::vector<Version> versions; // by slot; only roots are filled
  struct Segment {
    int64_t end;
    std::vector<uint32_t> last;
  };
  std::map<uint32_t, std::map<int64_t, Segment>> memory; // by space and begin
  std::unordered_map<uint32_t, bool> verdicts; // of the version being placed
  std::vector<std::pair<Place, Violation>> found;
};

//===-- Versions ----------------------------------------------------------===//

void Checker::findVersions() {
  auto values = static_cast<uint32_t>(timeline.values.size());
  firstWriters.assign(values, kNone);
  for (uint32_t index = count; index--;)
    for (uint32_t value : timeline.ops[index].writes)
      firstWriters[value] = index;
  firstFeedReaders.fill(kNone);
  for (uint32_t index = count; index--;)
    if (readsFeed(index))
      firstFeedReaders[static_cast<unsigned>(timeline.ops[index].queue)] =
          count + index;
  parents.resize(4 * values);
  std::iota(parents.begin(), parents.end(), 0);
  for (uint32_t value = 0; value < values; ++value) {
    uint32_t from = timeline.values[value].carriedFrom;
    if (from != kNone)
      parents[rootOf(slotOf(value, 1, false))] =
          rootOf(slotOf(from, 0, firstWriters[from] != kNone));
  }
  versions.resize(4 * values);
  for (uint32_t value = 0; value < values; ++value) {
    const TimelineValue &info = timeline.values[value];
    bool fromBefore = info.carriedFrom != kNone || info.feed;
    versions[rootOf(slotOf(value, 0, false))].loaded |= fromBefore;
    if (info.feed && info.carriedFrom == kNone)
      versions[rootOf(slotOf(value, 1, false))].fed = true;
    for (uint32_t step : {0u, 1u})
      for (bool written : {false, true}) {
        if (written ? firstWriters[value] == kNone : !fromBefore)
          continue;
        Version &version = versions[rootOf(slotOf(value, step, written))];
        if (version.value == kNone)
          version.value = value;
        version.inFirstStep |= step == 0;
        if (info.range.begin < info.range.end)
          version.ranges.push_back(info.range);
      }
  }
  for (uint32_t step : {0u, 1u})
    for (uint32_t index = 0; index < count; ++index)
      addAccesses(index, step);
}

void Checker::addAccesses(uint32_t index, uint32_t step) {
  const TimelineOp &op = timeline.ops[index];
  auto queue = static_cast<unsigned>(op.queue);
  uint32_t glued = step * count + index;
  for (uint32_t value : op.reads)
    versions[versionRead(value, index, step)].lastReads[queue] = {glued, value};
  for (uint32_t value : op.writes) {
    Version &version = versions[versionWritten(value, step)];
    version.lastWrites[queue] = {glued, value};
    version.writers.push_back({glued, value});
  }
}

//===-- Messages ----------------------------------------------------------===//

ByteRange Checker::meeting(const Version &a, const Version &b) {
  for (const ByteRange &x : a.ranges)
    for (const ByteRange &y : b.ranges)
      if (x.meets(y))
        return {x.space, std::max(x.begin, y.begin), std::min(x.end, y.end)};
  return {};
}

void Checker::add(ViolationKind kind, uint32_t first, uint32_t second,
                  const ByteRange &bytes, std::string message) {
  Violation violation;
  violation.kind = kind;
  violation.bytes = bytes;
  violation.message = std::move(message);
  if (first != kNone)
    violation.first = label(first);
  if (second != kNone)
    violation.second = label(second);
  if (first != kNone && second != kNone)
    violation.note =
        "nothing orders " + violation.first + " before " + violation.second;
  Place place = {second == kNone ? -1 : int64_t(second),
                 first == kNone ? -1 : int64_t(first)};
  found.push_back({place, std::move(violation)});
}

//===-- Waits and reads ---------------------------------------------------===//

void Checker::checkWaits() {
  for (uint32_t index = 0; index < count; ++index)
    for (const WaitPoint &wait : timeline.ops[index].waits) {
      if (wait.previousStep || wait.op < index)
        continue;
      add(ViolationKind::WaitsForLater, wait.op, index, {},
          label(index) + " waits for " + label(wait.op) + ", which is issued " +
              (wait.op == index ? "with it" : "after it"));
    }
}

void Checker::checkReads() {
  for (uint32_t step : {0u, 1u})
    for (uint32_t index = 0; index < count; ++index)
      for (uint32_t value : timeline.ops[index].reads)
        checkRead(index, step, value);
}

void Checker::checkRead(uint32_t index, uint32_t step, uint32_t value) {
  const Version &version = versions[versionRead(value, index, step)];
  uint32_t reader = step * count + index;
  // What the second step makes and reads itself is as in the first.
  if (step == 1 && !version.inFirstStep)
    return;
  if (version.writers.empty() && !version.loaded) {
    add(ViolationKind::ReadBeforeWrite, kNone, reader, {},
        label(reader) + " reads " + quoted(value) + ", which nothing writes");
    found.back().second.note = quoted(value) + " is no feed and no state";
  }
  for (const Access &writer : version.writers) {
    if (writer.op < reader && order.endsBefore(writer.op, reader))
      continue;
    add(ViolationKind::ReadBeforeWrite, writer.op, reader,
        timeline.values[value].range,
        label(reader) + " reads " + quoted(value) + " before " +
            label(writer.op) + " has written it");
  }
}

//===-- Bytes -------------------------------------------------------------===//

void Checker::checkBytes() {
  std::vector<uint32_t> sorted;
  for (uint32_t slot = 0; slot < versions.size(); ++slot) {
    Version &version = versions[slot];
    if (version.value == kNone)
      continue;
    if (!version.writers.empty())
      version.order = 2 * int64_t(version.writers.front().op);
    else
      version.order = version.fed ? 2 * int64_t(count) - 1 : -1;
    sorted.push_back(slot);
    for (size_t i = 1; i < version.writers.size(); ++i)
      if (version.inFirstStep)
        checkAccess(version, version.writers[i - 1], true, version,
                    version.writers[i]);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    return versions[a].order < versions[b].order;
  });
  for (uint32_t slot : sorted) {
    verdicts.clear();
    const std::vector<ByteRange> ranges = versions[slot].ranges;
    for (size_t i = 0; i < ranges.size(); ++i)
      if (std::none_of(
              ranges.begin(), ranges.begin() + i, [&](const ByteRange &r) {
                return r.space == ranges[i].space &&
                       r.begin == ranges[i].begin && r.end == ranges[i].end;
              }))
        place(slot, ranges[i]);
  }
}

/// Checks a version against what lies in its bytes, and puts it there.
void Checker::place(uint32_t version, const ByteRange &range) {
  std::map<int64_t, Segment> &map = memory[range.space];
  auto cutAt = [&map](int64_t at) {
    auto after = map.upper_bound(at);
    if (after == map.begin())
      return;
    auto segment = std::prev(after);
    if (segment->first == at || segment->second.end <= at)
      return;
    map.emplace(at, Segment{segment->second.end, segment->second.last});
    segment->second.end = at;
  };
  cutAt(range.begin);
  cutAt(range.end);
  std::vector<std::pair<int64_t, Segment>> placed;
  auto cover = [&](int64_t begin, int64_t end, std::vector<uint32_t> last) {
    if (begin >= end)
      return;
    last.push_back(version);
    bool extends = !placed.empty() && placed.back().second.end == begin &&
                   placed.back().second.last == last;
    if (extends)
      placed.back().second.end = end;
    else
      placed.push_back({begin, {end, std::move(last)}});
  };
  int64_t at = range.begin;
  auto segment = map.lower_bound(range.begin);
  while (segment != map.end() && segment->first < range.end) {
    cover(at, segment->first, {});
    std::vector<uint32_t> failing;
    for (uint32_t earlier : segment->second.last) {
      if (earlier == version)
        continue;
      std::vector<uint32_t> &behind = versions[version].standsFor;
      if (!passes(earlier, version))
        failing.push_back(earlier);
      else if (std::find(behind.begin(), behind.end(), earlier) == behind.end())
        behind.push_back(earlier);
    }
    cover(segment->first, segment->second.end, std::move(failing));
    at = segment->second.end;
    segment = map.erase(segment);
  }
  cover(at, range.end, {});
  for (auto &[begin, covered] : placed)
    map.emplace(begin, std::move(covered));
}

/// Whether all accesses to `earlier` end before the first write of `later`.
/// Where they do not, looks behind `earlier` too.
bool Checker::passes(uint32_t earlier, uint32_t later) {
  std::vector<uint32_t> pending = {earlier};
  bool result = true;
  while (!pending.empty()) {
    uint32_t slot = pending.back();
    pending.pop_back();
    auto [verdict, isNew] = verdicts.try_emplace(slot, true);
    if (!isNew) {
      if (slot == earlier)
        result = verdict->second;
      continue;
    }
    ByteRange bytes = meeting(versions[slot], versions[later]);
    bool meets = bytes.begin < bytes.end;
    bool fine = !meets || checkPair(slot, later);
    verdict->second = fine;
    if (slot == earlier)
      result = fine;
    if (!fine || !meets)
      pending.insert(pending.end(), versions[slot].standsFor.begin(),
                     versions[slot].standsFor.end());
  }
  return result;
}

bool Checker::checkPair(uint32_t earlierSlot, uint32_t laterSlot) {
  const Version &earlier = versions[earlierSlot];
  const Version &later = versions[laterSlot];
  if (later.writers.empty()) {
    if (later.fed)
      return checkFed(earlier, later, {});
    ByteRange bytes = meeting(earlier, later);
    add(ViolationKind::WriteWriteUnordered, kNone, kNone, bytes,
        quoted(earlier.value) + " and " + quoted(later.value) +
            " are both loaded into " + printBytes(bytes));
    found.back().second.note = "both are there before the first step";
    return false;
  }
  bool fine = true;
  for (const Access &writer : later.writers) {
    for (unsigned q = 0; q < kNumQueues; ++q) {
      fine &= checkAccess(earlier, earlier.lastReads[q], false, later, writer);
      fine &= checkAccess(earlier, earlier.lastWrites[q], true, later, writer);
    }
    if (earlier.fed)
      fine &= checkFed(later, earlier, writer);
  }
  return fine;
}

bool Checker::checkAccess(const Version &earlier, const Access &access,
                          bool isWrite, const Version &later,
                          const Access &writer) {
  if (access.op == kNone)
    return true;
  if (access.op == writer.op) {
    uint32_t taken = timeline.values[writer.value].inPlaceOf;
    if (!isWrite && (taken == access.value || writer.value == access.value))
      return true;
  } else if (order.endsBefore(access.op, writer.op)) {
    return true;
  }
  // What happens in the second step alone was said of the first.
  if (access.op >= count && writer.op >= count)
    return false;
  ByteRange bytes = meeting(earlier, later);
  ViolationKind kind = isWrite ? ViolationKind::WriteWriteUnordered
                               : ViolationKind::ReadAfterOverwrite;
  std::string does = isWrite ? "writes " : "reads ";
  std::string writes = label(writer.op) + " writes " + quoted(writer.value) +
                       " into " + printBytes(bytes);
  if (access.op == writer.op) {
    add(kind, access.op, writer.op, bytes,
        writes + ", where it " + does + quoted(access.value));
    found.back().second.note = quoted(writer.value) +
                               " is not made in place of " +
                               quoted(access.value);
    return false;
  }
  bool happensAgain = access.op > writer.op;
  add(kind, access.op, writer.op, bytes,
      writes + " while " + label(access.op) +
          (happensAgain ? " later " : " still ") + does + quoted(access.value) +
          " there");
  return false;
}

/// A feed is written between the return of the first step and the second one:
/// what it meets has ended before, or starts after it (then `writer` names
/// who).
bool Checker::checkFed(const Version &other, const Version &feed,
                       const Access &writer) {
  const HappensBefore::Clock &returned = order.returnOfFirstStep();
  if (writer.op != kNone) {
    bool after = readsFeed(writer.op % count);
    for (uint32_t reader : firstFeedReaders)
      after |= reader != kNone && order.endsBefore(reader, writer.op);
    if (after)
      return true;
    add(ViolationKind::WriteWriteUnordered, kNone, writer.op,
        meeting(feed, other),
        label(writer.op) + " writes " + quoted(writer.value) +
            " over the feed " + quoted(feed.value));
    found.back().second.note =
        "nothing orders " + label(writer.op) + " after the caller's write";
    return false;
  }
  bool fine = true;
  for (auto *accesses : {&other.lastReads, &other.lastWrites})
    for (unsigned q = 0; q < kNumQueues; ++q) {
      const Access &access = (*accesses)[q];
      if (access.op == kNone || order.positionOf(access.op) <= returned[q])
        continue;
      fine = false;
      add(ViolationKind::ReadAfterOverwrite, access.op, kNone,
          meeting(feed, other),
          "the feed " + quoted(feed.value) + " is written while " +
              label(access.op) + " still uses " + quoted(access.value) +
              " there");
      found.back().second.note = "nothing orders " + label(access.op) +
                                 " before the return of its step";
    }
  return fine;
}

} // namespace

std::vector<Violation> checkTimeline(const Timeline &timeline, unsigned limit) {
  return Checker(timeline).run(limit);
}

} // namespace offload
