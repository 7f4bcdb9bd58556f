// How much memory the card of this machine has free.

#ifndef OFFLOAD_TOOLS_OFFLOADOPT_DEVICEMEMORY_H
#define OFFLOAD_TOOLS_OFFLOADOPT_DEVICEMEMORY_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace offload::tool {

/// Left free by --device-memory=auto: other programs take some, and memory that
/// looks free is not always there in whole pieces.
inline constexpr int64_t kAutoMarginBytes = 256 * 1024 * 1024;

struct Card {
  std::string name;
  int64_t freeBytes = 0;
};

/// The first CUDA device that this process may use. Makes no context on it.
/// Error: what is missing, in one line.
llvm::Expected<Card> findCard();

} // namespace offload::tool

#endif // OFFLOAD_TOOLS_OFFLOADOPT_DEVICEMEMORY_H
