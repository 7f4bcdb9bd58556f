// Products of numbers and of sizes that only have a name.

#ifndef OFFLOAD_LIB_ANALYSIS_SIZETERMS_H
#define OFFLOAD_LIB_ANALYSIS_SIZETERMS_H

#include "offload/Analysis/ValueLayout.h"

#include <optional>

namespace offload {

using SizeTerm = ValueLayout::Term;

SizeTerm times(const SizeTerm &a, const SizeTerm &b);
/// Nothing where `b` does not divide `a` whatever the names stand for.
std::optional<SizeTerm> dividedBy(const SizeTerm &a, const SizeTerm &b);
/// The size itself, where the type tells it.
std::optional<SizeTerm> termOf(const Dim &dim);

/// Sizes of the result of a Reshape of a value of sizes `from`. A name that
/// `from` does not have stands for a size that must follow from the others.
std::optional<llvm::SmallVector<SizeTerm, 4>>
reshapedSizes(const TensorType &to, llvm::ArrayRef<SizeTerm> from);

/// The element of a constant of one integer.
std::optional<int64_t> constantInteger(const Value *value);

} // namespace offload

#endif // OFFLOAD_LIB_ANALYSIS_SIZETERMS_H
