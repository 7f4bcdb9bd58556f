// Compares what a program takes from a card with what is free there.
//
// In:  a program, the card's figures before the session touched it.
// Out: nothing, or one error with both figures.
// Not: asking the driver (Cuda), allocating.
// How: a context and its libraries count once for a process and card. The first
//      session there needs the arena and what the target reserves, but no more
//      than the budget that its file was planned for; a later one, or one in a
//      process that uses the card already, the arena alone. That is the least
//      that loading takes, so nothing that fits is refused. Figures are rounded
//      away from each other, so that they never read alike, and the budget
//      down, so that it fits.

#include "CardRoom.h"

#include "offload/OffFormat/CardReserve.h"

#include <algorithm>

namespace offload::rt {

namespace {

constexpr int64_t kMiB = int64_t(1) << 20, kGiB = int64_t(1) << 30;

/// "10.1 GiB", or "900 MiB" where `free` is less than one GiB.
std::string format(int64_t bytes, bool up, int64_t free, const char *blank) {
  if (free < kGiB)
    return std::to_string(bytes / kMiB + (up && bytes % kMiB)) + blank + "MiB";
  int64_t rest = bytes % kGiB * 10;
  int64_t tenths = bytes / kGiB * 10 + rest / kGiB + (up && rest % kGiB);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
         blank + "GiB";
}

} // namespace

int64_t neededOfCard(const Program &program, bool hasContext) {
  int64_t arena = program.peakBytes;
  if (hasContext)
    return arena;
  int64_t whole = arena > INT64_MAX - kCardReservedBytes
                      ? INT64_MAX
                      : arena + kCardReservedBytes;
  int64_t budget = program.deviceMemoryBytes;
  return budget < 0 ? whole : std::min(whole, budget);
}

void checkCardRoom(const Program &program, const std::string &device,
                   const CardState &before) {
  int64_t free = before.freeBytes;
  int64_t needed = neededOfCard(program, before.hasContext);
  if (free < 0 || needed <= free)
    return;
  int64_t budget = free + (before.hasContext ? kCardReservedBytes : 0);
  std::string isFree = format(free, false, free, " ");
  std::string text =
      "needs " + format(needed, true, free, " ") + " of " + device +
      (before.hasContext ? " beside the context that this process has there, "
                           "and " +
                               isFree + " are free: "
                         : ", which has " + isFree + " free: ");
  text +=
      budget > kCardReservedBytes
          ? "plan again with --device-memory=" + format(budget, false, free, "")
          : std::string("end what else uses the card");
  throw Error(text);
}

} // namespace offload::rt
