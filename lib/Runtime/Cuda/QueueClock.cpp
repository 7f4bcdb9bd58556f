// Times of one stream, by events around all that it is given.
//
// In:  calls around whatever the stream is given, with a label.
// Out: spans of the last steps, by the host's clock.
// Not: what the labels mean.
// How: events are made before the steps that use them and recorded in stream
//      order; nothing is read before the stream is empty. What one label gives
//      in a row shares the event between two spans, so most operations take two
//      records, and one more for each wait. cudaEventElapsedTime gives float
//      milliseconds between two events, so only short distances are exact:
//      times are counted back from an event that is recorded when they are
//      asked for. The card's clock may run faster or slower than the host's, so
//      the distance is scaled by what both counted since the first reading.

#include "QueueClock.h"

#include "CudaCheck.h"

#include <chrono>
#include <cmath>

namespace offload::rt {

namespace {

int64_t nowNs() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cudaEvent_t makeTimingEvent(int index) {
  cudaEvent_t made = nullptr;
  checkCuda(cudaEventCreate(&made), index, "making a timing event");
  return made;
}

/// From one event to another that comes after it; false where one of them has
/// not passed.
bool nsBetween(cudaEvent_t from, cudaEvent_t to, double &ns) {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, from, to) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  ns = static_cast<double>(milliseconds) * 1e6;
  return true;
}

} // namespace

CardClock::~CardClock() {
  releaseOn(index, [this] {
    for (const Moment *moment : {&first, &last})
      for (cudaEvent_t event : moment->events)
        if (event)
          cudaEventDestroy(event);
  });
}

/// The card passes the event between two readings of the host's clock. The
/// later one stands for it, so that no time comes out too early.
void CardClock::Moment::read(int index, cudaStream_t stream) {
  int64_t shortest = 0;
  event = nullptr;
  for (cudaEvent_t &tried : events) {
    if (!tried)
      tried = makeTimingEvent(index);
    int64_t before = nowNs();
    checkCuda(cudaEventRecord(tried, stream), index, "recording a time");
    checkCuda(cudaEventSynchronize(tried), index, "reading the card's clock");
    int64_t after = nowNs();
    if (event && after - before >= shortest)
      continue;
    shortest = after - before;
    event = tried;
    hostNs = after;
  }
}

void CardClock::begin(cudaStream_t stream) { first.read(index, stream); }

void CardClock::end(cudaStream_t stream) {
  last.read(index, stream);
  double counted = 0;
  scale = 1;
  if (first.event && nsBetween(first.event, last.event, counted) && counted > 0)
    scale = static_cast<double>(last.hostNs - first.hostNs) / counted;
}

bool CardClock::hostNs(cudaEvent_t event, int64_t &ns) const {
  double back = 0;
  if (!nsBetween(event, last.event, back))
    return false;
  ns = last.hostNs - std::llround(back * scale);
  return true;
}

QueueClock::~QueueClock() { dropSteps(); }

void QueueClock::dropSteps() noexcept {
  releaseOn(index, [this] {
    for (Step &step : steps)
      for (cudaEvent_t event : step.events)
        cudaEventDestroy(event);
  });
  steps.clear();
}

void QueueClock::keep(unsigned numSteps, size_t spansAStep) {
  dropSteps();
  steps.assign(numSteps, {});
  current = 0;
  isOpen = false;
  for (Step &step : steps) {
    step.spans.reserve(spansAStep);
    step.events.reserve(2 * spansAStep); // where no two of them share one
    for (size_t i = 0; i < 2 * spansAStep; ++i)
      step.events.push_back(makeTimingEvent(index));
  }
}

void QueueClock::beginStep() {
  isOpen = false;
  if (steps.empty())
    return;
  current = (current + 1) % steps.size();
  steps[current].numUsed = 0;
  steps[current].spans.clear();
}

size_t QueueClock::record(Step &step) {
  if (step.numUsed == step.events.size())
    step.events.push_back(makeTimingEvent(index));
  checkCuda(cudaEventRecord(step.events[step.numUsed], stream), index,
            "recording a time");
  return step.numUsed++;
}

void QueueClock::start(Span::Kind kind, uint32_t label) {
  if (steps.empty() || label == Device::kNoLabel)
    return;
  Step &step = steps[current];
  bool goesOn = !step.spans.empty() && step.spans.back().isWhole &&
                step.spans.back().label == label;
  size_t start = goesOn ? step.spans.back().stop : record(step);
  step.spans.push_back({kind, label, start, start, false});
  isOpen = true;
}

void QueueClock::stop() {
  if (!isOpen)
    return;
  isOpen = false;
  Step &step = steps[current];
  OpenSpan &span = step.spans.back();
  span.stop = record(step);
  span.isWhole = true;
}

/// A step that failed leaves spans open.
void QueueClock::tell(Queue queue, size_t stepsBack, const CardClock &clock,
                      std::vector<Span> &spans) const {
  const Step &step = steps[(current + steps.size() - stepsBack) % steps.size()];
  for (const OpenSpan &open : step.spans) {
    Span span{queue, open.kind, open.label};
    if (open.isWhole && clock.hostNs(step.events[open.start], span.startNs) &&
        clock.hostNs(step.events[open.stop], span.endNs))
      spans.push_back(span);
  }
}

} // namespace offload::rt
