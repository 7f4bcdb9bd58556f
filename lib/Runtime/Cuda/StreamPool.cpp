// Streams that sessions of one process use one after the other.
//
// In:  a card, a queue.
// Out: a stream that no other session has.
// How: LibTorch keeps a workspace of 32 MiB and more for each stream that ever
//      computed, for as long as the process lives. So a stream is never
//      destroyed but given to the next session, for the same queue; a process
//      has as many workspaces as it had sessions at one time.

#include "StreamPool.h"

#include "CudaCheck.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace offload::rt {

namespace {

struct Pool {
  std::mutex mutex;
  std::map<std::pair<int, Queue>, std::vector<cudaStream_t>> idle;
};

/// Never ends: sessions may end after what is destroyed at exit.
Pool &pool() {
  static Pool *streams = new Pool;
  return *streams;
}

} // namespace

cudaStream_t takeStream(int index, Queue queue) {
  {
    std::lock_guard lock(pool().mutex);
    std::vector<cudaStream_t> &idle = pool().idle[{index, queue}];
    if (!idle.empty()) {
      cudaStream_t stream = idle.back();
      idle.pop_back();
      return stream;
    }
  }
  DeviceGuard guard(index);
  cudaStream_t stream = nullptr;
  checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), index,
            "making a stream");
  return stream;
}

void giveStreamBack(int index, Queue queue, cudaStream_t stream) noexcept {
  std::lock_guard lock(pool().mutex);
  pool().idle[{index, queue}].push_back(stream);
}

} // namespace offload::rt
