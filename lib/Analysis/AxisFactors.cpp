// Composes Reshapes and Transposes in terms of factors of axes.
//
// In:  a root's type, the layout nodes behind it.
// Out: the order of the root's factors in the result, their strides, and
// whether
//      that is a view.
// Not: the chain of nodes that gives it (AxisSteps).
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

namespace {

using Term = AxisFactors::Term;

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

Term AxisFactors::countOf(llvm::ArrayRef<Factor> factors) {
  Term count;
  for (const Factor &factor : factors)
    count = times(count, factor.size);
  return count;
}

bool AxisFactors::isConsecutive(llvm::ArrayRef<Factor> factors) {
  for (size_t i = 1; i < factors.size(); ++i)
    if (factors[i].position != factors[i - 1].position + 1)
      return false;
  return true;
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

} // namespace offload
