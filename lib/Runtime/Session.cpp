// The library's front door: loads a file, runs steps, answers questions.
//
// In:  a path and options; feeds by name.
// Out: outputs by name; states; statistics.
// Not: how anything is issued (Executor) or where it lies (Storage).
// How: load reads and proves before it takes memory; then it tries every kernel
//      out while another thread brings the weights. A run checks its feeds
//      before anything is issued.

#include "CardRoom.h"
#include "SessionParts.h"
#include "Staging.h"
#include "States.h"
#include "Weights.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>

namespace offload::rt {

namespace {

using Clock = std::chrono::steady_clock;

int64_t nsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() -
                                                              start)
      .count();
}

/// What the program's kernels call.
KernelLibraries librariesOf(const Program &program) {
  KernelLibraries libraries;
  for (const ProgramNode &node : program.nodes) {
    libraries.convolutions |= node.is(Op::Conv) || node.is(Op::ConvTranspose);
    if (node.is(Op::MatMul) || node.is(Op::Gemm) || node.is(Op::Offload_Linear))
      libraries.products = program.values[node.operands[0]].type;
  }
  return libraries;
}

class FileSession final : public Session, public SessionParts {
public:
  FileSession(const std::string &path, const SessionOptions &given,
              const EditLaunchList &edit)
      : options(given), device(makeDevice(given.device)),
        loaded(Program::read(path, given.dataFolders)),
        list(makeLaunchList(loaded)),
        shapes(loaded, *device, given.deterministic) {
    if (edit) {
      edit(list, loaded);
      list.refresh();
    }
    if (!options.skipVerification)
      proveLaunchList(list, loaded);
    std::unique_ptr<Memory> arena;
    std::unique_ptr<ConstantMemory> constants;
    try {
      checkCardRoom(loaded, options.device, device->cardBefore());
      // Weights are brought while libraries are made and kernels tried out.
      auto brought = std::async(std::launch::async, [this] {
        Clock::time_point start = Clock::now();
        auto memory = std::make_unique<ConstantMemory>(loaded, *device);
        loadTimes.weightsNs = nsSince(start);
        return memory;
      });
      Clock::time_point start = Clock::now();
      arena = prepareDevice();
      loadTimes.librariesNs = nsSince(start);
      start = Clock::now();
      bound = shapes.bindAtBound();
      loadTimes.trialsNs = nsSince(start);
      constants = brought.get();
    } catch (const Error &error) {
      throw Error("'" + path + "': " + error.what());
    }
    storage =
        std::make_unique<Storage>(loaded, *bound, *device, std::move(constants),
                                  std::move(arena), options.poison);
    if (staging)
      shapes.useMemory(storage->arena() + storage->carriedBytes(),
                       storage->arenaBytes() - storage->carriedBytes(),
                       storage->arena());
    held = std::make_unique<States>(loaded, *storage, *device);
    weighed = std::make_unique<Weights>(loaded, *bound, shapes, *storage, *held,
                                        *device);
    executor = std::make_unique<Executor>(loaded, list, *storage, shapes,
                                          *device, options, stop);
    if (options.keepTimes) {
      times.emplace(std::max(options.timedRuns, 1u), list.nodes.size());
      device->drain();
      executor->keepTimes(&*times);
    }
    findLaunchReaders();
    loadTimes.totalNs = nsSince(loadStart);
  }

  std::vector<ValueInfo> inputs() const override {
    return select(loaded.inputs, &ProgramValue::isFeed);
  }
  std::vector<ValueInfo> outputs() const override {
    return select(loaded.outputs, &ProgramValue::isResult);
  }
  TensorMap run(const TensorMap &feeds) override;
  void interrupt() noexcept override { stop = true; }

