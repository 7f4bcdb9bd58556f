// Tasks of the host queue: closures that run in the order of a CUDA stream.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_HOSTTASKS_H
#define OFFLOAD_LIB_RUNTIME_CUDA_HOSTTASKS_H

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace offload::rt {

/// A thread that runs what the driver's callback thread hands over, so that
/// kernels find the same thread (and its OpenMP team) each time.
class HostTasks {
public:
  HostTasks();
  /// The stream must be empty, or its context lost.
  ~HostTasks();

  /// Appends `body` to the stream; it must not throw nor call CUDA.
  cudaError_t append(cudaStream_t stream, std::function<void()> body);

private:
  struct Task {
    HostTasks *owner;
    std::function<void()> body;
    bool isDone = false;
  };
  static void handOver(void *task);
  void serve();
  void dropDone();

  std::mutex mutex;
  std::condition_variable arrived, finished;
  std::deque<std::unique_ptr<Task>> tasks; // issued, not yet dropped
  Task *current = nullptr;                 // handed over, not yet done
  bool closing = false;
  std::thread thread; // last: it uses all of the above
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_HOSTTASKS_H
