// Stands before CUDA's runtime and shows a machine of one card as one of two,
// so that programs can be judged on `cuda:1` beside `cuda:0` where only one is.
//
// In:  LD_PRELOAD, and TWO_CARDS_REPORT: the file of the report.
// Out: at exit "contexts: N N", the cards on which the process has made one;
//      then a line for each kind of call that met the wrong card, with how
//      often.
// Not: what two real cards do otherwise, such as copies between them.
// How: cards are numbered by this library alone; all lie on the real ones in
//      turn. A thread's current card, a card's contexts, and the card of each
//      stream, event and allocation are kept here by the rules of CUDA 12 and
//      later: cudaSetDevice makes a context, as does any call that needs one on
//      the thread's current card; a stream and its events are of one card, and
//      a kernel is launched while its stream's card is current.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace {

constexpr int kMaxCards = 16;

thread_local int current = 0;

/// What is known of the process; never destroyed, since calls come until its
/// end.
struct Ledger {
  std::mutex mutex;
  std::array<bool, kMaxCards> contexts{};
  std::map<const void *, int> owners;                      // streams, events
  std::map<uintptr_t, std::pair<uintptr_t, int>> memories; // end and card
  std::map<std::string, int> faults;

  static Ledger &get() {
    static Ledger *ledger = new Ledger;
    return *ledger;
  }
};

