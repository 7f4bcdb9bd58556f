// Cuts the reads of streamed weights into staged uses.
//
// In:  stretches of reads, which weights are resident, the depth.
// Out: uses in order of their first read, each with the position after which
//      its copy may start.
// Not: offsets (Schedule), which weights stream (Planner).
// How: one walk over all reads in order. A read joins the last use of its
//      weight where that keeps at most `depth` uses in use at any read between,
//      else it begins a new use. A heap of the latest last reads tells when the
//      number of unfinished uses falls below the depth.

#include "offload/Schedule/Schedule.h"

#include <algorithm>
#include <cassert>
#include <queue>

namespace offload {
namespace {

struct ReadEvent {
  int32_t first, last;
  uint32_t weight;
};

std::vector<ReadEvent> streamedReads(const StepModel &step,
                                     const std::vector<bool> &resident) {
  std::vector<ReadEvent> events;
  for (uint32_t i = 0; i < step.weights.size(); ++i)
    if (!resident[i])
      for (const StepModel::Read &read : step.weights[i].reads)
        events.push_back({read.first, read.last, i});
  std::sort(events.begin(), events.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first < b.first : a.weight < b.weight;
  });
  return events;
}

class UseCutter {
public:
  UseCutter(const StepModel &step, unsigned depth)
      : depth(depth), lastUse(step.weights.size(), kNone) {}

  std::vector<StagedUse> run(const std::vector<ReadEvent> &events) {
    for (const ReadEvent &event : events) {
      uint32_t use = lastUse[event.weight];
      if (use != kNone && mayJoin(use, event.first)) {
        uses[use].last = std::max(uses[use].last, event.last);
        continue;
      }
      lastUse[event.weight] = static_cast<uint32_t>(uses.size());
      uses.push_back(
          {event.weight, event.first, event.last, StagedUse::kAtOnce, 0});
    }
    return std::move(uses);
  }

private:
  static constexpr uint32_t kNone = ~0u;

  /// Whether the use can be held until `until`. Counts the uses that overlap
  /// the stretch between; among these, only those that are in use at one and
  /// the same time with it matter, and the sum is an upper bound of that.
  bool mayJoin(uint32_t use, int32_t until) const {
    unsigned others = 0;
    // Later uses begin after this one; of the earlier ones only those that
    // were held this long count, and these are few by this very rule.
    const int32_t from = uses[use].last;
    if (until <= from)
      return true;
    for (uint32_t other = static_cast<uint32_t>(uses.size()); other-- > 0;) {
      if (other == use || uses[other].last < from)
        continue;
      if (++others >= depth)
        return false;
    }
    return true;
  }

  const unsigned depth;
  std::vector<uint32_t> lastUse;
  std::vector<StagedUse> uses;
};

/// A copy may start after the position at which fewer than `depth` of the uses
/// before it are unfinished: the depth-th largest of their last reads.
void setStarts(std::vector<StagedUse> &uses, unsigned depth) {
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> latest;
  for (StagedUse &use : uses) {
    if (latest.size() == depth)
      use.after = std::min(latest.top(), use.first - 1);
    latest.push(use.last);
    if (latest.size() > depth)
      latest.pop();
  }
}

} // namespace

std::vector<StagedUse> planUses(const StepModel &step,
                                const std::vector<bool> &resident,
                                unsigned depth) {
  assert(depth >= 2 && resident.size() == step.weights.size());
  std::vector<StagedUse> uses =
      UseCutter(step, depth).run(streamedReads(step, resident));
  setStarts(uses, depth);
  return uses;
}

} // namespace offload
