// Values of the host to and from their bytes.

#include "ShapeOperands.h"

using namespace offload;

namespace {

/// Every 16-bit pattern is the number that it was made from.
TEST(HostValue, SixteenBitFloatsKeepTheirBits) {
  for (DataType type : {DataType::Float16, DataType::BFloat16}) {
    for (unsigned pattern = 0; pattern < 65536; ++pattern) {
      std::vector<uint8_t> bytes = {uint8_t(pattern), uint8_t(pattern >> 8)};
      HostValue value = HostValue::fromBytes(type, {1}, bytes);
      if (std::isnan(value.reals[0]))
        continue;
      ASSERT_EQ(value.toBytes(), bytes) << pattern;
      if (type == DataType::BFloat16) {
        uint32_t wide = pattern << 16;
        float expected;
        memcpy(&expected, &wide, 4);
        ASSERT_EQ(value.reals[0], expected);
      }
    }
  }
}

TEST(HostValue, BytesOfEveryType) {
  std::vector<uint8_t> bytes = {0x21, 0xf3};
  EXPECT_EQ(HostValue::fromBytes(DataType::UInt4, {4}, bytes).ints,
            (std::vector<int64_t>{1, 2, 3, 15}));
  HostValue packed = HostValue::fromBytes(DataType::Int4, {3}, bytes);
  EXPECT_EQ(packed.ints, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(packed.toBytes(), (std::vector<uint8_t>{0x21, 0x03}));
  EXPECT_EQ(HostValue::fromBytes(DataType::Int2, {4}, bytes).ints,
            (std::vector<int64_t>{1, 0, -2, 0}));
  EXPECT_EQ(list({-2}, DataType::Int16).toBytes(),
            (std::vector<uint8_t>{0xfe, 0xff}));
  EXPECT_EQ(bools({1, 0}).toBytes(), (std::vector<uint8_t>{1, 0}));
  for (double number : {1.5, -0.0, 1e-310, 1e308, kInf}) {
    HostValue value = row({number}, DataType::Double);
    double back;
    std::vector<uint8_t> eight = value.toBytes();
    memcpy(&back, eight.data(), 8);
    EXPECT_EQ(back, number);
    EXPECT_TRUE(
        same(HostValue::fromBytes(DataType::Double, {1}, eight), value));
  }
  for (float number : {1.5f, -0.0f, 1e-45f, 3e38f}) {
    HostValue value = row({number});
    float back;
    memcpy(&back, value.toBytes().data(), 4);
    EXPECT_EQ(back, number);
  }
}

} // namespace
