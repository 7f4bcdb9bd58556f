// Times of one stream, by pairs of events.
//
// In:  calls around whatever the stream is given.
// Out: sums over the pairs of the last step.
// Not: times of single operations.

#include "QueueClock.h"

#include "CudaCheck.h"

namespace offload::rt {

QueueClock::~QueueClock() {
  for (cudaEvent_t event : events)
    cudaEventDestroy(event);
}

cudaEvent_t QueueClock::nextEvent() {
  if (numUsed == events.size()) {
    cudaEvent_t made = nullptr;
    checkCuda(cudaEventCreate(&made), index, "making a timing event");
    events.push_back(made);
  }
  return events[numUsed++];
}

void QueueClock::start(Kind kind) {
  if (!isOn)
    return;
  cudaEvent_t start = nextEvent(), stop = nextEvent();
  pairs.push_back({kind, start, stop});
  checkCuda(cudaEventRecord(start, stream), index, "recording a time");
}

void QueueClock::stop() {
  if (isOn)
    checkCuda(cudaEventRecord(pairs.back().stop, stream), index,
              "recording a time");
}

void QueueClock::restart(bool on) {
  isOn = on;
  numUsed = 0;
  pairs.clear();
}

QueueTimes QueueClock::times() const {
  QueueTimes times;
  for (const Pair &pair : pairs) {
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, pair.start, pair.stop) !=
        cudaSuccess) {
      cudaGetLastError(); // a step that failed leaves pairs open
      continue;
    }
    auto ns = static_cast<int64_t>(milliseconds * 1e6f);
    (pair.kind == Kind::Work ? times.busyNs : times.stallNs) += ns;
  }
  return times;
}

} // namespace offload::rt