/// The one that this library stands before; its version is older than all of
/// those that name more.
void *realDlsym(void *handle, const char *name) {
  static auto *function = reinterpret_cast<decltype(&dlsym)>(
      dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  return function(handle, name);
}

template <typename Function> Function *real(const char *name) {
  void *found = realDlsym(RTLD_NEXT, name);
  if (!found) {
    std::fprintf(stderr, "two-cards: no %s behind this library\n", name);
    std::abort();
  }
  return reinterpret_cast<Function *>(found);
}
#define REAL(name)                                                             \
  (*[] {                                                                       \
    static auto *function = real<decltype(name)>(#name);                       \
    return function;                                                           \
  }())

int realCards() {
  static const int count = [] {
    int found = 0;
    return REAL(cudaGetDeviceCount)(&found) == cudaSuccess ? found : 0;
  }();
  return count;
}
int cards() { return realCards() ? std::max(2, realCards()) : 0; }
int behind(int card) { return realCards() ? card % realCards() : card; }
bool isCard(int card) { return card >= 0 && card < cards(); }

/// A call that needs a context.
void needContext() {
  std::lock_guard lock(Ledger::get().mutex);
  Ledger::get().contexts[static_cast<size_t>(current)] = true;
}

void fault(const std::string &what) { ++Ledger::get().faults[what]; }

/// What `make` writes to `handle` is of the thread's current card.
template <typename Handle, typename Make>
cudaError_t makeOwned(Handle *handle, const Make &make) {
  needContext();
  cudaError_t code = make();
  if (code == cudaSuccess) {
    std::lock_guard lock(Ledger::get().mutex);
    Ledger::get().owners[*handle] = current;
  }
  return code;
}

/// The default stream is of any card.
int ownerOf(const void *handle) {
  auto at = Ledger::get().owners.find(handle);
  return at == Ledger::get().owners.end() ? -1 : at->second;
}

void checkCurrent(const char *call, const void *stream) {
  needContext();
  std::lock_guard lock(Ledger::get().mutex);
  int owner = ownerOf(stream);
  if (owner >= 0 && owner != current)
    fault(std::string(call) + " with a stream of another card");
}

void checkPair(const char *call, const void *event, const void *stream) {
  std::lock_guard lock(Ledger::get().mutex);
  int one = ownerOf(event), other = ownerOf(stream);
  if (one >= 0 && other >= 0 && one != other)
    fault(std::string(call) + " with an event and a stream of two cards");
}

/// -1 where the memory is no card's.
int cardOf(const void *data) {
  std::lock_guard lock(Ledger::get().mutex);
  const auto &memories = Ledger::get().memories;
  auto address = reinterpret_cast<uintptr_t>(data);
  auto after = memories.upper_bound(address);
  if (after == memories.begin())
    return -1;
  auto [end, card] = std::prev(after)->second;
  return address < end ? card : -1;
}

void checkMemory(const char *call, const void *data, const void *stream) {
  int card = cardOf(data);
  std::lock_guard lock(Ledger::get().mutex);
  int owner = ownerOf(stream);
  if (card >= 0 && owner >= 0 && card != owner)
    fault(std::string(call) + " of memory of another card");
}

void report() {
  const char *file = std::getenv("TWO_CARDS_REPORT");
  if (!file)
    return;
  std::FILE *out = std::fopen(file, "w");
  if (!out)
    return;
  std::lock_guard lock(Ledger::get().mutex);
  std::fputs("contexts:", out);
  for (int card = 0; card < kMaxCards; ++card)
    if (Ledger::get().contexts[static_cast<size_t>(card)])
      std::fprintf(out, " %d", card);
  std::fputs("\n", out);
  for (const auto &[what, times] : Ledger::get().faults)
    std::fprintf(out, "fault: %s (%d times)\n", what.c_str(), times);
  std::fclose(out);
}

[[gnu::constructor]] void reportAtExit() { std::atexit(report); }

CUresult getDevice(CUdevice *device, int ordinal) {
  if (!isCard(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal; // this library's functions alone are given it
  return CUDA_SUCCESS;
}

CUresult getContextState(CUdevice device, unsigned *flags, int *isActive) {
  if (!isCard(device))
    return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(Ledger::get().mutex);
  *flags = 0;
  *isActive = Ledger::get().contexts[static_cast<size_t>(device)];
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t,
                               cudaStream_t);

// ------------------------------------------------------------------ which card
cudaError_t cudaGetDeviceCount(int *count) {
  cudaError_t code = REAL(cudaGetDeviceCount)(count);
  if (code == cudaSuccess)
    *count = cards();
  return code;
}

cudaError_t cudaGetDevice(int *device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!isCard(device))
    return cudaErrorInvalidDevice;
  current = device;
  needContext();
  return REAL(cudaSetDevice)(behind(device));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  return REAL(cudaGetDeviceProperties)(properties, behind(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute,
                                   int device) {
  return REAL(cudaDeviceGetAttribute)(value, attribute, behind(device));
}

cudaError_t cudaDeviceGetPCIBusId(char *bus, int length, int device) {
  return REAL(cudaDeviceGetPCIBusId)(bus, length, behind(device));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes,
                                     const void *data) {
  cudaError_t code = REAL(cudaPointerGetAttributes)(attributes, data);
  int card = cardOf(data);
  if (code == cudaSuccess && card >= 0)
    attributes->device = card;
  return code;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                 unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult *result) {
  cudaError_t code = REAL(cudaGetDriverEntryPointByVersion)(
      symbol, function, version, flags, result);
  if (code == cudaSuccess && !std::strcmp(symbol, "cuDeviceGet"))
    *function = reinterpret_cast<void *>(&getDevice);
  if (code == cudaSuccess && !std::strcmp(symbol, "cuDevicePrimaryCtxGetState"))
    *function = reinterpret_cast<void *>(&getContextState);
  return code;
}

/// LibTorch looks functions of the driver up by name.
void *dlsym(void *__restrict handle, const char *__restrict name) noexcept {
  void *found = realDlsym(handle, name);
  if (found && !std::strcmp(name, "cuDevicePrimaryCtxGetState"))
    return reinterpret_cast<void *>(&getContextState);
  return found;
}

// -------------------------------------------------------------- what it owns
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return makeOwned(
      stream, [&] { return REAL(cudaStreamCreateWithFlags)(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
  return makeOwned(stream, [&] {
    return REAL(cudaStreamCreateWithPriority)(stream, flags, priority);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return makeOwned(event, [&] { return REAL(cudaEventCreate)(event); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  return makeOwned(
      event, [&] { return REAL(cudaEventCreateWithFlags)(event, flags); });
}

cudaError_t cudaMalloc(void **data, size_t bytes) {
  needContext();
  cudaError_t code = REAL(cudaMalloc)(data, bytes);
  if (code == cudaSuccess) {
    std::lock_guard lock(Ledger::get().mutex);
    auto start = reinterpret_cast<uintptr_t>(*data);
    Ledger::get().memories[start] = {start + bytes, current};
  }
  return code;
}

cudaError_t cudaFree(void *data) {
  needContext();
  {
    std::lock_guard lock(Ledger::get().mutex);
    Ledger::get().memories.erase(reinterpret_cast<uintptr_t>(data));
  }
  return REAL(cudaFree)(data);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  needContext();
  {
    std::lock_guard lock(Ledger::get().mutex);
    Ledger::get().owners.erase(event);
  }
  return REAL(cudaEventDestroy)(event);
}

// ------------------------------------------------------------ what it is given
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  checkCurrent("cudaEventRecord", stream);
  checkPair("cudaEventRecord", event, stream);
  return REAL(cudaEventRecord)(event, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags) {
  checkCurrent("cudaStreamWaitEvent", stream);
  return REAL(cudaStreamWaitEvent)(stream, event, flags);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  needContext();
  return REAL(cudaStreamSynchronize)(stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  needContext();
  return REAL(cudaEventSynchronize)(event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  needContext();
  checkPair("cudaEventElapsedTime", from, to);
  return REAL(cudaEventElapsedTime)(ms, from, to);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  checkCurrent("cudaMemcpyAsync", stream);
  checkMemory("cudaMemcpyAsync", to, stream);
  checkMemory("cudaMemcpyAsync", from, stream);
  return REAL(cudaMemcpyAsync)(to, from, bytes, kind, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  checkCurrent("cudaMemsetAsync", stream);
  checkMemory("cudaMemsetAsync", to, stream);
  return REAL(cudaMemsetAsync)(to, value, bytes, stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *given) {
  checkCurrent("cudaLaunchHostFunc", stream);
  return REAL(cudaLaunchHostFunc)(stream, function, given);
}

// What the compiler makes of a kernel's launch.
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                               void **operands, size_t sharedBytes,
                               cudaStream_t stream) {
  checkCurrent("a kernel", stream);
  return REAL(__cudaLaunchKernel)(kernel, grid, block, operands, sharedBytes,
                                  stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how,
                                const void *kernel, void **operands) {
  checkCurrent("cudaLaunchKernelExC", how->stream);
  return REAL(cudaLaunchKernelExC)(how, kernel, operands);
}

// ------------------------------------------------------- what needs a context
cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned flags) {
  needContext();
  return REAL(cudaHostRegister)(data, bytes, flags);
}

cudaError_t cudaHostUnregister(void *data) {
  needContext();
  return REAL(cudaHostUnregister)(data);
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags) {
  needContext();
  return REAL(cudaHostAlloc)(data, bytes, flags);
}

cudaError_t cudaFreeHost(void *data) {
  needContext();
  return REAL(cudaFreeHost)(data);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  needContext();
  return REAL(cudaMemGetInfo)(free, total);
}

} // extern "C"
