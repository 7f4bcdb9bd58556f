// How a value lies among the bytes of another one that it is a view of.
//
// A layout holds for every size that dynamic dimensions may have: sizes and
// strides are products of numbers and of dimensions' names. So a view that is
// decided on at the bound is one at every step. The runtime computes the same
// with numbers (Runtime/Views).

#ifndef OFFLOAD_ANALYSIS_VALUELAYOUT_H
#define OFFLOAD_ANALYSIS_VALUELAYOUT_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace offload {

class ValueLayout {
public:
  /// A number times sizes that are not known, by name, in name order.
  struct Term {
    int64_t factor = 1;
    llvm::SmallVector<std::string, 1> names;
    bool isOne() const { return factor == 1 && names.empty(); }
    bool operator==(const Term &) const = default;
  };
  struct Axis {
    Term size, stride; // stride in elements
  };

  /// Of a value that owns its bytes. Nothing where its rank is not known.
  static std::optional<ValueLayout> ofRoot(const TensorType &type);

  /// Of result 0 of a view of a value that lies so; nothing where no strides
  /// reach its elements in their order, or where the operator makes no view.
  std::optional<ValueLayout> through(const Node &view) const;

  /// Whether the elements lie in order and without gaps.
  bool isContiguous() const;
  /// Whether the first element is a multiple of kPartAlignBytes behind the
  /// root's.
  bool isAligned() const { return aligned; }
  llvm::ArrayRef<Axis> dims() const { return axes; }

private:
  std::optional<ValueLayout> transposed(const Node &node) const;
  std::optional<ValueLayout> reshaped(const TensorType &to) const;
  std::optional<ValueLayout> part(const Node &gather) const;

  llvm::SmallVector<Axis, 4> axes;
  int64_t elementBytes = 1;
  bool aligned = true;
};

/// Kernels read 16 bytes at once where they may.
inline constexpr int64_t kPartAlignBytes = 16;

} // namespace offload

#endif // OFFLOAD_ANALYSIS_VALUELAYOUT_H
