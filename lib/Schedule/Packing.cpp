// Packs byte ranges with known lifetimes into one arena.
//
// In:  sizes and lifetimes in positions.
// Out: offsets in multiples of 512 bytes and the peak.
// Not: which ranges there are and how long they live (Schedule).
// How: the problem is dynamic storage allocation, NP-hard. Items are placed one
//      after another into the smallest gap that holds them among the items
//      placed before whose lifetimes meet theirs, as in the greedy by size of
//      Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
//      Inference" (2020); several orders are tried and the best peak is kept.
//      With few items every order is tried at the lowest free offset, which is
//      exact: sorted by offset, a best packing is such an order. Greedy has no
//      useful bound on its distance from the best; liveBytesBound says how far
//      it can be at most.

#include "offload/Schedule/Packing.h"

#include "offload/OffFormat/DataType.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace offload {
namespace {

enum class Fit { Best, Lowest };

class Packer {
public:
  explicit Packer(const std::vector<PackItem> &items) : items(items) {
    for (const PackItem &item : items) {
      assert(item.first <= item.last && item.bytes >= 0);
      lowest = std::min(lowest, item.first);
      highest = std::max(highest, item.last);
    }
    if (items.empty())
      lowest = highest = 0;
  }

  Packing run(const std::vector<uint32_t> &order, Fit fit) {
    Packing result;
    result.offsets.assign(items.size(), 0);
    byPosition.assign(highest - lowest + 1, {});
    seen.assign(items.size(), ~0u);
    for (uint32_t index : order)
      place(index, fit, result);
    return result;
  }

private:
  void place(uint32_t index, Fit fit, Packing &result) {
    const PackItem &item = items[index];
    const int64_t need = alignUp(item.bytes);
    if (need == 0)
      return;
    collectNeighbours(index, result);
    std::sort(taken.begin(), taken.end());

    int64_t cursor = 0, chosen = -1, chosenGap = 0;
    for (auto [begin, end] : taken) {
      const int64_t gap = begin - cursor;
      if (gap >= need && (chosen < 0 || gap < chosenGap)) {
        chosen = cursor;
        chosenGap = gap;
        if (fit == Fit::Lowest)
          break;
      }
      cursor = std::max(cursor, end);
    }
    if (chosen < 0)
      chosen = cursor;
    result.offsets[index] = chosen;
    result.peakBytes = std::max(result.peakBytes, chosen + need);
    for (int32_t at = item.first; at <= item.last; ++at)
      byPosition[at - lowest].push_back(index);
  }

  /// Ranges of the placed items whose positions meet those of `index`.
  void collectNeighbours(uint32_t index, const Packing &result) {
    taken.clear();
    const PackItem &item = items[index];
    auto take = [&](uint32_t other) {
      if (seen[other] == index)
        return;
      seen[other] = index;
      const int64_t begin = result.offsets[other];
      taken.push_back({begin, begin + alignUp(items[other].bytes)});
    };
    for (int32_t at = item.first; at <= item.last; ++at)
      for (uint32_t other : byPosition[at - lowest])
        take(other);
  }

  const std::vector<PackItem> &items;
  int32_t lowest = INT32_MAX, highest = INT32_MIN;
  std::vector<std::vector<uint32_t>> byPosition; // placed items
  std::vector<uint32_t> seen;
  std::vector<std::pair<int64_t, int64_t>> taken;
};

int64_t length(const PackItem &item) {
  return static_cast<int64_t>(item.last) - item.first + 1;
}

/// Greedy orders, the one that is best most often first. Ties go by index.
std::vector<std::function<bool(const PackItem &, const PackItem &)>>
greedyOrders() {
  auto area = [](const PackItem &item) {
    return static_cast<double>(item.bytes) * static_cast<double>(length(item));
  };
  return {
      [](const PackItem &a, const PackItem &b) { return a.bytes > b.bytes; },
      [=](const PackItem &a, const PackItem &b) { return area(a) > area(b); },
      [](const PackItem &a, const PackItem &b) {
        return length(a) != length(b) ? length(a) > length(b)
                                      : a.bytes > b.bytes;
      },
      [](const PackItem &a, const PackItem &b) {
        return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
      },
  };
}

Packing packEveryOrder(const std::vector<PackItem> &items, int64_t bound) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  Packer packer(items);
  Packing best = packer.run(order, Fit::Lowest);
  while (best.peakBytes > bound &&
         std::next_permutation(order.begin(), order.end())) {
    Packing packing = packer.run(order, Fit::Lowest);
    if (packing.peakBytes < best.peakBytes)
      best = std::move(packing);
  }
  return best;
}

} // namespace

int64_t liveBytesBound(const std::vector<PackItem> &items,
                       int32_t *atPosition) {
  std::vector<std::pair<int64_t, int64_t>> changes; // position, bytes
  changes.reserve(items.size() * 2);
  for (const PackItem &item : items) {
    changes.push_back({item.first, alignUp(item.bytes)});
    changes.push_back(
        {static_cast<int64_t>(item.last) + 1, -alignUp(item.bytes)});
  }
  // What ends before a position sorts ahead of what begins there.
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, most = 0;
  int32_t where = -1;
  for (auto [position, bytes] : changes) {
    live += bytes;
    if (live > most) {
      most = live;
      where = static_cast<int32_t>(position);
    }
  }
  if (atPosition)
    *atPosition = where;
  return most;
}

Packing pack(const std::vector<PackItem> &items, int64_t enoughBytes) {
  const int64_t bound = std::max(liveBytesBound(items), enoughBytes);
  if (items.size() <= kExactItems)
    return packEveryOrder(items, bound);

  Packer packer(items);
  Packing best;
  bool first = true;
  for (const auto &before : greedyOrders()) {
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return before(items[a], items[b]);
    });
    Packing packing = packer.run(order, Fit::Best);
    if (first || packing.peakBytes < best.peakBytes)
      best = std::move(packing);
    first = false;
    if (best.peakBytes <= bound)
      break;
  }
  return best;
}

bool isValidPacking(const std::vector<PackItem> &items,
                    const Packing &packing) {
  if (packing.offsets.size() != items.size())
    return false;
  int64_t peak = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t begin = packing.offsets[i];
    const int64_t end = begin + alignUp(items[i].bytes);
    if (begin < 0 || begin % kAlignBytes != 0)
      return false;
    if (items[i].bytes > 0)
      peak = std::max(peak, end);
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          items[i].first <= items[j].last && items[j].first <= items[i].last;
      const int64_t other = packing.offsets[j];
      if (together && begin < other + alignUp(items[j].bytes) && other < end)
        return false;
    }
  }
  return peak == packing.peakBytes;
}

} // namespace offload
