// Sizes as people write them.

#include "offload/PassManager/ByteCount.h"

#include "gtest/gtest.h"

using namespace offload;

namespace {

TEST(ByteCount, ReadsWholeNumbersAndUnits) {
  EXPECT_EQ(parseByteCount("107000"), 107000);
  EXPECT_EQ(parseByteCount("1B"), 1);
  EXPECT_EQ(parseByteCount("500MB"), 500000000);
  EXPECT_EQ(parseByteCount("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(parseByteCount("8gib"), int64_t{8} << 30);
  EXPECT_EQ(parseByteCount("8 GiB"), int64_t{8} << 30);
  EXPECT_EQ(parseByteCount("1TiB"), int64_t{1} << 40);
  EXPECT_EQ(parseByteCount("9223372036854775807"),
            std::numeric_limits<int64_t>::max());
}

TEST(ByteCount, ReadsFractionsExactly) {
  EXPECT_EQ(parseByteCount("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parseByteCount("0.1KB"), 100);
  EXPECT_EQ(parseByteCount("0.3KiB"), 307); // 307.2
  EXPECT_EQ(parseByteCount("79.999999999TB"), 79999999999000);
}

TEST(ByteCount, RefusesWhatIsNoSize) {
  for (const char *text :
       {"",           "0",          "0.0GiB",   "-1",
        "+1",         "GiB",        "8 gigs",   "1.5",
        "1.GiB",      ".5GiB",      "1e9",      "0x10",
        "8GiB ",      " 8",         "auto",     "9223372036854775808",
        "9999999TiB", "8388608TiB", "0.0001KB", "1.5.5GiB"})
    EXPECT_FALSE(parseByteCount(text).has_value()) << text;
}

TEST(ByteCount, PrintsSmallOnesExactly) {
  EXPECT_EQ(formatByteCount(0), "0 bytes");
  EXPECT_EQ(formatByteCount(1), "1 byte");
  EXPECT_EQ(formatByteCount(107000), "107000 bytes");
  EXPECT_EQ(formatByteCount(4194304), "4.00 MiB");
  EXPECT_EQ(formatByteCount(int64_t{3} << 29), "1.50 GiB");
}

} // namespace
