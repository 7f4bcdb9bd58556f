// What a call of Attention asks for, whichever form computes it.

#ifndef OFFLOAD_RUNTIME_KERNELS_ATTENTION_H
#define OFFLOAD_RUNTIME_KERNELS_ATTENTION_H

#include "Kernel.h"

namespace offload::rt {

struct AttentionCall {
  at::Tensor query, key, value, pastKey, pastValue, mask, validKeys;
  int64_t past = 0, total = 0;
  double scale = 1, softcap = 0;
  bool causal = false;
  bool shortMasks = false;
  int64_t left = -1, right = -1; // window; -1: unbounded
  int64_t scoresMode = 0;

  int64_t groupSize() const { return query.size(1) / key.size(1); }
};

AttentionCall attentionCall(const KernelContext &context);

/// Operand as [batch, heads, sequence, size] without a copy.
at::Tensor byHead(const at::Tensor &x, int64_t heads);

/// Past and present rows of all heads, one behind the other.
at::Tensor joined(const at::Tensor &past, const at::Tensor &present);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_ATTENTION_H