  std::vector<ValueInfo> states() const override { return held->list(); }
  Tensor state(const std::string &name) override {
    settle();
    return held->read(name);
  }
  void setState(const std::string &name, const Tensor &value) override {
    settle();
    held->write(name, value);
  }
  std::vector<ValueInfo> weights() const override { return weighed->list(); }
  Tensor weight(const std::string &name) override {
    settle();
    return weighed->read(name);
  }
  void setWeight(const std::string &name, const Tensor &value) override {
    settle();
    weighed->write(name, value);
  }
  Statistics statistics() override;
  MeasuredTimeline timeline() override;

  const Program &program() const override { return loaded; }
  const LaunchList &launchList() const override { return list; }
  const StepCounts &lastCounts() const override { return counts; }
  unsigned numProfiles() const override { return shapes.numProfiles(); }

private:
  std::vector<ValueInfo> select(const std::vector<uint32_t> &numbers,
                                bool (ProgramValue::*isWanted)() const) const {
    std::vector<ValueInfo> infos;
    for (uint32_t number : numbers)
      if ((loaded.values[number].*isWanted)())
        infos.push_back(describeValue(loaded.values[number]));
    return infos;
  }
  std::unique_ptr<Memory> prepareDevice();
  void findLaunchReaders();
  void settle();
  void stage(StepRun &step, const TensorMap &feeds);
  FeedShapes readFeeds(const TensorMap &feeds) const;
  std::shared_ptr<StepRun> prepare(const TensorMap &feeds,
                                   const FeedShapes &shapesOfFeeds);
  void checkBuffers(const Binding &binding) const;
  void runAtomically(const std::shared_ptr<StepRun> &step);
  TensorMap collect(const StepRun &step, const TensorMap &feeds);
  Tensor outputOf(uint32_t number, const StepRun &step,
                  const TensorMap &feeds) const;
  Statistics::Figures predict() const;
  Statistics::Figures measure() const;

  const Clock::time_point loadStart = Clock::now(); // first: before all else
  Statistics::LoadTimes loadTimes;
  SessionOptions options;
  std::unique_ptr<Device> device;
  Program loaded;
  LaunchList list;
  Shapes shapes;
  std::shared_ptr<const Binding> bound;
  std::unique_ptr<Storage> storage;
  std::unique_ptr<States> held;
  std::unique_ptr<Weights> weighed;
  std::vector<uint32_t> launchData; // launch values that are read as data
  std::shared_ptr<Memory> hostScratch;
  std::optional<Staging> staging; // where copies need pinned memory
  std::atomic<bool> stop = false;
  StepCounts counts;
  int64_t stepNs = 0, runBytes = 0;
  int64_t peakBytes = 0, scratchBytes = 0; // since load
  uint64_t runs = 0, started = 0;          // that returned; that began
  std::optional<StepTimes> times;
  std::unique_ptr<Executor> executor; // last: drains before the rest goes
};

/// On a card: libraries first, then the arena, so that dry runs take no memory
/// besides. Null on the host, whose dry runs need none.
std::unique_ptr<Memory> FileSession::prepareDevice() {
  if (!device->copiesNeedPinned())
    return nullptr;
  staging.emplace(*device);
  device->prepareKernels(librariesOf(loaded));
  std::unique_ptr<Memory> arena = device->allocateDevice(loaded.peakBytes);
  shapes.useMemory(arena->data(), arena->sizeBytes(), nullptr);
  return arena;
}

void FileSession::findLaunchReaders() {
  for (uint32_t i = 0; i < loaded.values.size(); ++i) {
    if (loaded.values[i].home != Home::Launch)
      continue;
    for (uint32_t reader : loaded.values[i].readers) {
      const ProgramNode &node = loaded.nodes[reader];
      bool isData = node.isCopy();
      for (unsigned k = 0;
           node.queue == Queue::Host && !isData && k < node.operands.size();
           ++k)
        isData = node.operands[k] == i && !node.isLaunchOperand(k);
      if (isData) {
        launchData.push_back(i);
        break;
      }
    }
  }
}

