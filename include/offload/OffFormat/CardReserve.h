// What a process takes from a card besides its plans. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_CARDRESERVE_H
#define OFFLOAD_OFFFORMAT_CARDRESERVE_H

#include <cstdint>

namespace offload {

/// Context 663 MiB as seen; cuBLAS keeps 32 MiB, cuDNN and the other handles
/// are given 64 MiB. A constant of the target `cuda`, never what is left over,
/// so that results do not depend on the budget. A process pays it once for a
/// card, whatever number of sessions it has there.
inline constexpr int64_t kCardReservedBytes =
    int64_t(663 + 32 + 64) * 1024 * 1024;

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_CARDRESERVE_H
