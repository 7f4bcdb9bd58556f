// How long the work of one stream took, and how long it stood waiting.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H
#define OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H

#include "offload/Runtime/Device.h"

#include <cuda_runtime_api.h>

#include <vector>

namespace offload::rt {

/// Pairs of timing events around work and waits. Events are made once and used
/// again in each step. Belongs to the launching thread.
class QueueClock {
public:
  QueueClock(int index, cudaStream_t stream) : index(index), stream(stream) {}
  QueueClock(const QueueClock &) = delete;
  QueueClock &operator=(const QueueClock &) = delete;
  ~QueueClock();

  enum class Kind { Work, Wait };
  /// Before and after the stream is given something; nothing where off.
  void start(Kind kind);
  void stop();

  /// Forgets all pairs; on or off from now on.
  void restart(bool on);
  /// The stream must be empty.
  QueueTimes times() const;

private:
  cudaEvent_t nextEvent();

  int index;
  cudaStream_t stream;
  bool isOn = false;
  std::vector<cudaEvent_t> events;
  size_t numUsed = 0;
  struct Pair {
    Kind kind;
    cudaEvent_t start, stop;
  };
  std::vector<Pair> pairs;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_QUEUECLOCK_H
