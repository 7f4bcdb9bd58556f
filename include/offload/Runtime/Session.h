// Runs a `.off` file: the library's front door.
//
//   auto session = offload::rt::Session::load("model.off", {});
//   offload::rt::TensorMap outputs = session->run({{"x", x}});
//
// A session belongs to one thread at a time; several sessions may live in one
// process.

#ifndef OFFLOAD_RUNTIME_SESSION_H
#define OFFLOAD_RUNTIME_SESSION_H

#include "offload/OffFormat/Queue.h"
#include "offload/Runtime/Tensor.h"
#include "offload/Runtime/Timeline.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace offload::rt {

struct QueueDelay {
  Queue queue = Queue::Compute;
  double milliseconds = 0; // before each operation of that queue
  /// 0: always `milliseconds`; else uniform between 0 and it, by this seed.
  uint64_t seed = 0;
};

struct SessionOptions {
  std::string device = "host"; // or "cuda:N"
  /// Fill device memory with NaN before it is first written, and the range of
  /// every value after its last use.
  bool poison = false;
  std::vector<QueueDelay> delays;
  /// The same inputs give the same bits in each run. False: on a card, cuDNN
  /// measures its algorithms for each convolution once and takes the fastest
  /// that fits the planned scratch, also one whose bits differ from run to run.
  /// Holds for this session alone; the host has one order for each kernel.
  /// Precision is another matter: float32 is never shortened.
  bool deterministic = true;
  /// Keep the times of queues and operations, of the last `timedRuns` runs (at
  /// least 1): of these timeline() tells, and of the last one statistics(). On
  /// a card each operation then takes a few microseconds more.
  bool keepTimes = false;
  unsigned timedRuns = 1;
  /// Folders that external data may lie in though they are outside of the
  /// file's.
  std::vector<std::string> dataFolders;
  /// Called on the queue's thread before the operation of that name runs; what
  /// it throws is an error of that node. For tests of error paths.
  std::function<void(const std::string &node)> beforeNode;
  /// Run the launch list although its order is not proved. For mutation tests
  /// only: a wrong schedule then gives wrong numbers.
  bool skipVerification = false;
  /// A step that fails leaves every state as it was before. Costs a copy of all
  /// states in host memory, and run() drains the queues at its start and end.
  /// Without it see Session::run.
  bool atomicSteps = false;
};

/// One queue's share of the last run. Times are 0 where none are kept.
struct QueueStatistics {
  uint64_t operations = 0;
  int64_t busyNs = 0;
  /// Time in which this queue waited for another one's operation.
  int64_t stallNs = 0;
};

struct Statistics {
  struct Figures {
    int64_t h2dBytes = 0, d2hBytes = 0; // of one run
    int64_t peakDeviceBytes = 0;        // largest end of a range in use
    int64_t stepNs = 0;                 // 0: not predicted
    /// Host memory that copies start from or end in, feeds and outputs
    /// included; and that with what only the host queue uses. Measured, each
    /// buffer counts in multiples of 512 bytes.
    int64_t pinnedBytes = 0, hostBytes = 0;
    int64_t scratchBytes = 0; // most that one node takes
    /// All that the process takes from the card, by the driver's figures; the
    /// budget of the file. -1: unknown, or no card.
    int64_t cardBytes = -1;
  };
  /// Session::load as a whole, and what takes long in it. Weights are brought
  /// beside libraries and trials, so the parts' sum may exceed the whole.
  struct LoadTimes {
    int64_t totalNs = 0;
    int64_t librariesNs = 0; // handles and workspaces of kernels' libraries
    int64_t trialsNs = 0;    // every kernel once
    int64_t weightsNs = 0;   // constants into memory that copies start from
  };
  LoadTimes load;
  Figures predicted; // of the file, at the bound of dynamic dimensions
  /// Of the last run; peaks (peakDeviceBytes, scratchBytes) since load.
  Figures measured;
  std::array<QueueStatistics, kNumQueues> queues;
  uint64_t runs = 0;
  unsigned waits = 0, droppedWaits = 0; // of the launch list
  /// Nodes whose bits may differ from run to run: none unless
  /// SessionOptions::deterministic is false.
  unsigned nondeterministicNodes = 0;
  std::string warning; // what is slower or less than asked for; "" mostly
};

struct ValueInfo {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;         // sizes, or the bound of a dynamic one
  std::vector<std::string> dimNames; // "" where static
  bool optional = false;             // has a default
};

class Session {
public:
  /// Reads, checks and proves the file, allocates, loads weights, runs every
  /// node once dry. Throws Error.
  static std::unique_ptr<Session> load(const std::string &path,
                                       const SessionOptions &options);
  virtual ~Session() = default;

  /// Inputs that a caller feeds and outputs that a run returns; state is
  /// neither.
  virtual std::vector<ValueInfo> inputs() const = 0;
  virtual std::vector<ValueInfo> outputs() const = 0;

  /// One step. Feeds may be changed or freed once this returns; outputs belong
  /// to the caller. Throws Error: a feed with a wrong name, type, rank or size
  /// (before anything runs), or what failed at a node; the session stays usable
  /// and the next run is right. Queues are not drained at the end, so what
  /// fails after the outputs have landed (an update) is thrown by the next call
  /// of run, state, setState, weight, setWeight or statistics.
  ///
  /// States after an error: each one is whole, never half written. One whose
  /// update had ended holds its next value, every other one the value from
  /// before the step; a caller who needs them to be of one step sets them, or
  /// asks for SessionOptions::atomicSteps.
  virtual TensorMap run(const TensorMap &feeds) = 0;

  /// Ends a run in progress, or the next one, with Interrupted, as an error
  /// does. May be called from any thread and from a signal handler.
  virtual void interrupt() noexcept = 0;

  /// State that lives from run to run, by the name of its input. Both drain the
  /// queues first. Throws Error: unknown name, wrong type or size.
  virtual std::vector<ValueInfo> states() const = 0;
  virtual Tensor state(const std::string &name) = 0;
  virtual void setState(const std::string &name, const Tensor &value) = 0;

  /// Constants that the model computes with, under the names that its source
  /// gives them (an initializer's, or a Constant node's result), however they
  /// are kept here; and states that are trained as weights. Neither sizes and
  /// axes, which are read before a step starts, nor inputs with a default,
  /// which are fed. What import folded from shapes alone is a constant under
  /// the name of the result. `optional` is false.
  virtual std::vector<ValueInfo> weights() const = 0;
  /// What the next run computes with. The tensor belongs to the caller. Drains
  /// the queues first. Throws Error: unknown name.
  virtual Tensor weight(const std::string &name) = 0;
  /// Copies `value`, contiguous, of the weight's type and dimensions; it may be
  /// freed once this returns. What was folded from the weight is made anew, and
  /// copies on the device are refreshed; files are never written to. A state is
  /// set as by setState. Drains the queues first. Throws Error and changes
  /// nothing: unknown name, wrong type or size, a value that would change sizes
  /// that the plan rests on. Only where a card fails within the copy may some
  /// copies be old and others new; setting it again mends that.
  virtual void setWeight(const std::string &name, const Tensor &value) = 0;

  /// Of the runs so far; drains the queues.
  virtual Statistics statistics() = 0;

  /// What the queues did in the last runs; drains them. No runs where
  /// SessionOptions::keepTimes is not set.
  virtual MeasuredTimeline timeline() = 0;
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_SESSION_H
