// Three steps of a session as bytes.
//
// In:  a `.off`, a probe, an edit of its launch list.
// Out: bytes of outputs and states.
// Not: which schedules are run (MutationTest).
// How: feeds and states come from their names' order and the step, so every run
//      of a schedule gets the same. States are read only at the end: reading
//      drains the queues, and the border between steps is to be seen.

#include "Runs.h"

#include "Schedules.h"

#include <atomic>
#include <cmath>
#include <thread>

namespace offload::mutation {

namespace {

constexpr unsigned kSteps = 3;
constexpr unsigned kThreads = 10;
constexpr double kDelayMs = 1;

rt::Tensor randomTensor(const rt::ValueInfo &info, Random &random) {
  rt::Tensor tensor = rt::Tensor::allocate(info.type, info.dims);
  if (info.type == DataType::Bool) {
    *tensor.data<bool>() = true; // apply
    return tensor;
  }
  if (info.type != DataType::Float)
    throw rt::Error("'" + info.name + "' is no float");
  float deviation = 1;
  if (info.dims.empty()) {
    *tensor.data<float>() = 0.01f; // a rate
    return tensor;
  }
  if (info.dims.size() == 2 && info.name != "x" && info.name != "t")
    deviation = 1 / std::sqrt(static_cast<float>(info.dims[0]));
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    tensor.data<float>()[i] = random.real(deviation);
  return tensor;
}

void append(std::string &bytes, const rt::Tensor &tensor) {
  bytes.append(reinterpret_cast<const char *>(tensor.bytes.get()),
               static_cast<size_t>(tensor.sizeBytes()));
}

} // namespace

const std::vector<Probe> &probes() {
  static const std::vector<Probe> all = [] {
    std::vector<Probe> made;
    for (bool poison : {true, false})
      for (Queue queue : {Queue::Compute, Queue::D2H, Queue::H2D, Queue::Host})
        made.push_back({queue, kDelayMs, poison, 0});
    return made;
  }();
  return all;
}

std::string describe(const Probe &probe) {
  return std::string(queueName(probe.queue)) + " delayed" +
         (probe.poison ? ", poison" : "");
}

std::string bytesOf(const std::string &path, const Probe &probe,
                    const rt::EditLaunchList &edit) {
  rt::SessionOptions options;
  options.skipVerification = true;
  options.poison = probe.poison;
  if (probe.milliseconds > 0)
    options.delays = {{probe.queue, probe.milliseconds, probe.seed}};
  auto session = rt::loadSession(path, options, edit);
  Random random(kSeed);
  for (const rt::ValueInfo &state : session->states())
    session->setState(state.name, randomTensor(state, random));
  std::string bytes;
  for (unsigned step = 0; step < kSteps; ++step) {
    rt::TensorMap feeds;
    for (const rt::ValueInfo &input : session->inputs())
      feeds[input.name] = randomTensor(input, random);
    for (const auto &[name, tensor] : session->run(feeds))
      append(bytes, tensor);
  }
  for (const rt::ValueInfo &state : session->states())
    append(bytes, session->state(state.name));
  return bytes;
}

void inParallel(size_t count, const std::function<void(size_t)> &body) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (size_t k = 0; k < std::min<size_t>(kThreads, count); ++k)
    threads.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++)
        body(i);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace offload::mutation
