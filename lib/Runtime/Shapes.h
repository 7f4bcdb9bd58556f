// Shapes, layouts and launch values of one step: all that follows from the
// feeds before anything runs.

#ifndef OFFLOAD_LIB_RUNTIME_SHAPES_H
#define OFFLOAD_LIB_RUNTIME_SHAPES_H

#include "DryRun.h"

#include "offload/OffFormat/ShapeArithmetic.h"
#include "offload/Runtime/Program.h"

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace offload::rt {

using HostValuePointer = std::shared_ptr<const HostValue>;

/// One value of a step.
struct BoundValue {
  bool isKnown =
      false; // false: depends on feeds' values that are not there yet
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides; // in elements
  int64_t bytes = 0;            // contiguous
  int64_t offsetBytes = 0;      // of the first element behind the root's
};

/// All steps with the same feeds' shapes share one. Immutable once made.
struct Binding {
  std::vector<BoundValue> values;       // by value
  std::vector<HostValuePointer> launch; // by value; null: not known, or fed
  std::vector<KernelCall> calls;        // by node; data pointers are null
  std::vector<std::shared_ptr<const KernelProfile>> profiles; // by node
  int64_t hostScratchBytes = 0; // that kernels on the host queue share
};

/// What a caller feeds, by value number: null data means the default. For the
/// bound, no values are there at all.
struct FeedShapes {
  std::vector<std::vector<int64_t>> dims; // by position in Program::inputs
  std::vector<HostValuePointer> values;   // likewise; of feeds read at launch
};

/// Launch values of one run that feeds' values have a say in.
using FedValues = std::vector<HostValuePointer>;

class Shapes {
public:
  /// `deterministic`: of all calls, see KernelCall.
  Shapes(const Program &program, Device &device, bool deterministic);

  /// Binds at the bound of every dimension. Nodes whose shapes depend on the
  /// values of feeds are left unknown. Throws Error that names the node: what
  /// does not fit its planned place, or its planned scratch.
  std::shared_ptr<const Binding> bindAtBound();
  /// Binds for a run. Throws likewise.
  std::shared_ptr<const Binding> bind(const FeedShapes &feeds);

  /// Whether the launching thread reads this constant.
  bool readsConstant(uint32_t value) const {
    return constants[value] != nullptr;
  }
  /// Replaces constants that it reads, and forgets all bindings. `bound` is
  /// what bindAtBound() gave. Throws Error, and changes nothing, where a size
  /// would be another one: everything was planned for the first.
  void setConstants(const std::map<uint32_t, HostValuePointer> &changes,
                    const Binding &bound);

  /// Whether the launching thread reads the value of this input.
  bool readsValueOf(uint32_t input) const { return fedIndex[input] != kNone; }
  /// Evaluates what depends on the values of feeds.
  FedValues evaluateFed(const Binding &binding, const FeedShapes &feeds) const;
  /// The value of a launch operand in a run.
  const HostValue *launchValue(const Binding &binding, const FedValues &fed,
                               uint32_t value) const {
    uint32_t index = fedIndex[value];
    return index == kNone ? binding.launch[value].get() : fed[index].get();
  }
  unsigned numProfiles() const { return dryRun.numProfiles(); }
  /// As DryRun::useMemory. `residents`: null, or the arena once it holds them;
  /// then dry runs read constants there, as a table may be larger than what is
  /// left.
  void useMemory(std::byte *start, int64_t bytes, std::byte *residents) {
    dryRun.useMemory(start, bytes);
    arena = residents;
  }

private:
  friend class Binder;
  void findFedValues();
  bool decidesShapes(uint32_t value) const;

  const Program &program;
  bool deterministic;
  DryRun dryRun;
  std::byte *arena = nullptr;              // with residents in it
  std::vector<HostValuePointer> constants; // by value; of launch constants
  std::vector<uint32_t> fedIndex;          // by value, or kNone
  uint32_t numFed = 0;
  std::vector<bool> shaping; // by value: a fed value that decides shapes
  static constexpr size_t kMostBindings = 16;
  std::list<std::pair<std::string, std::shared_ptr<const Binding>>> recent;
};

/// Layout of a view's result over its operand's bytes. `launch`: the value of
/// operand 1 where there is one. Throws Error without the node's name.
BoundValue viewOf(const ProgramNode &node, const BoundValue &operand,
                  const HostValue *launch);

/// Contiguous, row-major.
BoundValue contiguousValue(DataType type, std::vector<int64_t> dims);
bool isContiguous(const BoundValue &value);
std::string printShape(DataType type, const std::vector<int64_t> &dims);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_SHAPES_H
