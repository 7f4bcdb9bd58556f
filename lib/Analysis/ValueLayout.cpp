// Follows strides through views, for all sizes at once.
//
// In:  the layout of an operand, a node that may give its elements other names.
// Out: the layout of the result, or nothing.
// Not: whether the node makes a view (Schedule/StepModel decides by this, the
//      schedule's `view` says so).
// How: a Reshape goes from the last axis to the first: operand's axes that lie
//      one behind the other form a run, and the result's axes must fill run
//      after run. That is exact for numbers; for products of names it finds
//      what holds whatever the names stand for. One size of the result that no
//      name tells follows from the number of elements.

#include "offload/Analysis/ValueLayout.h"

#include "SizeTerms.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {

namespace {

using Term = ValueLayout::Term;
using Axis = ValueLayout::Axis;

llvm::SmallVector<Term, 4> sizesOf(llvm::ArrayRef<Axis> axes) {
  llvm::SmallVector<Term, 4> sizes;
  for (const Axis &axis : axes)
    sizes.push_back(axis.size);
  return sizes;
}

/// Gives the axes before `end` of `to` strides until they fill `count`
/// elements, `stride` apart; false where they do not.
bool fillRun(const Term &count, const Term &stride,
             llvm::MutableArrayRef<Axis> to, size_t &end) {
  Term filled;
  while (end > 0 && (!(filled == count) || to[end - 1].size.isOne())) {
    Axis &axis = to[--end];
    axis.stride = times(filled, stride);
    filled = times(filled, axis.size);
    if (!dividedBy(count, filled))
      return false;
  }
  return filled == count;
}

bool isStandard(const Node &node,
                std::initializer_list<llvm::StringRef> opTypes) {
  return node.domain.empty() && llvm::is_contained(opTypes, node.opType);
}

} // namespace

std::optional<ValueLayout> ValueLayout::ofRoot(const TensorType &type) {
  if (!type.hasRank || elementBits(type.elem) < 8)
    return std::nullopt;
  ValueLayout layout;
  layout.elementBytes = elementBits(type.elem) / 8;
  layout.axes.resize(type.dims.size());
  Term stride;
  for (size_t i = type.dims.size(); i-- > 0;) {
    std::optional<Term> size = termOf(type.dims[i]);
    if (!size)
      return std::nullopt;
    layout.axes[i] = {*size, stride};
    stride = times(stride, *size);
  }
  return layout;
}

bool ValueLayout::isContiguous() const {
  Term stride;
  for (const Axis &axis : llvm::reverse(axes)) {
    if (!axis.size.isOne() && !(axis.stride == stride))
      return false;
    stride = times(stride, axis.size);
  }
  return true;
}

std::optional<ValueLayout> ValueLayout::through(const Node &view) const {
  if (!view.operand(0) || !view.result())
    return std::nullopt;
  if (view.isOffload("Wait") || isStandard(view, {"Identity", "Dropout"}))
    return *this;
  if (isStandard(view, {"Transpose"}))
    return transposed(view);
  if (isStandard(view, {"Gather"}))
    return part(view);
  if (isStandard(view, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}))
    return reshaped(view.result()->type);
  return std::nullopt;
}

std::optional<ValueLayout> ValueLayout::transposed(const Node &node) const {
  const auto *given = intsAttribute(node.attributes, "perm");
  if (given && given->size() != axes.size())
    return std::nullopt;
  ValueLayout result = *this;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t from =
        given ? (*given)[i] : static_cast<int64_t>(axes.size() - 1 - i);
    if (from < 0 || from >= static_cast<int64_t>(axes.size()))
      return std::nullopt;
    result.axes[i] = axes[from];
  }
  return result;
}

std::optional<ValueLayout> ValueLayout::reshaped(const TensorType &to) const {
  if (!to.hasRank)
    return std::nullopt;
  auto sizes = reshapedSizes(to, sizesOf(axes));
  if (!sizes && isContiguous()) {
    std::optional<ValueLayout> fresh = ofRoot(to);
    if (fresh)
      fresh->aligned = aligned;
    return fresh;
  }
  if (!sizes)
    return std::nullopt;
  ValueLayout result = *this;
  result.axes.clear();
  for (Term &size : *sizes)
    result.axes.push_back({std::move(size), Term()});
  size_t end = result.axes.size();
  Term run, stride = axes.empty() ? Term() : axes.back().stride;
  for (size_t i = axes.size(); i-- > 0;) {
    run = times(run, axes[i].size);
    bool goesOn = i > 0 && (axes[i - 1].size.isOne() ||
                            axes[i - 1].stride == times(run, stride));
    if (goesOn)
      continue;
    if (!fillRun(run, stride, result.axes, end))
      return std::nullopt;
    if (i > 0)
      stride = axes[i - 1].stride;
    run = Term();
  }
  for (; end > 0; --end) { // of size 1 before all of the operand's
    if (!result.axes[end - 1].size.isOne())
      return std::nullopt;
  }
  return result;
}

/// One place along an axis; as many axes of size 1 as the index has.
std::optional<ValueLayout> ValueLayout::part(const Node &gather) const {
  int64_t axis = intAttribute(gather.attributes, "axis", 0);
  if (axis < 0)
    axis += static_cast<int64_t>(axes.size());
  std::optional<int64_t> index = constantInteger(gather.operand(1));
  if (!index || !gather.isLaunchOperand(1) || axis < 0 ||
      axis >= static_cast<int64_t>(axes.size()))
    return std::nullopt;
  const Axis &taken = axes[axis];
  ValueLayout result = *this;
  result.axes.erase(result.axes.begin() + axis);
  result.axes.insert(result.axes.begin() + axis,
                     gather.operand(1)->type.dims.size(), Axis());
  int64_t steps = *index;
  if (steps < 0 && taken.size.names.empty())
    steps += taken.size.factor;
  // From the end of an axis of any size: whole strides in any case.
  if (*index < 0 && !taken.size.names.empty())
    steps = 1;
  result.aligned &=
      steps * taken.stride.factor * elementBytes % kPartAlignBytes == 0;
  return result;
}

} // namespace offload
