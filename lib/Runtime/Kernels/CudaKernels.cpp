// LibTorch on a CUDA device: allocator, stream, handles.
//
// In:  places.
// Out: LibTorch works on the place's stream; its requests go to the frame of
//      the thread.
// Not: which kernel runs.
// How: LibTorch lets its CUDA allocator be exchanged once, before it is first
//      used. Outside of frames memory is the driver's: that is where libraries'
//      workspaces come from, made by small products and a convolution for each
//      thread and stream, so that none of them is asked for within a frame.

#include "CudaKernels.h"

#include "Allocation.h"
#include "Kernel.h"

#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Tensor.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Sleep.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <future>
#include <mutex>
#include <set>
#include <utility>

namespace offload::rt {

namespace {

/// LibTorch knows memory by its address, so each request of no bytes needs one
/// of its own.
void *serve(size_t bytes, int device, cudaStream_t) {
  if (bytes == 0)
    return new std::byte;
  if (AllocationFrame *frame = AllocationFrame::ofThread(true))
    return frame->request(bytes);
  c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  void *data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) {
    cudaGetLastError();
    throw Error("no " + std::to_string(bytes) +
                " bytes of device memory for a library of LibTorch");
  }
  return data;
}

void takeBack(void *data, size_t bytes, int device, cudaStream_t) {
  if (bytes == 0) {
    delete static_cast<std::byte *>(data);
    return;
  }
  if (AllocationFrame::releaseAnywhere(data))
    return;
  c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  cudaFree(data);
}

/// Bits must not depend on what a library finds fastest, nor float32 on a
/// shorter mantissa.
void setNumerics() {
  at::Context &context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
}

/// Libraries that choose between algorithms ask how much room there is.
class PlannedAllocator final
    : public torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator {
public:
  PlannedAllocator() : CUDAPluggableAllocator(serve, takeBack) {}
  void cacheInfo(c10::DeviceIndex device, size_t *largestBlock) override {
    if (AllocationFrame *frame = AllocationFrame::ofThread(true)) {
      *largestBlock = static_cast<size_t>(frame->largestRequest());
      return;
    }
    c10::cuda::CUDAGuard guard(device);
    size_t total = 0;
    if (cudaMemGetInfo(largestBlock, &total) != cudaSuccess) {
      cudaGetLastError();
      *largestBlock = 0;
    }
  }
};

void installOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(
        std::make_shared<PlannedAllocator>());
    at::globalContext().lazyInitDevice(at::kCUDA);
    setNumerics();
  });
}

class CudaStreamScope final : public StreamScope {
public:
  explicit CudaStreamScope(const KernelPlace &place)
      : guard(c10::cuda::getStreamFromExternal(
            static_cast<cudaStream_t>(place.stream),
            static_cast<c10::DeviceIndex>(place.cudaIndex))) {}

private:
  c10::cuda::CUDAStreamGuard guard;
};

/// The library of products, once: its handle and workspaces, which are of the
/// thread and the stream, and its kernels, which are of the type. Zeros are the
/// driver's to write: a fill would bring a module of its own.
void callBlas(at::Device device, DataType products) {
  at::ScalarType type = scalarTypeOf(products).value_or(at::kFloat);
  if (!at::isFloatingType(type))
    type = at::kFloat;
  at::cuda::getCurrentCUDABlasHandle();
  at::cuda::getCUDABlasLtWorkspace();
  at::Tensor matrix =
      at::empty({64, 64}, at::TensorOptions(type).device(device));
  cudaMemsetAsync(matrix.data_ptr(), 0, matrix.nbytes(),
                  c10::cuda::getCurrentCUDAStream());
  at::mm(matrix, matrix);
}

/// cuDNN once. It keeps handles in a pool, where a thread's own one goes when
/// the thread ends.
void callCudnn(at::Device device) {
  auto options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor image = at::ones({1, 8, 8, 8}, options);
  at::convolution(image, at::ones({8, 8, 3, 3}, options), {}, {1, 1}, {1, 1},
                  {1, 1}, false, {0, 0}, 1);
}

/// Both at once: most of the time goes into opening them.
void callLibraries(const KernelPlace &place, const KernelLibraries &libraries) {
  std::future<void> cudnn;
  if (libraries.convolutions)
    cudnn = std::async(std::launch::async, [&] {
      c10::InferenceMode inference;
      CudaStreamScope scope(place);
      callCudnn(deviceOf(place));
    });
  callBlas(deviceOf(place), libraries.products);
  if (cudnn.valid())
    cudnn.get();
}

bool firstOfThread(const KernelPlace &place) {
  static thread_local std::set<std::pair<int, void *>> seen;
  return seen.emplace(place.cudaIndex, place.stream).second;
}

[[noreturn]] void rethrowShort(const c10::Error &error) {
  std::string text = error.what_without_backtrace();
  throw Error(text.substr(0, text.find('\n')));
}

} // namespace

at::Device deviceOf(const KernelPlace &place) {
  if (place.onHost())
    return at::Device(at::kCPU);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(place.cudaIndex));
}

std::unique_ptr<StreamScope> makeStreamScope(const KernelPlace &place) {
  if (place.onHost())
    return nullptr;
  try {
    installOnce();
    auto scope = std::make_unique<CudaStreamScope>(place);
    if (firstOfThread(place))
      callLibraries(place, {.convolutions = true});
    return scope;
  } catch (const c10::Error &error) {
    rethrowShort(error);
  }
}

void *takeFromCard(const KernelPlace &place, int64_t bytes) {
  c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(place.cudaIndex));
  void *data = nullptr;
  if (cudaMalloc(&data, static_cast<size_t>(bytes)) == cudaSuccess)
    return data;
  cudaGetLastError();
  return nullptr;
}

void giveToCard(const KernelPlace &place, void *data) {
  c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(place.cudaIndex));
  cudaFree(data);
}

void warmUpKernels(const KernelPlace &place, const KernelLibraries &libraries) {
  c10::InferenceMode inference;
  try {
    installOnce();
    CudaStreamScope scope(place);
    if (firstOfThread(place))
      callLibraries(place, libraries);
  } catch (const c10::Error &error) {
    rethrowShort(error);
  }
}

void spinOn(const KernelPlace &place, int64_t ns) {
  installOnce();
  CudaStreamScope scope(place); // copy streams need no workspaces
  int kiloHertz = 0;
  cudaDeviceGetAttribute(&kiloHertz, cudaDevAttrClockRate, place.cudaIndex);
  // At the highest clock rate; at a lower one the pause is longer.
  at::cuda::sleep(ns * std::max(kiloHertz, 1) / 1000000 + 1);
}

} // namespace offload::rt
