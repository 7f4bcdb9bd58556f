// When the work of one stream ran, and when it stood waiting.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H
#define OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H

#include "offload/Runtime/Device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <vector>

namespace offload::rt {

/// A card's time in the host's: two moments at which both were read, and a line
/// through them.
class CardClock {
public:
  explicit CardClock(int index) : index(index) {}
  CardClock(const CardClock &) = delete;
  CardClock &operator=(const CardClock &) = delete;
  ~CardClock();

  /// Read both clocks; the stream must be empty. Each blocks for some tens of
  /// microseconds. Throw Error.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

  /// The host's steady clock, in ns, at an event that has passed between these
  /// two; never too early, and too late by no more than reading both clocks
  /// takes. False where the event has not passed, or was never recorded.
  bool hostNs(cudaEvent_t event, int64_t &ns) const;

private:
  struct Moment {
    static constexpr unsigned kTries = 4; // the quickest one counts
    std::array<cudaEvent_t, kTries> events{};
    cudaEvent_t event = nullptr; // one of these
    int64_t hostNs = 0;
    void read(int index, cudaStream_t stream);
  };
  int index;
  Moment first, last;
  double scale = 1; // ns of the host in one of the card
};

/// Timing events before and after all that one stream is given, for some steps
/// back. Belongs to the launching thread.
class QueueClock {
public:
  QueueClock(int index, cudaStream_t stream) : index(index), stream(stream) {}
  QueueClock(const QueueClock &) = delete;
  QueueClock &operator=(const QueueClock &) = delete;
  ~QueueClock();

  /// Makes the events of `numSteps` steps of `spansAStep` spans; 0: none. The
  /// stream must be empty. Throws Error.
  void keep(unsigned numSteps, size_t spansAStep);
  /// The oldest step's events are used again.
  void beginStep();

  /// Before and after the stream is given something; nothing where the label is
  /// Device::kNoLabel or no steps are kept. Throw Error.
  void start(Span::Kind kind, uint32_t label);
  void stop();

  /// Appends the spans of `stepsBack` steps before the last one. The stream
  /// must be empty.
  void tell(Queue queue, size_t stepsBack, const CardClock &clock,
            std::vector<Span> &spans) const;

private:
  struct OpenSpan {
    Span::Kind kind;
    uint32_t label;
    size_t start, stop; // of the step's events
    bool isWhole;       // its end was recorded
  };
  struct Step {
    std::vector<cudaEvent_t> events;
    size_t numUsed = 0;
    std::vector<OpenSpan> spans;
  };
  size_t record(Step &step);
  void dropSteps() noexcept;

  int index;
  cudaStream_t stream;
  std::vector<Step> steps; // a ring
  size_t current = 0;      // of the last step
  bool isOpen = false;     // between start and stop
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H
