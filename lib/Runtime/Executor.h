// Issues a program's operations to a device. Holds no policy: every decision is
// in the file.

#ifndef OFFLOAD_LIB_RUNTIME_EXECUTOR_H
#define OFFLOAD_LIB_RUNTIME_EXECUTOR_H

#include "LaunchList.h"
#include "Lifetimes.h"
#include "Shapes.h"
#include "StepTimes.h"
#include "Storage.h"

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Session.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace offload::rt {

/// A kernel's call with the addresses of its operands and outputs.
struct NodeCall {
  KernelCall call;
  std::vector<void *> outputs;
};

/// By node: calls of the compute queue, whose addresses every run of a binding
/// shares. Only tasks of that queue touch them.
using NodeCalls = std::vector<NodeCall>;

/// One run. Operations that are still in their queues share it with the
/// session; feeds' memory is used only until the run has returned.
struct StepRun {
  uint64_t number = 0;
  int64_t startNs = 0; // of the call that runs it
  std::shared_ptr<const Binding> binding;
  FedValues fed;
  std::map<uint32_t, const std::byte *> feeds; // by value
  std::map<uint32_t, Tensor> results;          // by value
  std::map<uint32_t, std::byte *> landing;     // of results that are copied on
  std::map<uint32_t, std::vector<uint8_t>> launched; // staged launch values
  std::shared_ptr<Memory> hostScratch;
  std::shared_ptr<NodeCalls> calls; // the executor's
};

/// Of one run, counted while it was issued.
struct StepCounts {
  int64_t h2dBytes = 0, d2hBytes = 0;
  unsigned copies = 0; // that the device was given
  int64_t peakDeviceBytes = 0, scratchBytes = 0;
  std::vector<int64_t> liveBytes; // at each operation
};

class Executor {
public:
  /// All arguments must outlive the executor, which drains the device when it
  /// goes. `stop`: set by another thread or a signal to end a step with
  /// Interrupted.
  Executor(const Program &program, const LaunchList &list, Storage &storage,
           const Shapes &shapes, Device &device, const SessionOptions &options,
           const std::atomic<bool> &stop);
  ~Executor();

  /// Issues one step and blocks until it may return. Throws what failed; the
  /// device is drained and usable then.
  StepCounts run(const std::shared_ptr<StepRun> &step);

  /// Events that are recorded in a step; only what something waits for.
  unsigned numEvents() const;

  /// Lets the device and `times` note when what happens in each run from now
  /// on; null: nobody does. The device must be empty.
  void keepTimes(StepTimes *times);

private:
  void issueAll(const std::shared_ptr<StepRun> &step, StepCounts &counts);
  Device::SpanCounts mostSpans() const;
  void issue(uint32_t op, const std::shared_ptr<StepRun> &step,
             StepCounts &counts);
  void issuePause(Queue queue);
  void issueBefore(uint32_t node, Queue queue);
  void issueCopy(uint32_t op, const StepRun &step, StepCounts &counts);
  void issueKernel(uint32_t node, const std::shared_ptr<StepRun> &step);
  void runNode(uint32_t node, const StepRun &step) const;
  NodeCall callOf(uint32_t node, const StepRun &step) const;
  void shareCalls(StepRun &step);
  void runCall(uint32_t node, const StepRun &step, NodeCall &made) const;
  void count(uint32_t op, const StepRun &step, StepCounts &counts);
  std::byte *hostAddress(uint32_t value, const StepRun &step) const;
  std::byte *addressOf(uint32_t value, Queue queue, const StepRun &step) const;
  void throwProblems();
  template <typename Body> void guarded(uint32_t node, const Body &body) const;

  const Program &program;
  const LaunchList &list;
  Storage &storage;
  const Shapes &shapes;
  Device &device;
  const SessionOptions &options;
  const std::atomic<bool> &stop;
  std::vector<std::unique_ptr<Event>> events; // by operation; null: not waited
  std::vector<PlaceUse> places;               // by operation
  std::unique_ptr<Memory> problems; // one int32 for each node; see KernelCall
  std::shared_ptr<const Binding> sharedBinding; // of the calls
  std::shared_ptr<NodeCalls> sharedCalls;
  StepTimes *times = nullptr;
  int64_t residentBytes = 0, residentEnd = 0;
  int64_t liveBytes = 0;
  struct Pause {
    Queue queue;
    double maxNs;
    bool isRandom;
    std::mt19937_64 random;
  };
  std::vector<Pause> pauses;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_EXECUTOR_H
