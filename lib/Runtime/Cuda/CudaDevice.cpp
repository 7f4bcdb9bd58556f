// A device of CUDA streams: one for each queue, on one card.
//
// In:  work, copies, events in issue order from one launching thread.
// Out: their effects, in the order of each stream; the first error.
// Not: what is computed, and in which order (the executor).
// How: everything but tasks of the host queue is issued at once from the
// calling
//      thread; nothing blocks it but allocation, synchronize and drain. Host
//      tasks are host functions of a fourth stream, so that order is stream
//      order alone. After an error nothing more is issued until recover(); what
//      the streams already hold runs to its end, host tasks excepted.

#include "CudaCheck.h"
#include "CudaMemory.h"
#include "HostTasks.h"
#include "QueueClock.h"
#include "StreamPool.h"

#include "offload/Runtime/FirstError.h"
#include "offload/Runtime/Kernels.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace offload::rt {

namespace {

class CudaEvent final : public Event {
public:
  explicit CudaEvent(int index) : index(index) {
    DeviceGuard guard(index);
    checkCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), index,
              "making an event");
  }
  ~CudaEvent() override {
    releaseOn(index, [this] { cudaEventDestroy(event); });
  }
  cudaEvent_t event = nullptr;

private:
  int index;
};

/// A stream of its own.
class Stream {
public:
  Stream(int index, Queue queue)
      : index(index), queue(queue), stream(takeStream(index, queue)) {
    clock.emplace(index, stream);
  }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  ~Stream() {
    clock.reset();
    releaseOn(index, [this] {
      if (cudaStreamSynchronize(stream) == cudaSuccess)
        giveStreamBack(index, queue, stream);
    });
  }

private:
  int index;
  Queue queue;

public:
  cudaStream_t stream;
  std::optional<QueueClock> clock;
};

class CudaDevice final : public Device {
public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  std::unique_ptr<Memory> allocateDevice(int64_t bytes) override {
    return allocateOnCard(index, bytes);
  }
  std::unique_ptr<Memory> allocateHost(int64_t bytes, bool pinned,
                                       const HostContents &contents) override {
    std::string failed;
    auto memory = allocateOnHost(index, bytes, pinned, contents, failed);
    std::lock_guard lock(warningMutex);
    if (firstWarning.empty())
      firstWarning = failed;
    return memory;
  }
  std::unique_ptr<Memory> allocateShared(int64_t bytes) override {
    return allocateMapped(index, bytes);
  }

  void launch(Queue queue, std::function<void()> task) override;
  void copy(Queue queue, void *to, const void *from, int64_t bytes) override;
  void fill(Queue queue, void *to, int value, int64_t bytes) override;
  void delay(Queue queue, int64_t ns) override;

  std::unique_ptr<Event> makeEvent() override {
    return std::make_unique<CudaEvent>(index);
  }
  void record(Queue queue, Event &event) override;
  void wait(Queue queue, const Event &event) override;

  void synchronize(const Event &event) override;
  void drain() override;
  std::exception_ptr error() const override { return failure.error(); }
  void recover() override;

  void beginStep() override;
  void keepTimes(unsigned steps, const SpanCounts &spansAStep) override;
  std::vector<std::vector<Span>> spans() override;

  KernelPlace kernelPlace(Queue queue) const override;
  void prepareKernels(const KernelLibraries &libraries) override {
    warmUpKernels(kernelPlace(Queue::Compute), libraries);
  }
  bool copiesNeedPinned() const override { return true; }
  bool isPinned(const void *data, int64_t bytes) const override;
  CardState cardBefore() const override { return before; }
  int64_t takenBytes() const override;
  std::string warning() const override {
    std::lock_guard lock(warningMutex);
    return firstWarning;
  }

private:
  const Stream &of(Queue queue) const {
    return *streams[static_cast<unsigned>(queue)];
  }
  Stream &of(Queue queue) { return *streams[static_cast<unsigned>(queue)]; }
  void check(cudaError_t code, const char *what);
  void launchOnHost(Span::Kind kind, std::function<void()> task);
  template <typename Issue>
  void issue(Queue queue, Span::Kind kind, const Issue &body);

