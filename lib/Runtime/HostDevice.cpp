// A device of threads: one for each queue, over a second pool of plain memory.
//
// In:  tasks, copies, events in issue order from one launching thread.
// Out: their effects, in the order of each queue; the first error.
// Not: what is computed, and in which order (the executor).
// How: a queue is a list of closures that one thread takes from the front. An
//      event counts its records; a wait stands for the count at the time of
//      its call, so recording an event again never confuses an older wait.
//      After an error work is skipped, but events still pass, so no queue
//      hangs. Times are read around what has a label, by the queue's thread,
//      and only where they are kept.

#include "offload/Runtime/Device.h"
#include "offload/Runtime/FirstError.h"
#include "offload/Runtime/ParallelRanges.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace offload::rt {

namespace {

using Clock = std::chrono::steady_clock;

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Clock::now().time_since_epoch())
      .count();
}

/// Whole pages of its own, zeros at first and given back exactly.
class PageMemory final : public Memory {
public:
  PageMemory(int64_t bytes, const char *pool) {
    numBytes = bytes;
    if (bytes < 0)
      throw Error("memory of a negative size was asked for");
    if (bytes == 0)
      return;
    void *pages =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
      throw Error("no " + std::to_string(bytes) + " bytes of " + pool +
                  " memory: " + std::to_string(freeBytes()) + " are free");
    madvise(pages, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    start = static_cast<std::byte *>(pages);
  }
  ~PageMemory() override {
    if (start)
      munmap(start, static_cast<size_t>(numBytes));
  }

private:
  static int64_t freeBytes() {
    return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
           sysconf(_SC_PAGESIZE);
  }
};

/// How often an event was recorded, and how many of these points have passed.
/// Tasks share it, so an event may go while they still stand in a queue.
class Passage {
public:
  void pass(uint64_t record) {
    {
      std::lock_guard lock(mutex);
      passed = std::max(passed, record);
    }
    changed.notify_all();
  }
  void await(uint64_t record) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return passed >= record; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t passed = 0;
};

class HostEvent final : public Event {
public:
  uint64_t records = 0; // the launching thread's
  std::shared_ptr<Passage> passage = std::make_shared<Passage>();
};

class HostQueue {
public:
  explicit HostQueue(FirstError &failure)
      : failure(failure), thread([this] { serve(); }) {}
  ~HostQueue() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    arrived.notify_one();
    thread.join();
  }

  enum class Kind { Work, Record, Wait, Begin };
  struct Task {
    Kind kind;
    std::function<void()> body;
    /// What is kept of it: nothing for Device::kNoLabel.
    Span span = {.label = Device::kNoLabel};
  };
  void append(Task task) {
    {
      std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    arrived.notify_one();
  }
  void drain() {
    std::unique_lock lock(mutex);
    emptied.wait(lock, [this] { return tasks.empty() && !running; });
  }
  void keep(unsigned numSteps, size_t spansAStep) {
    std::lock_guard lock(mutex);
    steps.assign(numSteps, {});
    for (std::vector<Span> &step : steps)
      step.reserve(spansAStep);
    current = 0;
  }
  /// Appends what was done `stepsBack` steps before the last one.
  void tell(size_t stepsBack, std::vector<Span> &spans) const {
    std::lock_guard lock(mutex);
    const std::vector<Span> &step =
        steps[(current + steps.size() - stepsBack) % steps.size()];
    spans.insert(spans.end(), step.begin(), step.end());
  }

private:
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      arrived.wait(lock, [this] { return closing || !tasks.empty(); });
      if (tasks.empty())
        return; // closing, and everything is done
      Task task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      bool isKept = task.span.label != Device::kNoLabel;
      if (isKept)
        task.span.startNs = nowNs();
      bool isDone = perform(task);
      if (isKept)
        task.span.endNs = nowNs();
      task.body = nullptr; // what it holds goes before drain() returns
      lock.lock();
      keepSpan(task, isKept && isDone);
      running = false;
      if (tasks.empty())
        emptied.notify_all();
    }
  }

  /// Whether it was not skipped.
  bool perform(Task &task) {
    if (task.kind == Kind::Work && failure.hasFailed())
      return false;
    try {
      if (task.body)
        task.body();
    } catch (...) {
      failure.capture(std::current_exception());
    }
    return true;
  }

  void keepSpan(const Task &task, bool isKept) {
    if (steps.empty())
      return;
    if (task.kind == Kind::Begin) {
      current = (current + 1) % steps.size();
      steps[current].clear();
    } else if (isKept) {
      steps[current].push_back(task.span);
    }
  }

  FirstError &failure;
  mutable std::mutex mutex;
  std::condition_variable arrived, emptied;
  std::deque<Task> tasks;
  bool running = false, closing = false;
  std::vector<std::vector<Span>> steps; // a ring; empty: none are kept
  size_t current = 0;                   // of the last step
  std::thread thread;                   // last: it uses all of the above
};

