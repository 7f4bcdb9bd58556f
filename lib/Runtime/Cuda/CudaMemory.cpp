// Memory of a CUDA device, and host memory that it copies from at full speed.
//
// In:  sizes.
// Out: memory that is freed with its object.
// How: pinned memory is allocated exactly, filled by several threads and
//      registered by one of them behind the others, which takes less than half
//      of the time that pinned allocation does. What is free on the card before
//      this process has a context there only NVIDIA's management library knows;
//      it comes with the driver and is opened by name, so nothing links it.

#include "CudaMemory.h"

#include "CudaCheck.h"

#include "offload/Runtime/ParallelRanges.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace offload::rt {

namespace {

class CardMemory final : public Memory {
public:
  CardMemory(int index, int64_t bytes) : index(index) {
    numBytes = bytes;
    if (bytes == 0)
      return;
    DeviceGuard guard(index);
    void *data = nullptr;
    if (cudaMalloc(&data, static_cast<size_t>(bytes)) != cudaSuccess) {
      cudaGetLastError();
      throw Error("cuda:" + std::to_string(index) + ": no " +
                  std::to_string(bytes) + " bytes of device memory: " +
                  std::to_string(freeBytesOfCard(index, true)) + " are free");
    }
    start = static_cast<std::byte *>(data);
  }
  ~CardMemory() override {
    if (start)
      releaseOn(index, [this] { cudaFree(start); });
  }

private:
  int index;
};

/// Writes one byte of each page, so that the system gives all pages now.
void touch(std::byte *start, int64_t first, int64_t last) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  for (int64_t at = first; at < last; at += page)
    start[at] = std::byte(0);
}

/// A huge page, where the system has them.
constexpr int64_t kHugePageBytes = int64_t(2) << 20;

/// Page by page: what is read into pages that are not there yet faults in the
/// kernel, where Linux locks all mappings of the process to make them; a fault
/// of its own locks one. Whoever maps memory meanwhile would wait, as the
/// driver does to load kernels.
void fillTouched(const HostContents &contents, std::byte *start, int64_t first,
                 int64_t last) {
  for (int64_t at = first; at < last; at += kHugePageBytes) {
    int64_t end = std::min(at + kHugePageBytes, last);
    touch(start, at, end);
    if (contents.fill)
      contents.fill(start, at, end);
  }
}

/// Bytes that are registered in one call: all copies lie in one piece each.
struct Piece {
  int64_t first, last;
  std::atomic<int64_t> rangesLeft = 0; // that nobody has filled yet
};

/// Pieces between cuts at pages. Small ones gain nothing, a driver call each
/// costs.
std::deque<Piece> cutInPieces(int64_t bytes, const std::vector<int64_t> &cuts) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  std::deque<Piece> pieces;
  int64_t first = 0;
  for (int64_t cut : cuts)
    if (cut % page == 0 && cut - first >= kRangeBytes &&
        bytes - cut >= kRangeBytes) {
      pieces.emplace_back(first, cut);
      first = cut;
    }
  pieces.emplace_back(first, bytes);
  return pieces;
}

class HostPages final : public Memory {
public:
  HostPages(int index, int64_t bytes, bool pinned, const HostContents &contents,
            std::string &warning)
      : index(index) {
    numBytes = bytes;
    if (bytes == 0)
      return;
    void *pages =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
      throw Error(
          "no " + std::to_string(bytes) + " bytes of host memory: " +
          std::to_string(sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE)) +
          " are free");
    madvise(pages, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    start = static_cast<std::byte *>(pages);
    if (contents.fill || pinned)
      bring(pinned, contents, warning);
  }
  ~HostPages() override {
    if (!registered.empty())
      releaseOn(index, [this] {
        for (int64_t piece : registered)
          cudaHostUnregister(start + piece);
      });
    if (start)
      munmap(start, static_cast<size_t>(numBytes));
  }

private:
  void bring(bool pinned, const HostContents &contents, std::string &warning);
  void pinBehindFillers(const Piece &filled);
  void pin(const Piece &piece);

  int index;
  std::mutex mutex;                  // what follows, while threads fill
  std::deque<const Piece *> waiting; // filled, not registered
  bool isPinning = false;            // one thread is
  std::string failed;
  std::vector<int64_t> registered; // first bytes of pieces
};

