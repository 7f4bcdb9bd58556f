// The shortest chain of nodes that gives an order of factors.
//
// In:  factors of a root's axes, in the order of a result.
// Out: a Reshape, a Transpose and a Reshape, or less.
// Not: what the factors are (AxisFactors); which chains to replace
//      (passes/SimplifyLayout).
// How: a Transpose moves groups of factors. Groups that are the result's axes
//      need no Reshape behind, groups that are the root's none before; runs of
//      factors that stay together always do. The shortest of the three counts.

#include "offload/Analysis/AxisFactors.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace offload {

/// A chain's first shape and what its Transpose makes of it.
struct AxisFactors::Grouping {
  llvm::SmallVector<Term, 4> sizes;
  std::vector<int64_t> perm;
};

namespace {

using Term = AxisFactors::Term;

/// Reshape's operand that gives `to` of `from` for every size.
std::optional<std::vector<int64_t>> reshapeTarget(llvm::ArrayRef<Term> to,
                                                  llvm::ArrayRef<Term> from) {
  std::vector<int64_t> target;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].names.empty())
      target.push_back(to[i].factor);
    else if (i < from.size() && from[i] == to[i])
      target.push_back(0);
    else
      target.push_back(-1);
  }
  if (llvm::count(target, -1) > 1)
    return std::nullopt;
  return target;
}

} // namespace

/// The root in as many axes as the result has: no Reshape behind.
std::optional<AxisFactors::Grouping> AxisFactors::byResult() const {
  llvm::SmallVector<std::pair<size_t, size_t>, 5> order; // position, axis
  size_t end = sequence().size();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!isConsecutive(axes[i]))
      return std::nullopt;
    order.push_back({axes[i].empty() ? end : axes[i].front().position, i});
  }
  llvm::sort(order);
  Grouping grouping;
  grouping.perm.resize(axes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    grouping.sizes.push_back(countOf(axes[order[i].second]));
    grouping.perm[order[i].second] = static_cast<int64_t>(i);
  }
  return grouping;
}

/// The root's axes as they are: no Reshape before.
std::optional<AxisFactors::Grouping> AxisFactors::byRoot() const {
  Grouping grouping;
  grouping.sizes = rootSizes;
  llvm::SmallVector<int64_t, 4> ones;
  for (size_t i = rootSizes.size(); i-- > 0;)
    if (rootSizes[i].isOne())
      ones.push_back(static_cast<int64_t>(i));
  const Factor *before = nullptr;
  for (const Axis &axis : axes) {
    if (axis.empty() && !ones.empty())
      grouping.perm.push_back(ones.pop_back_val());
    for (const Factor &factor : axis) {
      bool goesOn = before && before->rootAxis == factor.rootAxis;
      if (goesOn && factor.position != before->position + 1)
        return std::nullopt;
      if (!goesOn)
        grouping.perm.push_back(static_cast<int64_t>(factor.rootAxis));
      before = &factor;
    }
  }
  grouping.perm.insert(grouping.perm.end(), ones.rbegin(), ones.rend());
  if (grouping.perm.size() != rootSizes.size()) // an axis came in two parts
    return std::nullopt;
  return grouping;
}

/// What stays together as one axis.
AxisFactors::Grouping AxisFactors::byRun() const {
  AxisFactors runs;
  for (const Factor &factor : sequence()) {
    if (runs.axes.empty() ||
        runs.axes.back().back().position + 1 != factor.position)
      runs.axes.emplace_back();
    runs.axes.back().push_back(factor);
  }
  return *runs.byResult();
}

std::optional<AxisFactors::Steps>
AxisFactors::stepsBy(const Grouping &grouping) const {
  Steps result;
  auto reshape = [](llvm::ArrayRef<Term> to, llvm::ArrayRef<Term> from,
                    std::vector<int64_t> &target) {
    if (to == from)
      return true;
    auto found = reshapeTarget(to, from);
    if (found)
      target = std::move(*found);
    return found.has_value();
  };
  result.splitSizes = grouping.sizes;
  for (int64_t axis : grouping.perm)
    result.permSizes.push_back(grouping.sizes[axis]);
  result.perm = grouping.perm;
  if (!reshape(result.splitSizes, rootSizes, result.split) ||
      !reshape(sizes(), result.permSizes, result.merge))
    return std::nullopt;
  return result;
}

std::optional<AxisFactors::Steps> AxisFactors::steps() const {
  if (isInOrder()) {
    Steps result;
    if (sizes() == rootSizes)
      return result;
    auto target = reshapeTarget(sizes(), rootSizes);
    if (!target)
      return std::nullopt;
    result.merge = std::move(*target);
    return result;
  }
  std::optional<Steps> best;
  for (const std::optional<Grouping> &grouping :
       {byResult(), byRoot(), std::optional<Grouping>(byRun())}) {
    if (!grouping)
      continue;
    std::optional<Steps> found = stepsBy(*grouping);
    if (found && (!best || found->count() < best->count()))
      best = std::move(found);
  }
  return best;
}

} // namespace offload
