// Sizes and names of element types.

#include "offload/OffFormat/DataType.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

TEST(DataType, NamesAndTypesAreInverse) {
  for (int32_t i = 1; i <= 26; ++i) {
    auto type = static_cast<DataType>(i);
    EXPECT_EQ(parseDataType(dataTypeName(type)), type) << i;
  }
  EXPECT_EQ(dataTypeName(DataType::BFloat16), "bfloat16");
  EXPECT_EQ(dataTypeName(DataType::Float8E4M3FNUZ), "float8e4m3fnuz");
  EXPECT_EQ(dataTypeName(DataType::Int2), "int2");
  EXPECT_EQ(parseDataType("undefined"), std::nullopt);
  EXPECT_EQ(parseDataType("half"), std::nullopt);
}

TEST(DataType, NumbersOutsideOfTheEnumAreUndefined) {
  EXPECT_EQ(dataTypeName(static_cast<DataType>(27)), "undefined");
  EXPECT_EQ(dataTypeName(static_cast<DataType>(-1)), "undefined");
  EXPECT_EQ(elementBits(static_cast<DataType>(1000)), 0u);
}

TEST(DataType, BytesOfPackedTypesAreRoundedUp) {
  EXPECT_EQ(packedBytes(DataType::Int4, 0), 0);
  EXPECT_EQ(packedBytes(DataType::Int4, 1), 1);
  EXPECT_EQ(packedBytes(DataType::UInt4, 5), 3);
  EXPECT_EQ(packedBytes(DataType::UInt2, 5), 2);
  EXPECT_EQ(packedBytes(DataType::Bool, 5), 5);
  EXPECT_EQ(packedBytes(DataType::Float16, 5), 10);
  EXPECT_EQ(packedBytes(DataType::Complex128, 2), 32);
  EXPECT_EQ(packedBytes(DataType::String, 7), 0);
  EXPECT_EQ(packedBytes(DataType::Double, int64_t(1) << 40), int64_t(1) << 43);
}

TEST(DataType, EveryTypeOfWholeBytesThatArithmeticTakesIsOfOneKind) {
  for (DataType type : {DataType::Float, DataType::Double, DataType::Float16,
                        DataType::BFloat16}) {
    EXPECT_TRUE(isFloating(type)) << dataTypeName(type);
    EXPECT_FALSE(isIntegral(type)) << dataTypeName(type);
  }
  for (DataType type : {DataType::Bool, DataType::Int8, DataType::Int16,
                        DataType::Int32, DataType::Int64, DataType::UInt8,
                        DataType::UInt16, DataType::UInt32, DataType::UInt64}) {
    EXPECT_TRUE(isIntegral(type)) << dataTypeName(type);
    EXPECT_FALSE(isFloating(type)) << dataTypeName(type);
  }
  for (DataType type :
       {DataType::Undefined, DataType::String, DataType::Complex64,
        DataType::Complex128, DataType::Float8E4M3FN, DataType::Float8E8M0,
        DataType::Int4, DataType::UInt4, DataType::Int2, DataType::Float4E2M1})
    EXPECT_FALSE(isIntegral(type) || isFloating(type)) << dataTypeName(type);
}

TEST(DataType, AlignUp) {
  EXPECT_EQ(alignUp(0), 0);
  EXPECT_EQ(alignUp(1), 512);
  EXPECT_EQ(alignUp(512), 512);
  EXPECT_EQ(alignUp(513), 1024);
}

} // namespace
