// Splits bytes among threads, for work that memory's speed bounds.

#ifndef OFFLOAD_RUNTIME_PARALLELRANGES_H
#define OFFLOAD_RUNTIME_PARALLELRANGES_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace offload::rt {

/// Calls `body(first, last)` for ranges that together are [0, bytes), on as
/// many threads as the machine has, at most 16: more gain nothing on memory.
/// Ranges begin at multiples of 16 MiB. `body` may not throw.
template <typename Body> void forRanges(int64_t bytes, const Body &body) {
  constexpr int64_t kRangeBytes = int64_t(16) << 20;
  const int64_t ranges = (bytes + kRangeBytes - 1) / kRangeBytes;
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i = next++; i < ranges; i = next++)
      body(i * kRangeBytes, std::min((i + 1) * kRangeBytes, bytes));
  };
  int64_t count = std::min<int64_t>(
      {std::thread::hardware_concurrency(), ranges, int64_t(16)});
  std::vector<std::thread> threads;
  for (int64_t k = 1; k < count; ++k)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_PARALLELRANGES_H