/// Empties the queues. What failed after the last run had returned is thrown
/// now.
void FileSession::settle() {
  device->drain();
  if (std::exception_ptr error = device->error()) {
    device->recover();
    std::rethrow_exception(error);
  }
}

FeedShapes FileSession::readFeeds(const TensorMap &feeds) const {
  FeedShapes read;
  read.dims = checkFeeds(loaded, feeds);
  read.values.resize(loaded.inputs.size());
  for (size_t i = 0; i < loaded.inputs.size(); ++i) {
    uint32_t number = loaded.inputs[i];
    const ProgramValue &value = loaded.values[number];
    if (!shapes.readsValueOf(number))
      continue;
    if (value.home == Home::Launch && value.isState()) {
      read.values[i] = held->launchValue(number);
      continue;
    }
    auto fed = feeds.find(value.name);
    const void *data = fed == feeds.end()
                           ? static_cast<const void *>(value.contents.data())
                           : fed->second.bytes.get();
    read.values[i] = hostValueOf(value.type, read.dims[i], data);
  }
  return read;
}

/// Host buffers are sized at the bound; what has none is sized by its copies.
void FileSession::checkBuffers(const Binding &binding) const {
  for (uint32_t i = 0; i < loaded.values.size(); ++i) {
    const ProgramValue &value = loaded.values[i];
    if (value.home != Home::Host || value.maker == kNone || value.isResult() ||
        !storage->hostAddress(i))
      continue;
    if (binding.values[i].bytes > storage->hostCapacity(i))
      throw Error(loaded.describe(value.maker) + " makes '" + value.name +
                  "' of " + std::to_string(binding.values[i].bytes) +
                  " bytes, and its buffer has " +
                  std::to_string(storage->hostCapacity(i)));
  }
}

std::shared_ptr<StepRun> FileSession::prepare(const TensorMap &feeds,
                                              const FeedShapes &read) {
  auto step = std::make_shared<StepRun>();
  step->binding = shapes.bind(read);
  step->fed = shapes.evaluateFed(*step->binding, read);
  checkBuffers(*step->binding);
  runBytes = 0;
  for (uint32_t number : loaded.inputs) {
    const ProgramValue &value = loaded.values[number];
    auto fed = feeds.find(value.name);
    if (!value.isFeed())
      continue;
    if (fed != feeds.end()) {
      step->feeds[number] = fed->second.bytes.get();
      runBytes += fed->second.sizeBytes();
    } else if (!storage->hostAddress(number)) {
      step->feeds[number] = value.contents.data();
      runBytes += static_cast<int64_t>(value.contents.size());
    }
  }
  for (uint32_t number : loaded.outputs) {
    const ProgramValue &value = loaded.values[number];
    if (!value.isResult() || value.maker == kNone || value.home != Home::Host)
      continue;
    const BoundValue &shape = step->binding->values[number];
    step->results[number] = Tensor::allocate(shape.type, shape.dims);
    runBytes += shape.bytes;
  }
  for (uint32_t number : launchData) {
    step->launched[number] =
        shapes.launchValue(*step->binding, step->fed, number)->toBytes();
    runBytes += static_cast<int64_t>(step->launched[number].size());
  }
  int64_t scratch = step->binding->hostScratchBytes;
  if (!hostScratch || hostScratch->sizeBytes() < scratch)
    hostScratch = device->allocateHost(scratch, false);
  step->hostScratch = hostScratch;
  if (staging)
    stage(*step, feeds);
  return step;
}

/// Lets all that belongs to the caller or to this run travel through pinned
/// memory, so that no copy blocks the launching thread.
void FileSession::stage(StepRun &step, const TensorMap &feeds) {
  if (!staging->holds(runBytes, loaded.values.size()))
    settle(); // the old memory goes
  staging->begin(runBytes, loaded.values.size());
  for (auto &[number, data] : step.feeds) {
    auto fed = feeds.find(loaded.values[number].name);
    int64_t bytes =
        fed == feeds.end()
            ? static_cast<int64_t>(loaded.values[number].contents.size())
            : fed->second.sizeBytes();
    if (!device->isPinned(data, bytes))
      data = staging->put(data, bytes);
  }
  for (auto &[number, bytes] : step.launched)
    step.feeds[number] =
        staging->put(reinterpret_cast<const std::byte *>(bytes.data()),
                     static_cast<int64_t>(bytes.size()));
  for (auto &[number, tensor] : step.results)
    step.landing[number] = staging->room(tensor.sizeBytes());
}