class HostDevice final : public Device {
public:
  ~HostDevice() override { drain(); }

  std::unique_ptr<Memory> allocateDevice(int64_t bytes) override {
    return std::make_unique<PageMemory>(bytes, "device");
  }
  std::unique_ptr<Memory> allocateHost(int64_t bytes, bool,
                                       const HostContents &contents) override {
    auto memory = std::make_unique<PageMemory>(bytes, "host");
    if (contents.fill)
      forRanges(bytes, [&](int64_t first, int64_t last) {
        contents.fill(memory->data(), first, last);
      });
    return memory;
  }

  void launch(Queue queue, std::function<void()> task) override {
    append(queue, Span::Kind::Work, std::move(task));
  }
  void copy(Queue queue, void *to, const void *from, int64_t bytes) override {
    append(queue, Span::Kind::Copy, [=] {
      if (bytes)
        std::memcpy(to, from, static_cast<size_t>(bytes));
    });
  }
  void fill(Queue queue, void *to, int value, int64_t bytes) override {
    append(queue, Span::Kind::Fill, [=] {
      if (bytes)
        std::memset(to, value, static_cast<size_t>(bytes));
    });
  }
  void delay(Queue queue, int64_t ns) override {
    append(queue, Span::Kind::Pause,
           [=] { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); });
  }

  std::unique_ptr<Event> makeEvent() override {
    return std::make_unique<HostEvent>();
  }
  void record(Queue queue, Event &event) override {
    auto &mine = static_cast<HostEvent &>(event);
    of(queue).append({HostQueue::Kind::Record,
                      [passage = mine.passage, record = ++mine.records] {
                        passage->pass(record);
                      }});
  }
  void wait(Queue queue, const Event &event) override {
    auto &mine = static_cast<const HostEvent &>(event);
    of(queue).append({HostQueue::Kind::Wait,
                      [passage = mine.passage, record = mine.records] {
                        passage->await(record);
                      },
                      spanOf(queue, Span::Kind::Wait)});
  }

  void synchronize(const Event &event) override {
    auto &mine = static_cast<const HostEvent &>(event);
    mine.passage->await(mine.records);
  }
  void drain() override {
    for (HostQueue &queue : queues)
      queue.drain();
  }
  std::exception_ptr error() const override { return failure.error(); }
  void recover() override {
    drain();
    failure.forget();
  }

  void beginStep() override {
    stepsBegun = std::min(stepsBegun + 1, stepsKept);
    for (HostQueue &queue : queues)
      queue.append({HostQueue::Kind::Begin, nullptr});
  }
  void keepTimes(unsigned steps, const SpanCounts &spansAStep) override {
    stepsKept = steps;
    stepsBegun = 0;
    for (size_t q = 0; q < queues.size(); ++q)
      queues[q].keep(steps, spansAStep[q]);
  }
  std::vector<std::vector<Span>> spans() override {
    std::vector<std::vector<Span>> steps(stepsBegun);
    for (size_t i = 0; i < steps.size(); ++i)
      for (const HostQueue &queue : queues)
        queue.tell(steps.size() - 1 - i, steps[i]);
    return steps;
  }

private:
  HostQueue &of(Queue queue) { return queues[static_cast<unsigned>(queue)]; }
  Span spanOf(Queue queue, Span::Kind kind) const {
    return {queue, kind, stepsKept ? currentLabel : kNoLabel};
  }
  void append(Queue queue, Span::Kind kind, std::function<void()> body) {
    of(queue).append(
        {HostQueue::Kind::Work, std::move(body), spanOf(queue, kind)});
  }

  unsigned stepsKept = 0, stepsBegun = 0; // of these at most all that are kept
  FirstError failure;
  std::array<HostQueue, kNumQueues> queues{
      HostQueue(failure), HostQueue(failure), HostQueue(failure),
      HostQueue(failure)};
};

} // namespace

std::unique_ptr<Device> makeHostDevice() {
  return std::make_unique<HostDevice>();
}

} // namespace offload::rt
