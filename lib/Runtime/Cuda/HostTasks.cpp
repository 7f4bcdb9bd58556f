// Tasks of the host queue: closures that run in the order of a CUDA stream.
//
// In:  closures, and the stream they belong to.
// Out: each run once, after all that the stream was given before it.
// Not: errors of the closures (the device catches them).
// How: a host function in the stream hands the task to this object's thread and
//      waits for it. A task stays owned here until it is done, since the driver
//      drops host functions silently once its context is lost.

#include "HostTasks.h"

namespace offload::rt {

HostTasks::HostTasks() : thread([this] { serve(); }) {}

HostTasks::~HostTasks() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  arrived.notify_one();
  thread.join();
}

cudaError_t HostTasks::append(cudaStream_t stream, std::function<void()> body) {
  Task *task = nullptr;
  {
    std::lock_guard lock(mutex);
    dropDone();
    tasks.push_back(std::make_unique<Task>(Task{this, std::move(body)}));
    task = tasks.back().get();
  }
  return cudaLaunchHostFunc(stream, &HostTasks::handOver, task);
}

void HostTasks::handOver(void *given) {
  auto *task = static_cast<Task *>(given);
  HostTasks &self = *task->owner;
  std::unique_lock lock(self.mutex);
  self.finished.wait(lock, [&] { return !self.current; });
  self.current = task;
  self.arrived.notify_one();
  self.finished.wait(lock, [&] { return self.current != task; });
  task->isDone = true;
}

void HostTasks::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    arrived.wait(lock, [this] { return closing || current; });
    if (!current)
      return; // closing
    Task *task = current;
    lock.unlock();
    task->body();
    task->body = nullptr; // what it holds goes before the queue is empty
    lock.lock();
    current = nullptr;
    finished.notify_all();
  }
}

void HostTasks::dropDone() {
  while (!tasks.empty() && tasks.front()->isDone)
    tasks.pop_front();
}

} // namespace offload::rt