void FileSession::runAtomically(const std::shared_ptr<StepRun> &step) {
  settle();
  std::map<std::string, Tensor> before = held->readAll();
  try {
    counts = executor->run(step);
    settle();
  } catch (...) {
    held->writeAll(before);
    throw;
  }
}

TensorMap FileSession::run(const TensorMap &feeds) {
  if (device->error())
    settle();
  int64_t startNs = steadyNs();
  struct Clear {
    std::atomic<bool> &flag;
    ~Clear() { flag = false; }
  } clear{stop};
  std::shared_ptr<StepRun> step = prepare(feeds, readFeeds(feeds));
  step->number = ++started;
  step->startNs = startNs;
  if (options.atomicSteps)
    runAtomically(step);
  else
    counts = executor->run(step);
  for (uint32_t input : loaded.inputs) {
    const ProgramValue &value = loaded.values[input];
    if (value.isState() && value.home == Home::Launch)
      held->setLaunchValue(input,
                           std::make_shared<HostValue>(*shapes.launchValue(
                               *step->binding, step->fed, value.next)));
  }
  TensorMap outputs = collect(*step, feeds);
  stepNs = steadyNs() - startNs;
  peakBytes = std::max(peakBytes, counts.peakDeviceBytes);
  scratchBytes = std::max(scratchBytes, counts.scratchBytes);
  ++runs;
  return outputs;
}

Tensor FileSession::outputOf(uint32_t number, const StepRun &step,
                             const TensorMap &feeds) const {
  if (auto made = step.results.find(number); made != step.results.end()) {
    if (auto landed = step.landing.find(number);
        landed != step.landing.end() && made->second.sizeBytes())
      std::memcpy(made->second.bytes.get(), landed->second,
                  static_cast<size_t>(made->second.sizeBytes()));
    return made->second;
  }
  const ProgramValue &value = loaded.values[number];
  const BoundValue &shape = step.binding->values[number];
  Tensor tensor = Tensor::allocate(shape.type, shape.dims);
  auto bytes = static_cast<size_t>(tensor.sizeBytes());
  if (value.home == Home::Launch) {
    std::vector<uint8_t> held =
        shapes.launchValue(*step.binding, step.fed, number)->toBytes();
    std::memcpy(tensor.bytes.get(), held.data(), bytes);
    return tensor;
  }
  // An input or a constant that the model passes through.
  auto fed = feeds.find(value.name);
  if (bytes)
    std::memcpy(tensor.bytes.get(),
                value.isConstant()   ? storage->contents(number)
                : fed == feeds.end() ? value.contents.data()
                                     : fed->second.bytes.get(),
                bytes);
  return tensor;
}

TensorMap FileSession::collect(const StepRun &step, const TensorMap &feeds) {
  TensorMap outputs;
  for (uint32_t number : loaded.outputs)
    if (loaded.values[number].isResult())
      outputs[loaded.values[number].name] = outputOf(number, step, feeds);
  return outputs;
}

