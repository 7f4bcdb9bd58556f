// Streams that sessions of one process use one after the other.

#ifndef OFFLOAD_LIB_RUNTIME_CUDA_STREAMPOOL_H
#define OFFLOAD_LIB_RUNTIME_CUDA_STREAMPOOL_H

#include "offload/OffFormat/Queue.h"

#include <cuda_runtime_api.h>

namespace offload::rt {

/// A stream that no legacy stream holds up, for a queue on a card: one that was
/// given back, or a new one. Throws Error. Any thread may call both.
cudaStream_t takeStream(int index, Queue queue);

/// The stream must be empty.
void giveStreamBack(int index, Queue queue, cudaStream_t stream) noexcept;

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CUDA_STREAMPOOL_H
