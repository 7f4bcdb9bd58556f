// Serves a kernel's memory requests from planned places.
//
// In:  requests of ATen on the thread that runs a kernel.
// Out: memory at the planned place of an output, or in the scratch range; in a
//      dry run, memory of its own and a record of who asked for what.
// Not: which request is an output's (Kernels.cpp asks the record).
// How: one c10::Allocator, installed once, looks for the frame of its thread.
//      Memory knows no owner, so a free asks the thread's frame first, then all
//      open frames (a worker thread may drop the last reference), and goes to
//      the previous allocator where none knows the address.

#include "Allocation.h"
#include "CudaKernels.h"

#include "offload/OffFormat/DataType.h"
#include "offload/Runtime/Tensor.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace offload::rt {

namespace {

thread_local AllocationFrame *threadFrame = nullptr;

std::mutex openFramesMutex;
std::vector<AllocationFrame *> openFrames;

class FrameAllocator final : public c10::Allocator {
public:
  c10::Allocator *previous = nullptr;

  c10::DataPtr allocate(size_t bytes) override {
    AllocationFrame *frame = AllocationFrame::ofThread(false);
    if (!frame)
      return previous->allocate(bytes);
    void *data = bytes ? frame->request(bytes) : nullptr;
    return {data, data, &giveBack, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &giveBack; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

private:
  static void giveBack(void *data);
};

FrameAllocator &frameAllocator() {
  static FrameAllocator allocator;
  return allocator;
}

void FrameAllocator::giveBack(void *data) {
  if (!data || AllocationFrame::releaseAnywhere(data))
    return;
  frameAllocator().previous->raw_deallocate(data);
}

/// The one error that libraries with several algorithms take for "try another".
[[noreturn]] void throwOutOfMemory(const std::string &text) {
  C10_THROW_ERROR(OutOfMemoryError, text);
}

void installOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    frameAllocator().previous = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&frameAllocator(),
                         std::numeric_limits<uint8_t>::max());
  });
}

} // namespace

int64_t FirstFit::place(int64_t bytes) {
  int64_t wanted = alignUp(bytes);
  int64_t offset = 0;
  for (auto [start, length] : used) {
    if (start - offset >= wanted)
      break;
    offset = start + length;
  }
  used.emplace(offset, wanted);
  highWater = std::max(highWater, offset + wanted);
  return offset;
}

void FirstFit::release(int64_t offset) { used.erase(offset); }

int64_t FirstFit::endBytes() const {
  return used.empty() ? 0 : used.rbegin()->first + used.rbegin()->second;
}

AllocationFrame::AllocationFrame(bool isCuda) : isCuda(isCuda) {
  installOnce();
  if (threadFrame)
    throw Error("a kernel was started within a kernel");
  threadFrame = this;
  std::lock_guard lock(openFramesMutex);
  openFrames.push_back(this);
}

AllocationFrame::~AllocationFrame() { close(); }

AllocationFrame *AllocationFrame::ofThread(bool isCuda) {
  return threadFrame && threadFrame->isCuda == isCuda ? threadFrame : nullptr;
}

bool AllocationFrame::releaseAnywhere(void *data) {
  if (threadFrame && threadFrame->release(data))
    return true;
  std::lock_guard lock(openFramesMutex);
  for (AllocationFrame *frame : openFrames)
    if (frame != threadFrame && frame->release(data))
      return true;
  return false;
}

void AllocationFrame::close() {
  if (!open)
    return;
  open = false;
  threadFrame = nullptr;
  std::lock_guard lock(openFramesMutex);
  std::erase(openFrames, this);
}

void *AllocationFrame::request(size_t bytes) {
  std::lock_guard lock(mutex);
  void *data = serve(requests, static_cast<int64_t>(bytes));
  ++requests; // not where it failed
  return data;
}

int64_t AllocationFrame::largestRequest() {
  std::lock_guard lock(mutex);
  return std::max<int64_t>(roomBytes(), 0) / kAlignBytes * kAlignBytes;
}

bool AllocationFrame::release(void *data) {
  std::lock_guard lock(mutex);
  return takeBack(data);
}

