// The least that loading weights can be: a file's bytes copied into exactly
// allocated host memory and registered, both by many threads.
//
//   load-baseline FILE DEVICE BYTES once|shares
//
// In:  a file, of which the first BYTES are taken; "host" leaves registering
//      out.
// Out: one line of JSON with nanoseconds: the context (apart, as it belongs to
//      the process), copying, registering, and both. Exit code 1 and one line
//      on standard error where anything fails.
// How: pages are given while they are first written to, by the threads that
//      copy. "once" registers all of it in one call when the copies are done;
//      with "shares" each thread registers its own part behind its copy.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

int64_t nsBetween(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start)
      .count();
}

void check(cudaError_t code, const char *what) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " +
                             cudaGetErrorString(code));
}

const char *mapFile(const std::string &path, size_t bytes) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  bool isEnough = file >= 0 && fstat(file, &status) == 0 &&
                  static_cast<size_t>(status.st_size) >= bytes;
  void *pages = isEnough ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0)
                         : MAP_FAILED;
  if (file >= 0)
    close(file);
  if (pages == MAP_FAILED)
    throw std::runtime_error("cannot read " + std::to_string(bytes) +
                             " bytes of '" + path + "'");
  return static_cast<const char *>(pages);
}

/// Of whole huge pages, so that shares of it can be registered one by one.
char *allocate(size_t bytes) {
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw std::runtime_error("no " + std::to_string(bytes) +
                             " bytes of memory");
  madvise(pages, bytes, MADV_HUGEPAGE);
  return static_cast<char *>(pages);
}

void registerRange(char *start, size_t bytes) {
  if (bytes)
    check(cudaHostRegister(start, bytes, cudaHostRegisterPortable),
          "registering");
}

size_t countThreads() {
  return std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
}

/// Calls `body(first byte, bytes)` for equal shares, each on its own thread.
template <typename Body> void inShares(size_t bytes, const Body &body) {
  constexpr size_t kUnit = size_t(2) << 20;
  size_t count = countThreads();
  size_t each = (bytes / count + kUnit) / kUnit * kUnit;
  std::atomic<bool> failed = false;
  std::vector<std::thread> threads;
  for (size_t at = 0; at < bytes; at += each)
    threads.emplace_back([&, at] {
      try {
        body(at, std::min(each, bytes - at));
      } catch (const std::exception &error) {
        std::cerr << "load-baseline: error: " << error.what() << "\n";
        failed = true;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  if (failed)
    throw std::runtime_error("a thread failed");
}

void measure(const std::string &path, bool onCard, size_t bytes, bool shares) {
  Clock::time_point start = Clock::now();
  if (onCard)
    check(cudaFree(nullptr), "making a context");
  int64_t contextNs = nsBetween(start, Clock::now());
  start = Clock::now();
  const char *from = mapFile(path, bytes);
  char *to = allocate(bytes);
  inShares(bytes, [&](size_t at, size_t part) {
    std::memcpy(to + at, from + at, part);
    if (onCard && shares)
      registerRange(to + at, part);
  });
  Clock::time_point copied = Clock::now();
  if (onCard && !shares)
    registerRange(to, bytes);
  Clock::time_point end = Clock::now();
  std::cout << "{\"context_ns\": " << contextNs
            << ", \"copy_ns\": " << nsBetween(start, copied)
            << ", \"register_ns\": " << nsBetween(copied, end)
            << ", \"total_ns\": " << nsBetween(start, end) << "}" << std::endl;
}

} // namespace

int main(int argc, char **argv) {
  try {
    std::string mode = argc == 5 ? argv[4] : "";
    if (mode != "once" && mode != "shares")
      throw std::runtime_error(
          "usage: load-baseline FILE DEVICE BYTES once|shares");
    std::string device = argv[2];
    bool onCard = device != "host";
    if (onCard && device.rfind("cuda:", 0) == 0)
      check(cudaSetDevice(std::stoi(device.substr(5))), "choosing the card");
    measure(argv[1], onCard, std::stoull(argv[3]), mode == "shares");
    return 0;
  } catch (const std::exception &error) {
    std::cerr << "load-baseline: error: " << error.what() << "\n";
    return 1;
  }
}
