// Chains of Reshapes and Transposes in terms of factors of axes.

#include "../Schedule/TestGraph.h"

#include "offload/Analysis/AxisFactors.h"

using namespace offload;

namespace {

using Numbers = std::vector<int64_t>;

TensorType named(std::vector<Dim> dims) {
  TensorType type{DataType::Float, true, {}};
  type.dims.assign(dims.begin(), dims.end());
  return type;
}

/// Starts from a root and goes on; fails the test where that is not possible.
class Chain {
public:
  explicit Chain(const TensorType &root) : factors(AxisFactors::ofRoot(root)) {}
  Chain &reshape(const TensorType &to) {
    factors = factors->reshaped(to);
    EXPECT_TRUE(factors);
    return *this;
  }
  Chain &transpose(const Numbers &perm) {
    factors = factors->transposed(perm);
    EXPECT_TRUE(factors);
    return *this;
  }
  AxisFactors::Steps steps() const {
    auto found = factors->steps();
    EXPECT_TRUE(found);
    return found ? *found : AxisFactors::Steps();
  }
  std::optional<AxisFactors> factors;
};

TEST(AxisFactors, SizesThatAreEqualKeepTheirOrder) {
  // Batch, sequence, heads and size are all 2: only factors tell them apart.
  Chain chain(floats({2, 2, 4}));
  chain.reshape(floats({2, 4, 2}))
      .transpose({1, 0, 2})
      .reshape(floats({2, 2, 2, 2}));
  EXPECT_EQ(chain.steps().split, (Numbers{2, 2, 2, 2}));
  EXPECT_EQ(chain.steps().perm, (Numbers{1, 2, 0, 3}));
  EXPECT_TRUE(chain.steps().merge.empty());
  EXPECT_TRUE(chain.factors->isView());
}

TEST(AxisFactors, WhatGoesBackIsNothing) {
  Chain chain(floats({2, 3, 4}));
  chain.transpose({1, 0, 2}).reshape(floats({6, 4})).reshape(floats({3, 2, 4}));
  EXPECT_EQ(chain.steps().perm, (Numbers{1, 0, 2}));
  EXPECT_EQ(chain.steps().count(), 1u);
  chain.transpose({1, 0, 2});
  EXPECT_EQ(chain.steps().count(), 0u);
  chain.reshape(floats({6, 4}));
  EXPECT_EQ(chain.steps().merge, (Numbers{6, 4}));
  EXPECT_EQ(chain.steps().count(), 1u);
}

TEST(AxisFactors, AnAxisOfSizeOneIsInNoOnesWay) {
  Chain chain(floats({2, 1, 3}));
  chain.transpose({1, 0, 2});
  EXPECT_TRUE(chain.factors->isInOrder());
  EXPECT_TRUE(chain.factors->isContiguous());
  EXPECT_EQ(chain.steps().merge, (Numbers{1, 2, 3}));
}

TEST(AxisFactors, AMergeOfMovedAxesIsNoViewAndHasNoRows) {
  Chain chain(floats({2, 3, 4}));
  chain.transpose({1, 0, 2});
  EXPECT_TRUE(chain.factors->isView());
  EXPECT_FALSE(chain.factors->hasRows());
  EXPECT_TRUE(chain.factors->keepsLast());
  chain.reshape(floats({6, 4}));
  EXPECT_FALSE(chain.factors->isView());
  EXPECT_TRUE(chain.factors->keepsLast());
  EXPECT_EQ(chain.steps().merge, (Numbers{6, 4}));
  chain.reshape(floats({3, 8}));
  EXPECT_FALSE(chain.factors->keepsLast());
}

TEST(AxisFactors, AReshapeThatFitsNoFactorsHasNone) {
  auto factors = AxisFactors::ofRoot(floats({4, 6}))->transposed(Numbers{1, 0});
  EXPECT_FALSE(factors->reshaped(floats({4, 6})));
  EXPECT_FALSE(factors->reshaped(floats({5, 5})));
  EXPECT_FALSE(AxisFactors::ofRoot(floats({0, 6})));
}

TEST(AxisFactors, SizesByName) {
  const Dim batch{4, "batch"}, seq{8, "seq"}, heads{2, ""}, size{3, ""};
  Chain chain(named({batch, seq, {6, ""}}));
  chain.reshape(named({batch, seq, heads, size})).transpose({0, 2, 1, 3});
  EXPECT_EQ(chain.steps().split, (Numbers{0, 0, 2, 3}));
  EXPECT_EQ(chain.steps().perm, (Numbers{0, 2, 1, 3}));
  chain.transpose({2, 0, 1, 3});
  // Two names in other places: no operand of Reshape says that for all sizes.
  Chain rows(named({{32, "rows"}, {6, ""}}));
  rows.reshape(named({batch, {6, ""}})).transpose({1, 0});
  EXPECT_EQ(rows.steps().perm, (Numbers{1, 0}));
  Chain merged(named({batch, seq, {6, ""}}));
  merged.transpose({1, 0, 2}).reshape(named({{32, "rows"}, {6, ""}}));
  EXPECT_EQ(merged.steps().perm, (Numbers{1, 0, 2}));
  EXPECT_EQ(merged.steps().merge, (Numbers{-1, 6}));
}

TEST(AxisFactors, RowsBehindAProduct) {
  Chain chain(floats({2, 3, 4}));
  chain.transpose({1, 0, 2}).reshape(floats({6, 4}));
  AxisFactors many = chain.factors->withLast({5, {}}, false);
  EXPECT_EQ(many.steps()->perm, (Numbers{1, 0, 2}));
  EXPECT_EQ(many.steps()->merge, (Numbers{6, 5}));
  AxisFactors flat = chain.factors->withLast({5, {}}, true);
  EXPECT_EQ(flat.steps()->split, (Numbers{2, 3, 5}));
  EXPECT_EQ(flat.steps()->perm, (Numbers{1, 0, 2}));
  EXPECT_EQ(flat.steps()->merge, (Numbers{6, 5}));
}

} // namespace
