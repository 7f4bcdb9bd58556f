// Serves a kernel's memory requests from planned places.
//
// While a frame is open on a thread, every request that ATen makes there is the
// frame's; on all other threads, and outside of frames, the allocator that was
// installed before serves. Requests of zero bytes are not counted. A frame is
// of the host or of a CUDA device; requests to the other one's allocator are
// not its own.

#ifndef OFFLOAD_RUNTIME_KERNELS_ALLOCATION_H
#define OFFLOAD_RUNTIME_KERNELS_ALLOCATION_H

#include "offload/Runtime/KernelPlace.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace offload::rt {

/// Lowest free range first. Both the dry run and the real run place scratch by
/// it, so the same requests give the same offsets.
class FirstFit {
public:
  /// Offset of `bytes`, a multiple of kAlignBytes.
  int64_t place(int64_t bytes);
  void release(int64_t offset);
  int64_t highWaterBytes() const { return highWater; }
  /// End of the last range in use.
  int64_t endBytes() const;

private:
  std::map<int64_t, int64_t> used; // offset -> bytes
  int64_t highWater = 0;
};

/// Opens on the constructing thread and closes with the object; frames of one
/// thread do not nest. Tensors made inside must be gone before it closes.
class AllocationFrame {
public:
  explicit AllocationFrame(bool isCuda);
  AllocationFrame(const AllocationFrame &) = delete;
  AllocationFrame &operator=(const AllocationFrame &) = delete;
  virtual ~AllocationFrame();

  /// What fails throws c10::Error or Error.
  void *request(size_t bytes);
  /// Whether the memory was this frame's; if so it is given back.
  bool release(void *data);
  unsigned numRequests() const { return requests; }
  /// From now on a request fails with c10::OutOfMemoryError where memory in use
  /// would pass `bytes`. It is not counted, so a library may go on with an
  /// algorithm that needs less.
  virtual void limit(int64_t bytes) = 0;
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  /// The largest request that is sure to be served now, as far as the limit
  /// goes.
  int64_t largestRequest();

  /// The frame that serves this thread's requests of that kind, or null.
  static AllocationFrame *ofThread(bool isCuda);
  /// Gives memory back to whichever open frame it belongs to; false where it
  /// belongs to none.
  static bool releaseAnywhere(void *data);

protected:
  virtual void *serve(unsigned request, int64_t bytes) = 0;
  virtual bool takeBack(void *data) = 0;
  virtual int64_t roomBytes() const = 0;
  /// Ends the frame; each final class calls it first in its destructor, since
  /// the functions above are gone afterwards.
  void close();

private:
  std::mutex mutex; // a tensor may be freed on another thread
  unsigned requests = 0;
  bool open = true;
  bool isCuda;
};

/// Serves from memory of its own and remembers every request and its end. On a
/// device that is the place's profile memory, and more where that ends.
class ProfilingFrame final : public AllocationFrame {
public:
  explicit ProfilingFrame(const KernelPlace &place = {})
      : AllocationFrame(!place.onHost()), place(place) {}
  ~ProfilingFrame() override;
  /// The request that made the memory at `data`, or -1.
  int requestOf(const void *data) const;
  /// Scratch that all requests but `outputs` take at once.
  int64_t scratchBytes(std::span<const int> outputs) const;
  void limit(int64_t bytes) override { mostBytes = bytes; }

private:
  void *serve(unsigned request, int64_t bytes) override;
  bool takeBack(void *data) override;

  int64_t roomBytes() const override { return mostBytes - liveBytes; }

  void *take(int64_t bytes);
  void giveBack(void *data);

  KernelPlace place;
  FirstFit fit; // of the place's profile memory
  int64_t mostBytes = kNoLimit;
  int64_t liveBytes = 0;
  struct Step {
    unsigned request = 0;
    int64_t bytes = 0; // 0: the request's memory is given back
  };
  std::vector<Step> steps;
  std::map<const void *, std::pair<unsigned, int64_t>> live; // request, bytes
};

/// Serves chosen requests at given places and all others from one range.
class PlacedFrame final : public AllocationFrame {
public:
  struct Place {
    int request = -1;
    void *data = nullptr;
    int64_t bytes = 0;
  };
  /// For `expectedRequests`: as many as there come.
  static constexpr unsigned kAnyRequests = ~0u;
  PlacedFrame(bool isCuda, std::vector<Place> places, void *scratch,
              int64_t scratchBytes, unsigned expectedRequests);
  ~PlacedFrame() override;
  /// Its scratch is the limit.
  void limit(int64_t) override {}

private:
  void *serve(unsigned request, int64_t bytes) override;
  bool takeBack(void *data) override;
  int64_t roomBytes() const override;

  std::vector<Place> places;
  std::byte *scratch;
  int64_t scratchBytes;
  unsigned expectedRequests;
  FirstFit fit;
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_ALLOCATION_H
