// A `.off` as a flat list: what the runtime knows of a file before it runs it.
//
//   Program program = Program::read("model.off", {});
//
// Values and nodes are numbered; a node names its operands by number, and node
// order is issue order. Reading checks the form and all rules of docs/format.md
// that need neither sizes of intermediate values nor the order of queues (the
// launch list is proved later). Standard library only.

#ifndef OFFLOAD_RUNTIME_PROGRAM_H
#define OFFLOAD_RUNTIME_PROGRAM_H

#include "offload/OffFormat/Attributes.h"
#include "offload/OffFormat/Operators.h"
#include "offload/OffFormat/Queue.h"
#include "offload/Runtime/Tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offload::rt {

/// No value, no node.
inline constexpr uint32_t kNone = ~0u;

/// Size of one axis of an input, output or constant.
struct Dimension {
  int64_t size = -1; // fixed, or the bound; -1: dynamic without a bound
  std::string name;  // "": fixed, or dynamic without a name
  bool isFixed() const { return name.empty() && size >= 0; }
};

/// Where a value's bytes lie.
enum class Home : uint8_t {
  Host,   // graph inputs, constants, results of d2h and host nodes
  Device, // in the arena
  Launch, // known to the launching thread before the step
  Token   // no bytes: order only
};

struct ProgramValue {
  std::string name;
  Home home = Home::Host;
  uint32_t maker = kNone; // node; kNone: a graph input or a constant
  bool isInput = false;
  bool isOutput = false;
  /// As the file declares them. Sizes and types of what nodes make come from
  /// the dry run, which refuses a file that declares others; Undefined: it
  /// declares none.
  DataType type = DataType::Undefined;
  std::vector<Dimension> dims;
  /// A constant's contents, or the default of an input; the program's memory or
  /// a mapped file.
  bool hasContents = false;
  std::span<const std::byte> contents;
  std::vector<int64_t> contentDims;
  /// Copied to the device once, at load.
  bool resident = false;
  /// Range in the arena, as planned; -1: none.
  int64_t offset = -1;
  int64_t plannedBytes = 0;
  /// Whose bytes these are: itself, or through views and Waits another value.
  uint32_t root = kNone;
  /// Of a root: the value whose bytes it takes over, or kNone.
  uint32_t inPlaceOf = kNone;
  /// Of a state's input: the output with its next value. Of that output: the
  /// input.
  uint32_t next = kNone;
  uint32_t stateOf = kNone;
  std::vector<uint32_t> readers; // nodes that name it, in node order

  bool isConstant() const { return hasContents && !isInput; }
  bool isState() const { return next != kNone; }
  /// What a caller gives to each run.
  bool isFeed() const { return isInput && !isState(); }
  /// What a run gives to its caller.
  bool isResult() const { return isOutput && stateOf == kNone; }
};

struct ProgramNode {
  std::string name;
  const OperatorInfo *op = nullptr;
  int sinceVersion = 1;
  AttributeMap attributes;
  Queue queue = Queue::Compute;
  std::vector<uint32_t> operands; // kNone: absent
  std::vector<uint32_t> outputs;  // kNone: nobody wants it
  int64_t scratchBytes = 0;       // planned
  bool isView = false;            // output 0 names operand 0's bytes
  uint32_t launchOperands = 0;    // bit i: known before the step, not data

  bool is(Op id) const { return op->id == id; }
  bool isCopy() const {
    return is(Op::Offload_Stage) || is(Op::Offload_Fetch) ||
           is(Op::Offload_GradTransfer);
  }
  /// Of a copy: how many values travel. Operand `numParts()` is `after`.
  unsigned numParts() const { return static_cast<unsigned>(outputs.size()); }
  /// Runs a kernel on a queue; the rest are copies, order, views and what the
  /// launching thread computes.
  bool isKernel() const {
    return (queue == Queue::Compute || queue == Queue::Host) && !isView &&
           !is(Op::Offload_Wait) && !is(Op::Offload_Release);
  }
  /// Operand `i` is known before the step starts, not data.
  bool isLaunchOperand(unsigned i) const {
    return i < 32 && (launchOperands >> i & 1);
  }
};

/// A node that the compiler ran: what it made are constants, or led to some.
struct FoldedNode {
  std::string name;
  const OperatorInfo *op = nullptr; // of a row with shape arithmetic
  int sinceVersion = 1;
  AttributeMap attributes;
  /// Names of their own ("": absent). Where nothing before it in
  /// Program::folded makes it, an operand is the constant of that name.
  std::vector<std::string> operands, outputs;
};

class DataFiles;

struct Program {
  std::string path;
  std::vector<ProgramValue> values;
  std::vector<ProgramNode> nodes;   // in issue order
  std::vector<uint32_t> inputs;     // values, in the file's order
  std::vector<uint32_t> outputs;    // likewise
  std::vector<FoldedNode> folded;   // in order
  std::vector<uint32_t> foldedFrom; // constants that these read
  std::vector<uint32_t> foldedTo;   // constants that these made
  int64_t peakBytes = 0;            // largest end of a planned range
  int64_t scratchOffset = 0;        // of the range for all scratch
  int64_t scratchBytes = 0;         //
  int64_t predictedStepNs = 0;      // 0: the file does not say
  int64_t plannedPeakBytes = -1;    // likewise -1
  int64_t deviceMemoryBytes = -1;   //
  std::shared_ptr<DataFiles> files; // owns what `contents` point to

  /// Reads and checks a file. `dataFolders`: where external data may lie
  /// besides the file's own folder. Throws Error.
  static Program read(const std::string &path,
                      const std::vector<std::string> &dataFolders);

  /// "[fc1] Gemm on compute", for messages.
  std::string describe(uint32_t node) const;
  uint32_t findValue(std::string_view name) const; // or kNone
};

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_PROGRAM_H
