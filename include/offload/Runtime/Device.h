// The seam between the executor and a machine: queues, events, memory, copies.
//
// Made for CUDA streams and events as much as for threads. All calls come from
// one launching thread, in issue order; nothing here blocks it but synchronize,
// allocation and an error. Every implementation passes the conformance suite in
// test/conformance/Device.

#ifndef OFFLOAD_RUNTIME_DEVICE_H
#define OFFLOAD_RUNTIME_DEVICE_H

#include "offload/OffFormat/Queue.h"
#include "offload/Runtime/KernelPlace.h"
#include "offload/Runtime/Tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace offload::rt {

/// Memory of one kind, freed with the object.
class Memory {
public:
  virtual ~Memory() = default;
  std::byte *data() const { return start; }
  int64_t sizeBytes() const { return numBytes; }

protected:
  std::byte *start = nullptr; // aligned to kAlignBytes
  int64_t numBytes = 0;
};

/// A point in a queue. Belongs to the device that made it. Recording it again
/// makes it stand for the new point only.
class Event {
public:
  virtual ~Event() = default;
};

/// What a queue did for a while, by the host's steady clock.
struct Span {
  enum class Kind : uint8_t {
    Work,
    Copy,
    Fill,
    Pause,
    Wait // standing before an event; every wait() has one
  };
  Queue queue = Queue::Compute;
  Kind kind = Kind::Work;
  uint32_t label = 0; // see Device::label
  int64_t startNs = 0, endNs = 0;
};

/// A card as the driver told of it before a device was made there.
struct CardState {
  int64_t freeBytes = -1;  // -1: no card, or nobody can say
  bool hasContext = false; // this process had a context there already
};

/// What new host memory holds.
struct HostContents {
  /// Writes bytes [first, last) of the memory at `start`; what it leaves out is
  /// zero. Called by several threads at once. May not throw.
  std::function<void(std::byte *start, int64_t first, int64_t last)> fill;
  /// Offsets, increasing, that no copy goes across.
  std::vector<int64_t> cuts;
};

class Device {
public:
  static constexpr uint32_t kNoLabel = ~0u;

  /// Ends what was launched, then frees.
  virtual ~Device() = default;

  /// Device memory of exactly that many bytes. Throws Error with what was asked
  /// for and what is free.
  virtual std::unique_ptr<Memory> allocateDevice(int64_t bytes) = 0;
  /// Host memory that the device copies from and to at full speed. `pinned`
  /// false: plain memory (a table that only the host queue reads).
  /// May be called from any thread.
  virtual std::unique_ptr<Memory>
  allocateHost(int64_t bytes, bool pinned, const HostContents &contents) = 0;
  std::unique_ptr<Memory> allocateHost(int64_t bytes, bool pinned) {
    return allocateHost(bytes, pinned, HostContents());
  }

  /// Appends work to a queue. On threads the task runs there; on CUDA a Host
  /// task runs in stream order on a thread of the device's, and any other at
  /// once on the calling thread, from where it launches on the queue's stream.
  /// What it throws fails the step: what is issued later is skipped until
  /// recover(), and so is what was issued before and runs on a thread.
  virtual void launch(Queue queue, std::function<void()> task) = 0;
  /// Appends a copy: h2d and d2h as the queue says; both ends stay valid until
  /// it has ended.
  virtual void copy(Queue queue, void *to, const void *from, int64_t bytes) = 0;
  /// Appends a fill of device memory with a byte (poison, zeros).
  virtual void fill(Queue queue, void *to, int value, int64_t bytes) = 0;

  /// Appends a pause, to test that nothing rests on luck.
  virtual void delay(Queue queue, int64_t ns) = 0;

  virtual std::unique_ptr<Event> makeEvent() = 0;
  /// The event stands for all that `queue` was given so far.
  virtual void record(Queue queue, Event &event) = 0;
  /// All that `queue` is given from now on starts after the point of the last
  /// record() of `event` before this call; an event that was never recorded has
  /// passed. So an event of the step before is waited for by calling this
  /// before the event is recorded again.
  virtual void wait(Queue queue, const Event &event) = 0;

  /// Blocks until the event has passed. After an error it may return early:
  /// ask error(). Events pass in a step that failed, too.
  virtual void synchronize(const Event &event) = 0;
  /// Blocks until every queue is empty.
  virtual void drain() = 0;
  /// First error since the last recover(), or null.
  virtual std::exception_ptr error() const = 0;
  /// Drains, forgets the error; the device is usable again.
  virtual void recover() = 0;

  /// A number of the caller's for the spans of what is appended from now on;
  /// kNoLabel, as at first: no times are kept of it.
  void label(uint32_t number) { currentLabel = number; }
  /// Appends to every queue the point where a step begins.
  virtual void beginStep() = 0;
  /// Keeps the spans of the last `steps` steps, from the next beginStep(); 0,
  /// as at first: none. Room is made here for as many spans a step in each
  /// queue; more of them take memory within the step. The queues must be empty.
  using SpanCounts = std::array<size_t, kNumQueues>;
  virtual void keepTimes(unsigned steps, const SpanCounts &spansAStep) = 0;
  /// What all queues did in the last steps, oldest step first and at most as
  /// many as are kept: by queue, and in the order in which it was given. What
  /// was skipped after an error has no span. The queues must be empty.
  virtual std::vector<std::vector<Span>> spans() = 0;

  /// Where kernels of the queue run.
  virtual KernelPlace kernelPlace(Queue) const { return {}; }
  /// Makes what kernels' libraries keep (handles, workspaces), so that no later
  /// kernel does; those that `libraries` names only where asked, as they take
  /// long. Blocks.
  virtual void prepareKernels(const KernelLibraries &) {}
  /// Whether a copy from or to memory that allocateHost() did not make may
  /// block the calling thread.
  virtual bool copiesNeedPinned() const { return false; }
  /// Whether copies from these bytes are fast and block nobody: they are of
  /// allocateHost(pinned), or their owner has registered them with the device.
  virtual bool isPinned(const void *, int64_t) const { return true; }
  /// Host memory, zeros at first, that kernels of the compute queue write to
  /// and the host reads once an event behind them has passed.
  virtual std::unique_ptr<Memory> allocateShared(int64_t bytes) {
    return allocateHost(bytes, false);
  }
  virtual CardState cardBefore() const { return {}; }
  /// Bytes that are gone from the card since before this device was made, its
  /// context included; -1 where nobody can say.
  virtual int64_t takenBytes() const { return -1; }
  /// What went wrong without ending anything, a line each; "" mostly.
  virtual std::string warning() const { return ""; }

protected:
  uint32_t currentLabel = kNoLabel;
};

/// Queues as threads over a second pool of plain memory.
std::unique_ptr<Device> makeHostDevice();

/// Queues as streams of one NVIDIA card. Throws Error where there is no driver,
/// or no card of that index.
std::unique_ptr<Device> makeCudaDevice(int index);

/// "host" or "cuda:N". Throws Error for other names.
std::unique_ptr<Device> makeDevice(const std::string &name);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_DEVICE_H