  int index;
  CardState before;
  FirstError failure;
  bool isLost = false;
  unsigned stepsKept = 0, stepsBegun = 0; // of these at most all that are kept
  mutable std::mutex warningMutex;        // memory is allocated on any thread
  std::string firstWarning;
  std::array<std::unique_ptr<Stream>, kNumQueues> streams;
  CardClock cardClock;
  HostTasks hostTasks;
};

/// How the card is before anything is taken of it.
CardState stateOfCard(int index) {
  bool hasContext = hasContextOnCard(index);
  return {freeBytesOfCard(index, hasContext), hasContext};
}

/// Throws where no driver or no such card is there.
int existing(int index) {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    cudaGetLastError();
    std::string reason = code == cudaErrorInsufficientDriver
                             ? "there is no NVIDIA driver, or an older one "
                               "than CUDA 13 needs"
                             : cudaGetErrorString(code);
    throw Error("cuda:" + std::to_string(index) + " is not there: " + reason +
                "; use the device 'host'");
  }
  if (index < 0 || index >= count)
    throw Error("cuda:" + std::to_string(index) + " is not there: there are " +
                std::to_string(count) + " CUDA devices");
  return index;
}

CudaDevice::CudaDevice(int number)
    : index(existing(number)), before(stateOfCard(index)), cardClock(index) {
  for (size_t q = 0; q < streams.size(); ++q)
    streams[q] = std::make_unique<Stream>(index, static_cast<Queue>(q));
}

CudaDevice::~CudaDevice() {
  releaseOn(index, [this] {
    for (auto &stream : streams)
      cudaStreamSynchronize(stream->stream);
  });
}

/// An error of a call, and of what ran before it.
void CudaDevice::check(cudaError_t code, const char *what) {
  isLost |= isSticky(code);
  checkCuda(code, index, what);
}

template <typename Issue>
void CudaDevice::issue(Queue queue, Span::Kind kind, const Issue &body) {
  if (failure.hasFailed())
    return;
  try {
    DeviceGuard guard(index);
    Stream &stream = of(queue);
    stream.clock->start(kind, currentLabel);
    body(stream.stream);
    stream.clock->stop();
  } catch (...) {
    failure.capture(std::current_exception());
  }
}

void CudaDevice::launchOnHost(Span::Kind kind, std::function<void()> task) {
  issue(Queue::Host, kind, [&](cudaStream_t stream) {
    check(hostTasks.append(stream,
                           [this, body = std::move(task)]() mutable {
                             if (failure.hasFailed())
                               return;
                             try {
                               body();
                             } catch (...) {
                               failure.capture(std::current_exception());
                             }
                           }),
          "launching a host task");
  });
}

void CudaDevice::launch(Queue queue, std::function<void()> task) {
  if (queue == Queue::Host)
    return launchOnHost(Span::Kind::Work, std::move(task));
  issue(queue, Span::Kind::Work, [&](cudaStream_t) { task(); });
}

void CudaDevice::copy(Queue queue, void *to, const void *from, int64_t bytes) {
  if (bytes == 0)
    return;
  if (queue == Queue::Host)
    return launchOnHost(Span::Kind::Copy, [=] {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    });
  cudaMemcpyKind kind = queue == Queue::H2D   ? cudaMemcpyHostToDevice
                        : queue == Queue::D2H ? cudaMemcpyDeviceToHost
                                              : cudaMemcpyDeviceToDevice;
  issue(queue, Span::Kind::Copy, [&](cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
          "copying");
  });
}

void CudaDevice::fill(Queue queue, void *to, int value, int64_t bytes) {
  if (bytes == 0)
    return;
  issue(queue, Span::Kind::Fill, [&](cudaStream_t stream) {
    check(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream),
          "filling");
  });
}

