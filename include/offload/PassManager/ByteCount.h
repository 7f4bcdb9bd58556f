// Numbers of bytes as people write and read them.

#ifndef OFFLOAD_PASSMANAGER_BYTECOUNT_H
#define OFFLOAD_PASSMANAGER_BYTECOUNT_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace offload {

/// "107000", "500MB" (10^6), "8GiB" (2^30), "1.5GiB", in any case; a fraction
/// of a byte is dropped. Nothing where the text is no size: an unknown unit, a
/// sign, a fraction without a unit, zero, more than 2^63 - 1.
std::optional<int64_t> parseByteCount(llvm::StringRef text);

/// What parseByteCount takes, for messages.
inline constexpr llvm::StringLiteral kByteCountSyntax =
    "bytes, or a number with KB, MB, GB, TB, KiB, MiB, GiB or TiB";

/// "107000 bytes", "4.00 MiB", "1.50 GiB": exact below 1 MiB.
std::string formatByteCount(int64_t bytes);

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_BYTECOUNT_H