Statistics::Figures FileSession::predict() const {
  Statistics::Figures figures;
  figures.peakDeviceBytes =
      loaded.plannedPeakBytes >= 0 ? loaded.plannedPeakBytes : loaded.peakBytes;
  figures.stepNs = loaded.predictedStepNs;
  figures.cardBytes = loaded.deviceMemoryBytes;
  std::vector<bool> isCounted(loaded.values.size(), false);
  auto addHost = [&](uint32_t value, int64_t bytes, int64_t &sum) {
    uint32_t root = loaded.values[value].root;
    uint32_t owner = loaded.values[root].stateOf == kNone
                         ? root
                         : loaded.values[root].stateOf;
    if (!isCounted[owner])
      sum += bytes;
    isCounted[owner] = true;
  };
  for (const ProgramNode &node : loaded.nodes) {
    bool isStage = node.is(Op::Offload_Stage);
    for (unsigned i = 0; node.isCopy() && i < node.numParts(); ++i) {
      uint32_t onDevice = isStage ? node.outputs[i] : node.operands[i];
      uint32_t onHost = isStage ? node.operands[i] : node.outputs[i];
      int64_t bytes = loaded.values[loaded.values[onDevice].root].plannedBytes;
      (isStage ? figures.h2dBytes : figures.d2hBytes) += bytes;
      addHost(onHost, bytes, figures.pinnedBytes);
    }
    if (node.queue == Queue::Compute)
      figures.scratchBytes = std::max(figures.scratchBytes, node.scratchBytes);
  }
  int64_t unpinned = 0;
  for (const ProgramNode &node : loaded.nodes) {
    if (node.queue != Queue::Host)
      continue;
    for (unsigned i = 0; i < node.operands.size(); ++i)
      if (node.operands[i] != kNone && !node.isLaunchOperand(i))
        addHost(node.operands[i], bound->values[node.operands[i]].bytes,
                unpinned);
    for (uint32_t output : node.outputs)
      if (output != kNone)
        addHost(output, bound->values[output].bytes, unpinned);
  }
  figures.hostBytes = figures.pinnedBytes + unpinned;
  return figures;
}

Statistics::Figures FileSession::measure() const {
  Statistics::Figures figures;
  figures.h2dBytes = counts.h2dBytes;
  figures.d2hBytes = counts.d2hBytes;
  figures.peakDeviceBytes = peakBytes;
  figures.stepNs = stepNs;
  figures.pinnedBytes = storage->pinnedBytes() + runBytes;
  figures.hostBytes =
      figures.pinnedBytes + storage->plainBytes() + storage->mappedBytes();
  figures.scratchBytes = scratchBytes;
  figures.cardBytes = device->takenBytes();
  return figures;
}

Statistics FileSession::statistics() {
  settle();
  Statistics result;
  result.load = loadTimes;
  result.predicted = predict();
  result.measured = measure();
  for (const TimelineOp &op : list.timeline.ops)
    ++result.queues[static_cast<unsigned>(op.queue)].operations;
  std::vector<std::vector<Span>> steps = device->spans();
  if (!steps.empty())
    for (const Span &span : steps.back()) {
      QueueStatistics &queue = result.queues[static_cast<unsigned>(span.queue)];
      bool isWait = span.kind == Span::Kind::Wait;
      (isWait ? queue.stallNs : queue.busyNs) += span.endNs - span.startNs;
    }
  result.runs = runs;
  result.waits = list.waits;
  result.droppedWaits = list.droppedWaits;
  result.warning = device->warning();
  bool isFree = !options.deterministic && options.device != "host";
  for (const ProgramNode &node : loaded.nodes)
    result.nondeterministicNodes +=
        isFree && node.queue == Queue::Compute && choosesAlgorithm(node.op->id);
  return result;
}

MeasuredTimeline FileSession::timeline() {
  settle();
  MeasuredTimeline told{loaded.path, options.device, {}};
  if (times)
    told.runs = times->tell(loaded, list, device->spans());
  return told;
}

} // namespace

std::unique_ptr<Session> loadSession(const std::string &path,
                                     const SessionOptions &options,
                                     const EditLaunchList &edit) {
  return std::make_unique<FileSession>(path, options, edit);
}

std::unique_ptr<Session> Session::load(const std::string &path,
                                       const SessionOptions &options) {
  return loadSession(path, options, nullptr);
}

} // namespace offload::rt