ProfilingFrame::~ProfilingFrame() {
  close();
  for (const auto &[data, request] : live)
    giveBack(const_cast<void *>(data));
}

void *ProfilingFrame::take(int64_t bytes) {
  if (place.onHost())
    return std::aligned_alloc(kAlignBytes, alignUp(bytes));
  int64_t offset = fit.place(bytes);
  if (offset + alignUp(bytes) <= place.profileBytes)
    return place.profileMemory + offset;
  fit.release(offset);
  return takeFromCard(place, bytes);
}

void ProfilingFrame::giveBack(void *data) {
  auto *byte = static_cast<std::byte *>(data);
  if (place.onHost())
    std::free(data);
  else if (byte >= place.profileMemory &&
           byte < place.profileMemory + place.profileBytes)
    fit.release(byte - place.profileMemory);
  else
    giveToCard(place, data);
}

void *ProfilingFrame::serve(unsigned request, int64_t bytes) {
  if (alignUp(bytes) > mostBytes - liveBytes)
    throwOutOfMemory(std::to_string(bytes) + " bytes are over the limit of " +
                     std::to_string(mostBytes));
  void *data = take(bytes);
  if (!data)
    throw Error("no memory for " + std::to_string(bytes) +
                " bytes of a kernel's dry run");
  live[data] = {request, alignUp(bytes)};
  liveBytes += alignUp(bytes);
  steps.push_back({request, bytes});
  return data;
}

bool ProfilingFrame::takeBack(void *data) {
  auto it = live.find(data);
  if (it == live.end())
    return false;
  steps.push_back({it->second.first, 0});
  liveBytes -= it->second.second;
  live.erase(it);
  giveBack(data);
  return true;
}

int ProfilingFrame::requestOf(const void *data) const {
  auto it = live.find(data);
  return it == live.end() ? -1 : static_cast<int>(it->second.first);
}

int64_t ProfilingFrame::scratchBytes(std::span<const int> outputs) const {
  FirstFit fit;
  std::map<unsigned, int64_t> offsets;
  for (const Step &step : steps) {
    if (std::find(outputs.begin(), outputs.end(),
                  static_cast<int>(step.request)) != outputs.end())
      continue;
    if (step.bytes)
      offsets[step.request] = fit.place(step.bytes);
    else
      fit.release(offsets[step.request]);
  }
  return fit.highWaterBytes();
}

PlacedFrame::PlacedFrame(bool isCuda, std::vector<Place> places, void *scratch,
                         int64_t scratchBytes, unsigned expectedRequests)
    : AllocationFrame(isCuda), places(std::move(places)),
      scratch(static_cast<std::byte *>(scratch)), scratchBytes(scratchBytes),
      expectedRequests(expectedRequests) {}

PlacedFrame::~PlacedFrame() { close(); }

void *PlacedFrame::serve(unsigned request, int64_t bytes) {
  if (request >= expectedRequests)
    throw Error("asks for memory " + std::to_string(request + 1) +
                " times, its dry run " + std::to_string(expectedRequests) +
                " times");
  for (const Place &place : places) {
    if (place.request != static_cast<int>(request))
      continue;
    if (bytes > place.bytes)
      throw Error("asks for an output of " + std::to_string(bytes) +
                  " bytes, its place has " + std::to_string(place.bytes));
    return place.data;
  }
  int64_t offset = fit.place(bytes);
  if (offset + alignUp(bytes) > scratchBytes) {
    fit.release(offset);
    throwOutOfMemory("asks for " + std::to_string(bytes) +
                     " bytes of scratch at " + std::to_string(offset) +
                     ", its scratch has " + std::to_string(scratchBytes) +
                     " bytes");
  }
  return scratch + offset;
}

/// Gaps before the last range are not counted on.
int64_t PlacedFrame::roomBytes() const { return scratchBytes - fit.endBytes(); }

bool PlacedFrame::takeBack(void *data) {
  for (const Place &place : places)
    if (place.data == data)
      return true;
  auto *byte = static_cast<std::byte *>(data);
  if (!scratch || byte < scratch || byte >= scratch + scratchBytes)
    return false;
  fit.release(byte - scratch);
  return true;
}

} // namespace offload::rt