/// On a device queue the card spins, so that no other queue's host function is
/// held up.
void CudaDevice::delay(Queue queue, int64_t ns) {
  if (queue == Queue::Host)
    return launchOnHost(Span::Kind::Pause, [=] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    });
  issue(queue, Span::Kind::Pause,
        [&](cudaStream_t) { spinOn(kernelPlace(queue), ns); });
}

void CudaDevice::record(Queue queue, Event &event) {
  try {
    DeviceGuard guard(index);
    check(cudaEventRecord(static_cast<CudaEvent &>(event).event,
                          of(queue).stream),
          "recording an event");
  } catch (...) {
    failure.capture(std::current_exception());
  }
}

void CudaDevice::wait(Queue queue, const Event &event) {
  try {
    DeviceGuard guard(index);
    Stream &stream = of(queue);
    stream.clock->start(Span::Kind::Wait, currentLabel);
    check(cudaStreamWaitEvent(stream.stream,
                              static_cast<const CudaEvent &>(event).event, 0),
          "waiting for an event");
    stream.clock->stop();
  } catch (...) {
    failure.capture(std::current_exception());
  }
}

void CudaDevice::synchronize(const Event &event) {
  try {
    DeviceGuard guard(index);
    check(cudaEventSynchronize(static_cast<const CudaEvent &>(event).event),
          "running what was launched");
  } catch (...) {
    failure.capture(std::current_exception());
  }
}

void CudaDevice::drain() {
  try {
    DeviceGuard guard(index);
    for (auto &stream : streams)
      check(cudaStreamSynchronize(stream->stream), "running what was launched");
  } catch (...) {
    failure.capture(std::current_exception());
  }
}

/// A lost context stays an error: nothing can be issued to it.
void CudaDevice::recover() {
  drain();
  failure.forget();
  if (isLost)
    failure.capture(std::make_exception_ptr(
        Error("cuda:" + std::to_string(index) +
              ": an earlier error has ended this process's use of the device; "
              "start a new process")));
}

void CudaDevice::beginStep() {
  stepsBegun = std::min(stepsBegun + 1, stepsKept);
  for (auto &stream : streams)
    stream->clock->beginStep();
}

void CudaDevice::keepTimes(unsigned steps, const SpanCounts &spansAStep) {
  DeviceGuard guard(index);
  stepsKept = steps;
  stepsBegun = 0;
  for (size_t q = 0; q < streams.size(); ++q)
    streams[q]->clock->keep(steps, spansAStep[q]);
  if (steps)
    cardClock.begin(streams[0]->stream);
}

std::vector<std::vector<Span>> CudaDevice::spans() {
  std::vector<std::vector<Span>> steps(stepsBegun);
  if (steps.empty() || isLost)
    return steps;
  DeviceGuard guard(index);
  cardClock.end(streams[0]->stream);
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t q = 0; q < streams.size(); ++q)
      streams[q]->clock->tell(static_cast<Queue>(q), steps.size() - 1 - i,
                              cardClock, steps[i]);
  return steps;
}

KernelPlace CudaDevice::kernelPlace(Queue queue) const {
  KernelPlace place;
  if (queue == Queue::Host)
    return place;
  place.cudaIndex = index;
  place.stream = of(queue).stream;
  return place;
}

/// The driver knows pages, not ranges: both ends stand for what is between.
bool CudaDevice::isPinned(const void *data, int64_t bytes) const {
  DeviceGuard guard(index);
  auto isRegistered = [](const void *address) {
    cudaPointerAttributes about{};
    if (cudaPointerGetAttributes(&about, address) == cudaSuccess)
      return about.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return false;
  };
  return bytes == 0 ||
         (isRegistered(data) &&
          isRegistered(static_cast<const std::byte *>(data) + bytes - 1));
}

int64_t CudaDevice::takenBytes() const {
  int64_t now = freeBytesOfCard(index, before.hasContext); // asked likewise
  return before.freeBytes < 0 || now < 0 ? -1 : before.freeBytes - now;
}

} // namespace

std::unique_ptr<Device> makeCudaDevice(int index) {
  return std::make_unique<CudaDevice>(index);
}

} // namespace offload::rt
