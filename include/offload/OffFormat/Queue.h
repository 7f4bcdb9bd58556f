// The four queues of a device and the names that files and flags give them.
// Standard library only.

#ifndef OFFLOAD_OFFFORMAT_QUEUE_H
#define OFFLOAD_OFFFORMAT_QUEUE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace offload {

/// Each queue runs its nodes one after another in node order. Launch and None
/// are no queues: nodes on Launch run on the launching thread before the step
/// starts; Join (None) is pure bookkeeping of order.
enum class Queue : uint8_t { Compute, H2D, D2H, Host, Launch, None };

inline constexpr unsigned kNumQueues = 4; // Compute .. Host

constexpr std::string_view queueName(Queue queue) {
  constexpr std::string_view names[] = {"compute", "h2d",    "d2h",
                                        "host",    "launch", "none"};
  return names[static_cast<unsigned>(queue)];
}

constexpr std::optional<Queue> parseQueue(std::string_view name) {
  for (unsigned i = 0; i <= static_cast<unsigned>(Queue::None); ++i)
    if (queueName(static_cast<Queue>(i)) == name)
      return static_cast<Queue>(i);
  return std::nullopt;
}

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_QUEUE_H
