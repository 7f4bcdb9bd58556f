// Proof of order: happens-before over four queues, and one rule for all bytes.
//
// A Timeline is a step as plain data: operations in issue order, each on a
// queue, the values each reads and writes, the bytes of each value, and what
// each operation waits for. The compiler makes one from a graph
// (Analysis/GraphTimeline.h), the runtime from its launch list after redundant
// waits were dropped; checkTimeline is the same for both.
//
// Rules (docs/format.md):
//  1. A queue runs its operations in issue order, one after another.
//  2. An operation starts after the end of each operation in its `waits`.
//  3. A run returns when every operation that reads a feed and every one that
//     lands an output has ended; operations of the next step that read a feed
//     start after that. Nothing else gains that order.
//  4. For two values whose bytes meet, every access to the earlier one (the
//     one whose maker is issued first) happens before the first write of the
//     later one. A value that is carried over the border of two steps (state)
//     is the same value on both sides.
// Two steps are glued together, so that what one step leaves behind is checked
// against the next, which is the same for all later pairs.
//
// How: queues are first in, first out, so what has happened before an
// operation starts is one counter a queue (Fidge 1988, Mattern 1989: vector
// clocks, with one component for each queue). Time: operations times queues,
// plus the pairs of values that share bytes. Standard library only.

#ifndef OFFLOAD_OFFFORMAT_HAPPENSBEFORE_H
#define OFFLOAD_OFFFORMAT_HAPPENSBEFORE_H

#include "offload/OffFormat/Queue.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// Where a value's bytes lie. Two values meet when their space is the same and
/// their ranges overlap. Space 0 is the device's arena; every host buffer is a
/// space of its own.
struct ByteRange {
  static constexpr uint32_t kArena = 0;
  uint32_t space = kArena;
  int64_t begin = 0;
  int64_t end = 0; // begin == end: no bytes (a token, a launch value)
  bool meets(const ByteRange &other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

struct TimelineValue {
  std::string name;
  ByteRange range;
  /// This value (read in a step before it is written, or never written in it)
  /// is what `carriedFrom` held at the end of the step before: state, or the
  /// value itself for what is written once at load (residents, host weights).
  static constexpr uint32_t kNone = ~0u;
  uint32_t carriedFrom = kNone;
  /// The value whose bytes this one takes over in place, or kNone. Only then
  /// does the read of that value by this one's maker not conflict with its
  /// write. A state that is updated where it lies names its input here.
  uint32_t inPlaceOf = kNone;
  /// Written by the caller between two runs; readers start after the return.
  bool feed = false;
};

/// A point to wait for: the end of an operation of this step or the last one.
struct WaitPoint {
  uint32_t op = 0;
  bool previousStep = false;
  bool operator==(const WaitPoint &) const = default;
};

struct TimelineOp {
  std::string name;
  Queue queue = Queue::Compute; // Compute .. Host only
  /// Indices into Timeline::values: whose bytes are read and written. Where a
  /// value is only a token, only waited for, or only named anew (a view), no
  /// byte is read. An operation that updates in place reads the old value and
  /// writes the new one, whose inPlaceOf names the old.
  std::vector<uint32_t> reads;
  std::vector<uint32_t> writes;
  std::vector<WaitPoint> waits;
  bool landsOutput = false;
};

struct Timeline {
  std::vector<TimelineValue> values;
  std::vector<TimelineOp> ops; // in issue order
};

/// What the proof rests on: for each operation of two glued steps, how many
/// operations of each queue have ended before it starts.
class HappensBefore {
public:
  /// `timeline` must outlive this and have valid indices.
  explicit HappensBefore(const Timeline &timeline);

  /// The end of `earlier` comes before the start of `later`. Operations of the
  /// second step have indices ops.size() and up.
  bool endsBefore(uint32_t earlier, uint32_t later) const;

  using Clock = std::array<uint32_t, kNumQueues>;
  const Clock &startOf(uint32_t op) const { return starts[op]; }
  /// What has ended when an operation has.
  Clock endOf(uint32_t op) const;
  /// Position of an operation in its queue over both steps, from 1.
  uint32_t positionOf(uint32_t op) const { return positions[op]; }
  Queue queueOf(uint32_t op) const;
  /// What has ended when the first step's run returns.
  const Clock &returnOfFirstStep() const { return returned; }

private:
  const Timeline &timeline;
  std::vector<Clock> starts;
  std::vector<uint32_t> positions;
  Clock returned{};
};

enum class ViolationKind {
  ReadAfterOverwrite,  // the earlier value is still read, or read again later
  WriteWriteUnordered, // two writes of meeting bytes with no order
  ReadBeforeWrite,     // a value is read with no order after its maker
  WaitsForLater,       // deadlock: waits for an operation issued after it
};

/// One broken rule. `message` is one line without "error:"; `note` says what is
/// missing ("nothing orders [send_gw3] before [fc2_dw]").
struct Violation {
  ViolationKind kind;
  std::string first;  // "[send_gw3]", the operation that must come first
  std::string second; // the one that must wait; both empty for what is loaded
  ByteRange bytes;    // the bytes that meet
  std::string message;
  std::string note;
};

/// Every violation, in issue order of `second`; at most `limit` of them. For
/// two values that meet it names the last access of each queue that comes too
/// late. Operations of the second step are named "[x] of the next step".
std::vector<Violation> checkTimeline(const Timeline &timeline,
                                     unsigned limit = 16);

/// Drops each wait that others already imply (same queue order, or through
/// other waits), also over the border of two steps; what remains gives the
/// same happens-before. Returns how many were dropped.
unsigned dropRedundantWaits(Timeline &timeline);

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_HAPPENSBEFORE_H
