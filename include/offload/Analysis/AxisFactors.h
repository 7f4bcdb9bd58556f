// What a chain of Reshapes and Transposes does to the axes of a value.
//
// The axes of the value that the chain starts from, its root, are split into
// factors; the chain's result is these factors in another order, grouped to
// axes. Unlike ValueLayout this tells also what no strides reach: which copy
// the chain means, and the shortest chain that means the same. It holds for
// every size of dynamic dimensions, a size of 1 among them.

#ifndef OFFLOAD_ANALYSIS_AXISFACTORS_H
#define OFFLOAD_ANALYSIS_AXISFACTORS_H

#include "offload/Analysis/ValueLayout.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace offload {

class AxisFactors {
public:
  using Term = ValueLayout::Term;

  /// At most a Reshape, a Transpose and a Reshape. `split` and `merge` are
  /// operands of Reshape: 0 copies the operand's axis, -1 (at most one) follows
  /// from the others. Empty: no such node.
  struct Steps {
    std::vector<int64_t> split, perm, merge;
    llvm::SmallVector<Term, 4> splitSizes, permSizes; // of their results
    unsigned count() const {
      return !split.empty() + !perm.empty() + !merge.empty();
    }
  };

  /// Of a value as it is, which lies contiguous. Nothing where a size is not
  /// known by number or name, or is 0.
  static std::optional<AxisFactors> ofRoot(const TensorType &type);

  /// Whether the node only moves or regroups axes of operand 0.
  static bool isLayoutNode(const Node &node);
  /// Of the result of a layout node; nothing where a size does not divide.
  std::optional<AxisFactors> through(const Node &node) const;
  /// Of the result of a Gather of one part, as a root of its own that lies
  /// within this one; nothing where that is no view.
  std::optional<AxisFactors> part(const Node &gather) const;
  std::optional<AxisFactors> transposed(llvm::ArrayRef<int64_t> perm) const;
  std::optional<AxisFactors> reshaped(const TensorType &to) const;
  /// Axes `axis` and the one behind it as one.
  AxisFactors merged(size_t axis) const;
  /// The same order of leading axes, of a contiguous root whose last axis has
  /// another size; that axis must keepLast(). `flat`: the root has its leading
  /// axes as one.
  AxisFactors withLast(const Term &size, bool flat) const;
  /// The root of it: its leading axes as they are.
  AxisFactors root() const;

  /// Whether strides reach the elements in their order.
  bool isView() const;
  /// Whether they lie in order and without gaps.
  bool isContiguous() const;
  /// Whether the leading axes are rows at one distance, each without gaps.
  bool hasRows() const;
  /// Whether the last axis is the root's.
  bool keepsLast() const;
  /// Whether the factors are in the root's order.
  bool isInOrder() const;

  /// The shortest chain from the root; nothing where Reshape has no operand
  /// that says it for every size.
  std::optional<Steps> steps() const;
  llvm::SmallVector<Term, 4> sizes() const;

private:
  struct Factor {
    Term size, stride;
    size_t position; // among all factors of the root
    size_t rootAxis;
  };
  using Axis = llvm::SmallVector<Factor, 2>;
  struct Grouping;

  static Term countOf(llvm::ArrayRef<Factor> factors);
  /// Whether they lie one behind the other in the root, in order.
  static bool isConsecutive(llvm::ArrayRef<Factor> factors);
  llvm::SmallVector<Factor, 6> sequence() const;
  void number();
  std::optional<Axis> take(const Term &size,
                           llvm::SmallVectorImpl<Factor> &rest) const;
  std::optional<Grouping> byResult() const;
  std::optional<Grouping> byRoot() const;
  Grouping byRun() const;
  std::optional<Steps> stepsBy(const Grouping &grouping) const;

  llvm::SmallVector<Axis, 5> axes; // of size 1: without factors
  llvm::SmallVector<Term, 4> rootSizes;
  int64_t elementBytes = 1;
};

} // namespace offload

#endif // OFFLOAD_ANALYSIS_AXISFACTORS_H
