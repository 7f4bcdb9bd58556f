// What the queues of a device failed with first.

#ifndef OFFLOAD_RUNTIME_FIRSTERROR_H
#define OFFLOAD_RUNTIME_FIRSTERROR_H

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace offload::rt {

/// The first error of all queues; any thread may call any of it.
class FirstError {
public:
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }
  void capture(std::exception_ptr error) {
    std::lock_guard lock(mutex);
    if (!first)
      first = std::move(error);
    failed.store(true, std::memory_order_release);
  }
  std::exception_ptr error() const {
    std::lock_guard lock(mutex);
    return first;
  }
  void forget() {
    std::lock_guard lock(mutex);
    first = nullptr;
    failed.store(false, std::memory_order_release);
  }

private:
  mutable std::mutex mutex;
  std::exception_ptr first;
  std::atomic<bool> failed = false;
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_FIRSTERROR_H