/// Who fills the last range of a piece registers it, while others still fill.
void HostPages::bring(bool pinned, const HostContents &contents,
                      std::string &warning) {
  DeviceGuard guard(index); // this thread registers pieces, too
  struct Range {
    int64_t first, last;
    Piece *piece;
  };
  std::deque<Piece> pieces = cutInPieces(numBytes, contents.cuts);
  std::vector<Range> ranges;
  for (Piece &piece : pieces)
    for (int64_t at = piece.first; at < piece.last; at += kRangeBytes) {
      ranges.push_back({at, std::min(at + kRangeBytes, piece.last), &piece});
      ++piece.rangesLeft;
    }
  forItems(static_cast<int64_t>(ranges.size()), [&](int64_t i) {
    const Range &range = ranges[static_cast<size_t>(i)];
    fillTouched(contents, start, range.first, range.last);
    if (--range.piece->rangesLeft == 0 && pinned)
      pinBehindFillers(*range.piece);
  });
  if (!failed.empty())
    warning = failed;
}

/// The driver does one call at a time, and makes whoever loads kernels beside
/// wait for all that queue up. So one thread registers for all.
void HostPages::pinBehindFillers(const Piece &filled) {
  std::unique_lock lock(mutex);
  waiting.push_back(&filled);
  if (isPinning)
    return;
  isPinning = true;
  while (!waiting.empty()) {
    const Piece *next = waiting.front();
    waiting.pop_front();
    lock.unlock();
    pin(*next);
    lock.lock();
  }
  isPinning = false;
}

void HostPages::pin(const Piece &piece) {
  auto bytes = static_cast<size_t>(piece.last - piece.first);
  // Of a new thread, or one that bring() guards; nothing may throw here.
  cudaError_t code = cudaSetDevice(index);
  if (code == cudaSuccess)
    code =
        cudaHostRegister(start + piece.first, bytes, cudaHostRegisterPortable);
  std::lock_guard lock(mutex);
  if (code == cudaSuccess) {
    registered.push_back(piece.first);
    return;
  }
  cudaGetLastError();
  failed = "cuda:" + std::to_string(index) + ": " + std::to_string(bytes) +
           " bytes of host memory could not be registered (" +
           cudaGetErrorString(code) + "); copies from there are slow";
}

class MappedMemory final : public Memory {
public:
  MappedMemory(int index, int64_t bytes) : index(index) {
    numBytes = bytes;
    if (bytes == 0)
      return;
    DeviceGuard guard(index);
    void *data = nullptr;
    checkCuda(cudaHostAlloc(&data, static_cast<size_t>(bytes),
                            cudaHostAllocMapped | cudaHostAllocPortable),
              index, "allocating mapped memory");
    start = static_cast<std::byte *>(data);
    std::memset(start, 0, static_cast<size_t>(bytes));
  }
  ~MappedMemory() override {
    if (start)
      releaseOn(index, [this] { cudaFreeHost(start); });
  }

private:
  int index;
};

/// The part of NVIDIA's management library that is used here.
class Management {
public:
  Management() : library(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    if (!library)
      return;
    auto find = [this](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          dlsym(library, name));
      return function != nullptr;
    };
    int (*init)() = nullptr;
    isUsable = find(init, "nvmlInit_v2") &&
               find(handleByBus, "nvmlDeviceGetHandleByPciBusId_v2") &&
               find(memoryInfo, "nvmlDeviceGetMemoryInfo") && init() == 0;
  }
  int64_t freeBytes(const char *bus) const {
    void *handle = nullptr;
    unsigned long long figures[3] = {}; // total, free, used
    if (!isUsable || handleByBus(bus, &handle) != 0 ||
        memoryInfo(handle, figures) != 0)
      return -1;
    return static_cast<int64_t>(figures[1]);
  }

private:
  void *library;
  bool isUsable = false;
  int (*handleByBus)(const char *, void **) = nullptr;
  int (*memoryInfo)(void *, unsigned long long *) = nullptr;
};

} // namespace

std::unique_ptr<Memory> allocateOnCard(int index, int64_t bytes) {
  return std::make_unique<CardMemory>(index, bytes);
}

std::unique_ptr<Memory> allocateOnHost(int index, int64_t bytes, bool pinned,
                                       const HostContents &contents,
                                       std::string &warning) {
  return std::make_unique<HostPages>(index, bytes, pinned, contents, warning);
}

std::unique_ptr<Memory> allocateMapped(int index, int64_t bytes) {
  return std::make_unique<MappedMemory>(index, bytes);
}

int64_t freeBytesOfCard(int index, bool byContext) {
  if (byContext) {
    DeviceGuard guard(index);
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess)
      return static_cast<int64_t>(free);
    cudaGetLastError();
    return -1;
  }
  static const Management management; // stays open: other libraries use it too
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), index) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  return management.freeBytes(bus);
}

} // namespace offload::rt
