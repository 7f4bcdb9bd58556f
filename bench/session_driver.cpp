// Holds one session and runs it when asked, so that its rounds can alternate
// with those of another process.
//
//   session-driver FILE.off DEVICE FEEDS.npz OUTPUT.npz [times]
//
// In:  a .off file and its feeds; then lines on standard input: "run N",
//      "stats", "timeline" and "again".
// Out: one line of JSON when the first result is there: the nanoseconds of
//      making the context, loading, and the first run, whose outputs are in
//      OUTPUT.npz. Then one line for each request: the nanoseconds of each of N
//      runs; statistics as offload-run prints them; where the last run's time
//      went, summed by operator; the same as at first of a new session, for
//      which all libraries are warm. Ends with the input. Exit code 1 and one
//      line on standard error where anything fails.
// How: feeds lie in registered memory, as a caller who cares would have them.
//      "times" keeps the times of queues, which costs a little in each
//      operation; without it only whole runs are timed.

#include "Report.h"

#include "offload/Runtime/Npy.h"
#include "offload/Runtime/Session.h"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace offload;
using Clock = std::chrono::steady_clock;

int64_t nsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() -
                                                              start)
      .count();
}

bool isOnCard(const std::string &device) {
  return device.rfind("cuda:", 0) == 0;
}

/// The context belongs to the process, not to a load; so it is timed apart.
int64_t makeContext(const std::string &device) {
  Clock::time_point start = Clock::now();
  if (isOnCard(device)) {
    cudaError_t code = cudaSetDevice(std::stoi(device.substr(5)));
    if (code == cudaSuccess)
      code = cudaFree(nullptr);
    if (code != cudaSuccess)
      throw rt::Error(device + ": " + cudaGetErrorString(code));
  }
  return nsSince(start);
}

/// The same tensor in whole pages that are registered; they stay until the
/// process ends.
rt::Tensor registered(const rt::Tensor &tensor) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto bytes = static_cast<size_t>(tensor.sizeBytes());
  size_t whole = std::max((bytes + page - 1) / page, size_t(1)) * page;
  void *pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw rt::Error("no " + std::to_string(whole) + " bytes for a feed");
  std::memcpy(pages, tensor.bytes.get(), bytes);
  cudaError_t code = cudaHostRegister(pages, whole, cudaHostRegisterPortable);
  if (code != cudaSuccess)
    throw rt::Error(std::string("registering a feed: ") +
                    cudaGetErrorString(code));
  rt::Tensor result = tensor;
  result.bytes = std::shared_ptr<std::byte[]>(static_cast<std::byte *>(pages),
                                              [](std::byte *) {});
  return result;
}

void runRounds(rt::Session &session, const rt::TensorMap &feeds, int count) {
  for (int i = 0; i < count; ++i) {
    Clock::time_point start = Clock::now();
    rt::TensorMap outputs = session.run(feeds);
    std::cout << (i ? " " : "") << nsSince(start);
  }
  std::cout << std::endl;
}

void printStatistics(rt::Session &session) {
  std::string text = run::statisticsJson(session.statistics(), 0);
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cout << text << std::endl;
}

/// Times of a run from its start on, and of each operator the sum.
nlohmann::ordered_json summarize(const rt::TimedRun &run) {
  struct Sum {
    int64_t count = 0, busyNs = 0;
  };
  std::map<std::pair<Queue, std::string>, Sum> sums;
  std::array<int64_t, kNumQueues> ends{};
  for (const rt::TimedOperation &operation : run.operations) {
    if (operation.startNs < 0)
      continue;
    Sum &sum = sums[{operation.queue, operation.op}];
    ++sum.count;
    sum.busyNs += operation.endNs - operation.startNs;
    int64_t &end = ends[static_cast<unsigned>(operation.queue)];
    end = std::max(end, operation.endNs - run.startNs);
  }
  nlohmann::ordered_json json;
  json["launched_ns"] = run.launchedNs - run.startNs;
  json["landed_ns"] = run.landedNs - run.startNs;
  for (unsigned q = 0; q < kNumQueues; ++q)
    json["end_ns"][std::string(queueName(static_cast<Queue>(q)))] = ends[q];
  for (const auto &[key, sum] : sums)
    json["operators"].push_back({{"queue", std::string(queueName(key.first))},
                                 {"op", key.second},
                                 {"count", sum.count},
                                 {"busy_ns", sum.busyNs}});
  return json;
}

void printTimeline(rt::Session &session) {
  rt::MeasuredTimeline timeline = session.timeline();
  if (timeline.runs.empty())
    throw rt::Error("no times are kept: start with 'times'");
  std::cout << summarize(timeline.runs.back()).dump() << std::endl;
}

class Driver {
public:
  explicit Driver(char **argv, bool times)
      : file(argv[1]), output(argv[4]), feeds(rt::readNpz(argv[3])) {
    options.device = argv[2];
    options.keepTimes = times;
    contextNs = makeContext(options.device);
    if (isOnCard(options.device))
      for (auto &[name, tensor] : feeds)
        tensor = registered(tensor);
  }

  void load() {
    session.reset();
    Clock::time_point start = Clock::now();
    session = rt::Session::load(file, options);
    int64_t loadNs = nsSince(start);
    start = Clock::now();
    rt::TensorMap outputs = session->run(feeds);
    int64_t firstRunNs = nsSince(start);
    rt::writeNpz(output, outputs);
    std::cout << "{\"context_ns\": " << contextNs << ", \"load_ns\": " << loadNs
              << ", \"first_run_ns\": " << firstRunNs << "}" << std::endl;
  }

  void serve() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string request;
      int count = 0;
      words >> request;
      if (request == "run" && words >> count && count > 0)
        runRounds(*session, feeds, count);
      else if (request == "stats")
        printStatistics(*session);
      else if (request == "timeline")
        printTimeline(*session);
      else if (request == "again")
        load();
      else
        throw rt::Error("requests are 'run N', 'stats', 'timeline' and "
                        "'again', not '" +
                        line + "'");
    }
  }

private:
  std::string file, output;
  rt::SessionOptions options;
  rt::TensorMap feeds;
  int64_t contextNs = 0;
  std::unique_ptr<rt::Session> session;
};

int drive(int argc, char **argv) {
  bool times = argc == 6 && argv[5] == std::string("times");
  if (argc != 5 && !times)
    throw rt::Error("usage: session-driver FILE.off DEVICE FEEDS.npz "
                    "OUTPUT.npz [times]");
  Driver driver(argv, times);
  driver.load();
  driver.serve();
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return drive(argc, argv);
  } catch (const std::exception &error) {
    std::cerr << "session-driver: error: " << error.what() << "\n";
    return 1;
  }
}
