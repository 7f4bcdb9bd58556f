// Composes Reshapes and Transposes in terms of factors of axes.
//
// In:  a root's type, the layout nodes behind it.
// Out: the order of the root's factors in the result, their strides, whether
//      that is a view, and the shortest chain of nodes that gives it.
// Not: which chains to replace (passes/SimplifyLayout).
// How: a Transpose permutes axes, each a list of factors. A Reshape hands the
//      factors out anew from the last axis to the first, and splits one where
//      an axis ends within it. An axis of size 1 has no factors, so it is in
//      no one's way; a name that stands for 1 is a factor as any other.

#include "offload/Analysis/AxisFactors.h"

#include "SizeTerms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace offload {

/// A chain's first shape and what its Transpose makes of it.
struct AxisFactors::Grouping {
  llvm::SmallVector<Term, 4> sizes;
  std::vector<int64_t> perm;
};

namespace {

using Term = AxisFactors::Term;

template <typename Factors> Term countOf(const Factors &factors) {
  Term count;
  for (const auto &factor : factors)
    count = times(count, factor.size);
  return count;
}

/// Whether an element of `outer` is `inner` whole.
template <typename Factor>
bool followsOn(const Factor &outer, const Factor &inner) {
  return outer.stride == times(inner.size, inner.stride);
}

template <typename Factors> bool isOneRun(const Factors &factors) {
  for (size_t i = 1; i < factors.size(); ++i)
    if (!followsOn(factors[i - 1], factors[i]))
      return false;
  return true;
}

template <typename Factors> bool isConsecutive(const Factors &factors) {
  for (size_t i = 1; i < factors.size(); ++i)
    if (factors[i].position != factors[i - 1].position + 1)
      return false;
  return true;
}

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

std::optional<AxisFactors> AxisFactors::ofRoot(const TensorType &type) {
  if (!type.hasRank || elementBits(type.elem) < 8)
    return std::nullopt;
  AxisFactors result;
  result.elementBytes = elementBits(type.elem) / 8;
  for (const Dim &dim : type.dims) {
    std::optional<Term> size = termOf(dim);
    if (!size || size->factor == 0)
      return std::nullopt;
    result.rootSizes.push_back(*size);
  }
  result.axes.resize(result.rootSizes.size());
  Term stride;
  for (size_t i = result.axes.size(); i-- > 0;) {
    const Term &size = result.rootSizes[i];
    if (!size.isOne())
      result.axes[i].push_back({size, stride, 0, i});
    stride = times(stride, size);
  }
  result.number();
  return result;
}

bool AxisFactors::isLayoutNode(const Node &node) {
  static constexpr llvm::StringRef kOps[] = {"Reshape", "Transpose", "Squeeze",
                                             "Unsqueeze", "Flatten"};
  return node.domain.empty() && node.queue() == Queue::Compute &&
         node.operand(0) && node.result() &&
         llvm::is_contained(kOps, node.opType);
}

std::optional<AxisFactors> AxisFactors::through(const Node &node) const {
  if (!isLayoutNode(node))
    return std::nullopt;
  if (node.opType != "Transpose")
    return reshaped(node.result()->type);
  if (const auto *perm = intsAttribute(node.attributes, "perm"))
    return transposed(*perm);
  std::vector<int64_t> reversed(axes.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return transposed(reversed);
}

std::optional<AxisFactors>
AxisFactors::transposed(llvm::ArrayRef<int64_t> perm) const {
  if (perm.size() != axes.size())
    return std::nullopt;
  AxisFactors result = *this;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (perm[i] < 0 || perm[i] >= static_cast<int64_t>(axes.size()))
      return std::nullopt;
    result.axes[i] = axes[perm[i]];
  }
  return result;
}

/// Takes as many of the last factors as make an axis of `size`.
std::optional<AxisFactors::Axis>
AxisFactors::take(const Term &size, llvm::SmallVectorImpl<Factor> &rest) const {
  Axis axis;
  Term open = size;
  while (!open.isOne()) {
    if (rest.empty())
      return std::nullopt;
    Factor &last = rest.back();
    if (std::optional<Term> left = dividedBy(open, last.size)) {
      open = *left;
      axis.insert(axis.begin(), last);
      rest.pop_back();
      continue;
    }
    std::optional<Term> outer = dividedBy(last.size, open);
    if (!outer)
      return std::nullopt;
    axis.insert(axis.begin(),
                Factor{open, last.stride, last.position, last.rootAxis});
    last = {*outer, times(last.stride, open), last.position, last.rootAxis};
    break;
  }
  return axis;
}

std::optional<AxisFactors> AxisFactors::reshaped(const TensorType &to) const {
  if (!to.hasRank)
    return std::nullopt;
  llvm::SmallVector<Factor, 6> rest = sequence();
  llvm::SmallVector<Term, 4> from;
  for (const Factor &factor : rest)
    from.push_back(factor.size);
  auto wanted = reshapedSizes(to, from);
  if (!wanted)
    return std::nullopt;
  AxisFactors result = *this;
  result.axes.assign(wanted->size(), {});
  for (size_t i = wanted->size(); i-- > 0;) {
    std::optional<Axis> axis = take((*wanted)[i], rest);
    if (!axis)
      return std::nullopt;
    result.axes[i] = std::move(*axis);
  }
  if (!rest.empty())
    return std::nullopt;
  result.number();
  return result;
}

std::optional<AxisFactors> AxisFactors::part(const Node &gather) const {
  std::optional<int64_t> index = constantInteger(gather.operand(1));
  int64_t rank = static_cast<int64_t>(axes.size());
  int64_t axis = intAttribute(gather.attributes, "axis", 0);
  axis += axis < 0 ? rank : 0;
  if (!gather.domain.empty() || gather.opType != "Gather" || !index ||
      !gather.isLaunchOperand(1) || axis < 0 || axis >= rank || !isView())
    return std::nullopt;
  AxisFactors result = root();
  const Axis &taken = axes[axis];
  // From the end of an axis of any size: whole strides in any case.
  int64_t steps = *index;
  if (steps < 0)
    steps = countOf(taken).names.empty() ? steps + countOf(taken).factor : 1;
  if (!taken.empty() &&
      steps * taken.back().stride.factor * elementBytes % kPartAlignBytes != 0)
    return std::nullopt;
  result.axes = axes;
  result.axes.erase(result.axes.begin() + axis);
  result.axes.insert(result.axes.begin() + axis,
                     gather.operand(1)->type.dims.size(), Axis());
  result.rootSizes = result.sizes();
  size_t position = 0;
  for (size_t i = 0; i < result.axes.size(); ++i)
    for (Factor &factor : result.axes[i]) {
      factor.position = position++;
      factor.rootAxis = i;
    }
  return result;
}

AxisFactors AxisFactors::merged(size_t axis) const {
  AxisFactors result = *this;
  result.axes[axis].append(axes[axis + 1]);
  result.axes.erase(result.axes.begin() + axis + 1);
  return result;
}

AxisFactors AxisFactors::withLast(const Term &size, bool flat) const {
  AxisFactors result = *this;
  size_t last = flat ? 1 : rootSizes.size() - 1;
  result.axes.back().clear();
  llvm::SmallVector<Factor, 6> line = result.sequence();
  if (flat)
    result.rootSizes = {countOf(line), size};
  else
    result.rootSizes.back() = size;
  if (!size.isOne())
    result.axes.back().push_back({size, Term(), line.size(), last});
  llvm::SmallVector<Factor *, 6> inRootOrder(line.size() + !size.isOne());
  for (Axis &axis : result.axes)
    for (Factor &factor : axis) {
      if (flat && factor.position < line.size())
        factor.rootAxis = 0;
      inRootOrder[factor.position] = &factor;
    }
  Term stride;
  for (Factor *factor : llvm::reverse(inRootOrder)) {
    factor->stride = stride;
    stride = times(stride, factor->size);
  }
  return result;
}

AxisFactors AxisFactors::root() const {
  AxisFactors result = *this;
  result.axes.assign(rootSizes.size(), {});
  llvm::SmallVector<Factor, 6> line = sequence();
  llvm::sort(line, [](const Factor &a, const Factor &b) {
    return a.position < b.position;
  });
  for (const Factor &factor : line)
    result.axes[factor.rootAxis].push_back(factor);
  return result;
}

llvm::SmallVector<AxisFactors::Factor, 6> AxisFactors::sequence() const {
  llvm::SmallVector<Factor, 6> line;
  for (const Axis &axis : axes)
    line.append(axis);
  return line;
}

/// Parts of a factor that was split have one position and are in order.
void AxisFactors::number() {
  llvm::SmallVector<Factor *, 6> line;
  for (Axis &axis : axes)
    for (Factor &factor : axis)
      line.push_back(&factor);
  std::stable_sort(line.begin(), line.end(),
                   [](const Factor *a, const Factor *b) {
                     return std::pair(a->position, a->rootAxis) <
                            std::pair(b->position, b->rootAxis);
                   });
  for (size_t i = 0; i < line.size(); ++i)
    line[i]->position = i;
}

llvm::SmallVector<Term, 4> AxisFactors::sizes() const {
  llvm::SmallVector<Term, 4> result;
  for (const Axis &axis : axes)
    result.push_back(countOf(axis));
  return result;
}

bool AxisFactors::isView() const {
  return llvm::all_of(axes, [](const Axis &axis) { return isOneRun(axis); });
}

bool AxisFactors::isContiguous() const {
  llvm::SmallVector<Factor, 6> line = sequence();
  return isOneRun(line) && (line.empty() || line.back().stride.isOne());
}

bool AxisFactors::hasRows() const {
  if (axes.empty() || !isView())
    return false;
  AxisFactors leading = *this;
  leading.axes.pop_back();
  const Axis &last = axes.back();
  return isOneRun(leading.sequence()) &&
         (last.empty() || last.back().stride.isOne());
}

bool AxisFactors::keepsLast() const {
  if (axes.empty() || rootSizes.empty() || !isConsecutive(axes.back()))
    return false;
  const Axis &last = axes.back();
  return countOf(last) == rootSizes.back() &&
         llvm::all_of(last, [&](const Factor &factor) {
           return factor.rootAxis + 1 == rootSizes.size();
         });
}

bool AxisFactors::isInOrder() const { return isConsecutive(sequence()); }

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
