// The table of operators: look-ups, and what is refused before it is run.

#include "offload/OffFormat/Operators.h"

#include <gtest/gtest.h>

namespace {

using namespace offload;

TEST(Operators, RowsStandAtTheirIndex) {
  for (size_t i = 0; i < operatorTable().size(); ++i)
    EXPECT_EQ(static_cast<size_t>(operatorTable()[i].id), i);
  EXPECT_EQ(operatorInfo(Op::Gemm).name, "Gemm");
  EXPECT_EQ(operatorInfo(Op::Offload_Stage).domain, "offload");
}

TEST(Operators, FindsARowByNameAndVersion) {
  const OperatorInfo *row = findOperator("", "Gemm", 13);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->id, Op::Gemm);
  EXPECT_EQ(findOperator("ai.onnx", "Gemm", 13), row);
  EXPECT_EQ(findOperator("", "Gemm", 12), nullptr) << "no such version";
  EXPECT_EQ(findOperator("com.microsoft", "Gemm", 13), nullptr);
  EXPECT_EQ(findOperator("offload", "Stage", 1)->id, Op::Offload_Stage);
  EXPECT_EQ(findOperator("", "Stage", 1), nullptr);
}

TEST(Operators, FindsTheVersionInForce) {
  int since = 0;
  EXPECT_EQ(findOperatorAtOpset("", "Softmax", 12, &since)->id, Op::Softmax);
  EXPECT_EQ(since, 11);
  EXPECT_TRUE(findOperatorAtOpset("", "Softmax", 13, &since));
  EXPECT_EQ(since, 13);
  EXPECT_TRUE(findOperatorAtOpset("", "Softmax", 28, &since));
  EXPECT_EQ(since, 13);
  EXPECT_EQ(findOperatorAtOpset("", "Attention", 22), nullptr);
  EXPECT_EQ(findOperatorAtOpset("", "NoSuch", 22), nullptr);
}

TEST(Operators, NamesTheVersionsThatAreCovered) {
  EXPECT_EQ(supportedVersions("", "Trilu"), "14");
  EXPECT_EQ(supportedVersions("", "NoSuch"), "");
}

TEST(Operators, KnowsLaunchOperandsAndTypes) {
  const OperatorInfo &slice = operatorInfo(Op::Slice);
  EXPECT_FALSE(slice.isLaunchOperand(0));
  for (unsigned i : {1u, 2u, 3u, 4u})
    EXPECT_TRUE(slice.isLaunchOperand(i));
  EXPECT_FALSE(slice.isLaunchOperand(40));
  const OperatorInfo &gemm = operatorInfo(Op::Gemm);
  EXPECT_TRUE(gemm.supportsType(DataType::BFloat16));
  EXPECT_FALSE(gemm.supportsType(DataType::Int64));
  const OperatorInfo &dequantize = operatorInfo(Op::DequantizeLinear);
  EXPECT_TRUE(dequantize.supportsType(DataType::UInt4));
  EXPECT_FALSE(dequantize.supportsType(DataType::Float8E4M3FN));
  EXPECT_FALSE(operatorInfo(Op::Identity).supportsType(DataType::String));
}

/// The reason for one attribute, or "" where the case is covered.
std::string reason(Op op, const std::string &name, AttributeValue value,
                   unsigned numOutputs = 1) {
  return unsupportedReason(operatorInfo(op), 21, {{name, std::move(value)}},
                           numOutputs);
}

int64_t number(DataType type) { return static_cast<int64_t>(type); }

TEST(UnsupportedCases, NameTheAttributeAndItsValue) {
  EXPECT_EQ(reason(Op::Resize, "coordinate_transformation_mode",
                   "tf_crop_and_resize"),
            "attribute coordinate_transformation_mode=tf_crop_and_resize is "
            "not supported");
  EXPECT_EQ(reason(Op::Resize, "antialias", int64_t(1)),
            "attribute antialias=1 is not supported");
  EXPECT_EQ(reason(Op::Cast, "to", number(DataType::String)),
            "attribute to=string is not supported");
  EXPECT_EQ(reason(Op::EyeLike, "dtype", number(DataType::Int4)),
            "attribute dtype=int4 is not supported");
  EXPECT_EQ(reason(Op::BatchNormalization, "training_mode", int64_t(1)),
            "attribute training_mode=1 is not supported");
  EXPECT_EQ(reason(Op::BatchNormalization, "epsilon", 1e-5f, 3),
            "the outputs of training mode are not supported");
  EXPECT_EQ(
      reason(Op::DequantizeLinear, "output_dtype", number(DataType::Int32)),
      "attribute output_dtype=int32 is not supported");
  EXPECT_EQ(
      reason(Op::QuantizeLinear, "output_dtype", number(DataType::Float8E5M2)),
      "attribute output_dtype=float8e5m2 is not supported");
  EXPECT_EQ(reason(Op::Constant, "value_string", "text"),
            "attribute value_string is not supported");
  EXPECT_EQ(reason(Op::ConstantOfShape, "value",
                   TensorAttribute{DataType::Int4, {1}, {0}}),
            "a value of type int4 is not supported");
}

TEST(UnsupportedCases, LeaveCoveredOnesAlone) {
  EXPECT_EQ(reason(Op::Resize, "mode", "cubic"), "");
  EXPECT_EQ(reason(Op::Resize, "antialias", int64_t(0)), "");
  EXPECT_EQ(reason(Op::Cast, "to", number(DataType::Float16)), "");
  EXPECT_EQ(reason(Op::BatchNormalization, "training_mode", int64_t(0)), "");
  EXPECT_EQ(reason(Op::QuantizeLinear, "output_dtype", number(DataType::UInt4)),
            "");
  EXPECT_EQ(reason(Op::Relu, "anything", "at all"), "");
  EXPECT_EQ(unsupportedReason(operatorInfo(Op::Resize), 19, {}), "");
}

TEST(Operators, TheMarkdownTableHasARowForEach) {
  std::string text = operatorTableMarkdown();
  for (const OperatorInfo &row : operatorTable()) {
    std::string name = row.domain.empty() ? "" : std::string(row.domain) + ".";
    name += row.name;
    EXPECT_NE(text.find("\n| " + name + " | "), std::string::npos) << name;
  }
}

} // namespace
