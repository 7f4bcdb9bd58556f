// Asks the driver for the card's free memory.
//
// In:  the driver's libraries, if this machine has them.
// Out: name and free bytes of CUDA device 0.
// Not: linking to CUDA: the compiler needs no GPU and no toolkit.
// How: libcuda knows which card CUDA device 0 is (CUDA_VISIBLE_DEVICES), and
//      libnvidia-ml tells what a card has free without a context on it, which
//      would take memory itself: a budget counts the context.

#include "DeviceMemory.h"

#include "offload/IR/Graph.h"

#include "llvm/Support/DynamicLibrary.h"

#include <cstring>

namespace offload::tool {
namespace {

// The part of both libraries' stable interfaces that is used here.
using CudaResult = int;
using CudaDevice = int;
constexpr CudaResult kCudaNoDevice = 100;
using NvmlResult = int;
using NvmlDevice = void *;
struct NvmlMemory {
  unsigned long long total, free, used;
};

class Library {
public:
  explicit Library(const char *file)
      : library(llvm::sys::DynamicLibrary::getLibrary(file, &why)) {}

  bool isThere() const { return library.isValid(); }

  template <typename Function> Function *find(const char *name) {
    return reinterpret_cast<Function *>(library.getAddressOfSymbol(name));
  }

private:
  std::string why;
  llvm::sys::DynamicLibrary library;
};

/// PCI address of CUDA device 0, and its name.
llvm::Error askCuda(std::string &address, std::string &name) {
  Library cuda("libcuda.so.1");
  if (!cuda.isThere())
    return makeError("this machine has no NVIDIA driver (libcuda.so.1)");
  auto *init = cuda.find<CudaResult(unsigned)>("cuInit");
  auto *getDevice = cuda.find<CudaResult(CudaDevice *, int)>("cuDeviceGet");
  auto *getName =
      cuda.find<CudaResult(char *, int, CudaDevice)>("cuDeviceGetName");
  auto *getAddress =
      cuda.find<CudaResult(char *, int, CudaDevice)>("cuDeviceGetPCIBusId");
  if (!init || !getDevice || !getName || !getAddress)
    return makeError("libcuda.so.1 is no NVIDIA driver");
  CudaDevice device = 0;
  const CudaResult result = init(0);
  if (result == kCudaNoDevice)
    return makeError("there is no CUDA device that this process may use");
  if (result)
    return makeError("the NVIDIA driver does not start (cuInit gives " +
                     llvm::Twine(result) + ")");
  char text[256] = {};
  if (getDevice(&device, 0) || getAddress(text, sizeof text, device))
    return makeError("the NVIDIA driver does not name the CUDA device");
  address = text;
  if (getName(text, sizeof text, device) == 0)
    name = text;
  return llvm::Error::success();
}

llvm::Expected<int64_t> askFreeBytes(const std::string &address) {
  Library nvml("libnvidia-ml.so.1");
  if (!nvml.isThere())
    return makeError("this machine has no libnvidia-ml.so.1");
  auto *init = nvml.find<NvmlResult()>("nvmlInit_v2");
  auto *shutdown = nvml.find<NvmlResult()>("nvmlShutdown");
  auto *getDevice = nvml.find<NvmlResult(const char *, NvmlDevice *)>(
      "nvmlDeviceGetHandleByPciBusId_v2");
  auto *getMemory = nvml.find<NvmlResult(NvmlDevice, NvmlMemory *)>(
      "nvmlDeviceGetMemoryInfo");
  if (!init || !shutdown || !getDevice || !getMemory || init())
    return makeError("libnvidia-ml.so.1 does not start");
  NvmlDevice device = nullptr;
  NvmlMemory memory = {};
  const bool failed = getDevice(address.c_str(), &device) != 0 ||
                      getMemory(device, &memory) != 0;
  shutdown();
  if (failed)
    return makeError("the driver does not tell what the card at " + address +
                     " has free");
  return static_cast<int64_t>(memory.free);
}

} // namespace

llvm::Expected<Card> findCard() {
  Card card;
  std::string address;
  if (llvm::Error error = askCuda(address, card.name))
    return error;
  llvm::Expected<int64_t> freeBytes = askFreeBytes(address);
  if (!freeBytes)
    return freeBytes.takeError();
  card.freeBytes = *freeBytes;
  return card;
}

} // namespace offload::tool
