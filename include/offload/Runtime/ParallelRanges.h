// Splits bytes among threads, for work that memory's speed bounds.

#ifndef OFFLOAD_RUNTIME_PARALLELRANGES_H
#define OFFLOAD_RUNTIME_PARALLELRANGES_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace offload::rt {

inline constexpr int64_t kRangeBytes = int64_t(16) << 20;

/// Calls `body(i)` for all i of [0, items), in about this order, on as many
/// threads as the machine has, at most 16: more gain nothing on memory. `body`
/// may not throw.
template <typename Body> void forItems(int64_t items, const Body &body) {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i = next++; i < items; i = next++)
      body(i);
  };
  int64_t count = std::min<int64_t>(
      {std::thread::hardware_concurrency(), items, int64_t(16)});
  std::vector<std::thread> threads;
  for (int64_t k = 1; k < count; ++k)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

/// Calls `body(first, last)` likewise for ranges that together are [0, bytes);
/// they begin at multiples of kRangeBytes.
template <typename Body> void forRanges(int64_t bytes, const Body &body) {
  forItems((bytes + kRangeBytes - 1) / kRangeBytes, [&](int64_t i) {
    body(i * kRangeBytes, std::min((i + 1) * kRangeBytes, bytes));
  });
}

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_PARALLELRANGES_H
