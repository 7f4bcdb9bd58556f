// Figures of a machine that plans are made for.
//
// Built in: `cuda` and `host`; others are read from a `.target` JSON file with
// the same keys (docs/targets.md).

#ifndef OFFLOAD_SCHEDULE_TARGET_H
#define OFFLOAD_SCHEDULE_TARGET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace offload {

struct Target {
  std::string name = "cuda";
  /// Taken from the device's memory before the arena: context, library handles
  /// and workspaces. 0 on `host`.
  int64_t reservedBytes = 0;
  double h2dBytesPerSecond = 0; // of a large copy from pinned memory
  double d2hBytesPerSecond = 0;
  double copyLatencySeconds = 0;   // of one copy
  double launchSeconds = 0;        // of one compute node, at least
  double deviceBytesPerSecond = 0; // device memory
  double float32FlopsPerSecond = 0;
  double float16FlopsPerSecond = 0; // and bfloat16
  double hostBytesPerSecond = 0;

  /// Whether kernels run on a card, which needs memory for a context.
  bool isCard() const { return reservedBytes > 0; }

  /// "cuda", "host", or the path of a `.target` file. Error: an unknown name,
  /// a file that is no JSON object, an unknown key, a figure that is not above
  /// zero.
  static llvm::Expected<Target> load(llvm::StringRef nameOrPath);
};

} // namespace offload

#endif // OFFLOAD_SCHEDULE_TARGET_H
