// Which sessions a card has room for, and what is said of the others.

#include "OffText.h"

#include "../../../lib/Runtime/CardRoom.h"

#include "offload/OffFormat/CardReserve.h"

#include <gtest/gtest.h>

namespace offload::rt {
namespace {

constexpr int64_t kMiB = int64_t(1) << 20, kGiB = int64_t(1) << 30;

Program planned(int64_t peakBytes, int64_t deviceMemoryBytes) {
  Program program;
  program.path = "m.off";
  program.peakBytes = peakBytes;
  program.deviceMemoryBytes = deviceMemoryBytes;
  return program;
}

TEST(CardRoom, TheFirstSessionNeedsTheContextToo) {
  Program program = planned(2 * kGiB, -1);
  EXPECT_EQ(neededOfCard(program, false), 2 * kGiB + kCardReservedBytes);
  EXPECT_EQ(neededOfCard(program, true), 2 * kGiB);
}

// The budget was a limit, not a wish: a small model planned for a whole card
// runs where there is less. A plan for another target reserves less.
TEST(CardRoom, NeedsWhatIsPlannedAndNotTheWholeBudget) {
  EXPECT_EQ(neededOfCard(planned(2 * kGiB, 80 * kGiB), false),
            2 * kGiB + kCardReservedBytes);
  EXPECT_EQ(neededOfCard(planned(2 * kGiB, 2 * kGiB + kMiB), false),
            2 * kGiB + kMiB);
  EXPECT_EQ(neededOfCard(planned(INT64_MAX - 5, -1), false), INT64_MAX);
}

TEST(CardRoom, WhatFitsIsTakenToTheLastByte) {
  Program program = planned(2 * kGiB, -1);
  int64_t needed = 2 * kGiB + kCardReservedBytes;
  EXPECT_NO_THROW(checkCardRoom(program, "cuda:0", {needed, false}));
  EXPECT_THROW(checkCardRoom(program, "cuda:0", {needed - 1, false}), Error);
  EXPECT_NO_THROW(checkCardRoom(program, "cuda:0", {2 * kGiB, true}));
  EXPECT_THROW(checkCardRoom(program, "cuda:0", {2 * kGiB - 1, true}), Error);
}

TEST(CardRoom, NobodyKnowsNothingIsRefused) {
  EXPECT_NO_THROW(checkCardRoom(planned(2 * kGiB, -1), "cuda:0", {-1, false}));
  EXPECT_NO_THROW(checkCardRoom(planned(2 * kGiB, -1), "host", CardState()));
}

TEST(CardRoom, SaysBothFiguresAndWhatToDo) {
  Program program = planned(12 * kGiB, 12 * kGiB + 300 * kMiB);
  expectError(
      [&] {
        checkCardRoom(program, "cuda:0", {10 * kGiB + 150 * kMiB, false});
      },
      {"needs 12.3 GiB of cuda:0, which has 10.1 GiB free: plan again with "
       "--device-memory=10.1GiB"});
  // 10.14 GiB and 759 MiB that are paid for.
  expectError(
      [&] { checkCardRoom(program, "cuda:1", {10 * kGiB + 150 * kMiB, true}); },
      {"needs 12.0 GiB of cuda:1 beside the context that this process has "
       "there, and 10.1 GiB are free: ",
       "--device-memory=10.8GiB"});
  expectError(
      [&] { checkCardRoom(program, "cuda:0", {900 * kMiB, false}); },
      {"needs 12588 MiB", "which has 900 MiB free", "--device-memory=900MiB"});
  expectError([&] { checkCardRoom(program, "cuda:0", {700 * kMiB, false}); },
              {"needs 12588 MiB", "has 700 MiB free: end what else uses"});
}

} // namespace
} // namespace offload::rt
