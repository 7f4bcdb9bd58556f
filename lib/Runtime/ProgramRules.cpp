// Checks a program against the rules of docs/format.md.
//
// In:  a program as its file says.
// Out: nothing, or one error that names node, value and the rule.
// Not: order between queues and meeting bytes (OffFormat/HappensBefore on the
//      launch list), sizes (Shapes).

#include "ProgramRules.h"

#include "offload/Runtime/Kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace offload::rt {

namespace {

constexpr std::string_view kOverloads[] = {"", "two", "three", "four"};

class Rules {
public:
  explicit Rules(const Program &program) : program(program) {}

  void run() {
    for (uint32_t i = 0; i < program.nodes.size(); ++i)
      checkNode(i);
    for (const ProgramValue &value : program.values) {
      checkRange(value);
      if (value.isInput && value.isState())
        checkState(value);
      if (value.isResult())
        checkResult(value);
    }
    checkPeak();
  }

private:
  [[noreturn]] void refuse(uint32_t node, const std::string &what) const {
    throw Error(program.describe(node) + " " + what);
  }
  const ProgramValue &valueOf(uint32_t number) const {
    return program.values[number];
  }

  void checkNode(uint32_t number) const;
  void checkQueue(uint32_t number) const;
  void checkCopy(uint32_t number) const;
  void checkKernel(uint32_t number) const;
  void checkData(uint32_t number, unsigned operand) const;
  void checkLaunchNode(uint32_t number) const;
  void checkView(uint32_t number) const;
  void checkInPlace(uint32_t number) const;
  void checkWaited(uint32_t number) const;
  void checkRange(const ProgramValue &value) const;
  void checkState(const ProgramValue &input) const;
  void checkResult(const ProgramValue &value) const;
  void checkPeak() const;
  bool takesOver(const ProgramValue &value, uint32_t resident) const;

  const Program &program;
};

void Rules::checkNode(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  checkQueue(number);
  std::string reason = unsupportedReason(*node.op, node.sinceVersion,
                                         node.attributes, node.numParts());
  if (!reason.empty())
    refuse(number, reason);
  if (node.isCopy())
    checkCopy(number);
  else if (node.queue == Queue::Launch)
    checkLaunchNode(number);
  else if (node.isView)
    checkView(number);
  else if (node.isKernel())
    checkKernel(number);
  if (node.queue == Queue::Compute && !node.is(Op::Offload_Wait))
    checkWaited(number);
}

void Rules::checkQueue(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  bool isOwn = node.queue == node.op->queue;
  bool isMovable =
      node.op->queue == Queue::Compute || node.op->queue == Queue::Host;
  bool isOrder = node.is(Op::Offload_Wait) || node.is(Op::Offload_Release);
  bool goes = node.queue == Queue::Compute || node.queue == Queue::Host ||
              node.queue == Queue::Launch;
  if (!isOwn && (!isMovable || isOrder || !goes))
    refuse(number, "cannot run there");
}

void Rules::checkCopy(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  bool isStage = node.is(Op::Offload_Stage);
  for (unsigned i = 0; i < node.numParts(); ++i) {
    if (node.outputs[i] == kNone || node.operands[i] == kNone)
      refuse(number, "copies a part that is absent");
    const ProgramValue &from = valueOf(node.operands[i]);
    bool fits = isStage ? from.home == Home::Host || from.home == Home::Launch
                        : from.home == Home::Device;
    if (!fits)
      refuse(number, "copies '" + from.name + "', which is not on the " +
                         (isStage ? "host" : "device"));
    if (!isStage || i == 0)
      continue;
    const ProgramValue &before = valueOf(node.outputs[i - 1]);
    const ProgramValue &value = valueOf(node.outputs[i]);
    if (value.offset != before.offset + alignUp(before.plannedBytes))
      refuse(number,
             "copies '" + before.name + "' and '" + value.name +
                 "', which do not lie one behind the other in the "
                 "arena: offset=" +
                 std::to_string(value.offset) + " is not " +
                 std::to_string(before.offset + alignUp(before.plannedBytes)));
  }
}

/// Operand `operand` is read as data by a kernel.
void Rules::checkData(uint32_t number, unsigned operand) const {
  const ProgramNode &node = program.nodes[number];
  const ProgramValue &value = valueOf(node.operands[operand]);
  if (node.isLaunchOperand(operand)) {
    bool isKnown =
        value.home == Home::Launch || value.isConstant() || value.isFeed();
    if (!isKnown)
      refuse(number,
             "needs '" + value.name +
                 "' before the step starts, and that is not known then");
    return;
  }
  if (value.home == Home::Token)
    refuse(number, "reads the token '" + value.name + "' as data");
  if (node.queue == Queue::Compute &&
      !(value.home == Home::Device || valueOf(value.root).resident))
    refuse(number,
           "reads '" + value.name +
               "', which is on the host: stage it, or make it resident");
  if (node.queue == Queue::Host && value.home == Home::Device)
    refuse(number, "reads '" + value.name +
                       "', which is on the device: fetch it first");
}

void Rules::checkKernel(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  if (!hasKernel(node.op->id))
    refuse(number, "has no kernel");
  for (unsigned i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] != kNone)
      checkData(number, i);
  for (uint32_t output : node.outputs) {
    if (output == kNone || node.queue != Queue::Compute)
      continue;
    const ProgramValue &value = valueOf(output);
    if (value.offset < 0 && (!value.readers.empty() || value.isOutput))
      refuse(number, "makes '" + value.name + "', which has no place");
  }
  checkInPlace(number);
}

void Rules::checkLaunchNode(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  if (!node.op->shapeArithmetic)
    refuse(number, "is no shape arithmetic");
  bool needsShapeOnly = node.is(Op::Shape) || node.is(Op::Size);
  for (uint32_t operand : node.operands) {
    if (operand == kNone || needsShapeOnly)
      continue;
    const ProgramValue &value = valueOf(operand);
    if (value.home != Home::Launch && !value.isConstant() && !value.isFeed())
      refuse(number,
             "needs '" + value.name +
                 "' before the step starts, and that is not known then");
  }
}

void Rules::checkView(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  if (node.queue != Queue::Compute || node.op->view == ViewRule::None ||
      (node.op->view == ViewRule::Part && !node.isLaunchOperand(1)) ||
      std::count_if(node.outputs.begin(), node.outputs.end(),
                    [](uint32_t output) { return output != kNone; }) != 1)
    refuse(number, "cannot make a view");
  for (unsigned i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] != kNone)
      checkData(number, i);
}

void Rules::checkInPlace(uint32_t number) const {
  const ProgramNode &node = program.nodes[number];
  for (unsigned i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone)
      continue;
    const ProgramValue &value = valueOf(node.outputs[i]);
    uint32_t taken = value.inPlaceOf;
    if (node.queue == Queue::Host && value.stateOf != kNone)
      taken = value.stateOf;
    if (taken == kNone)
      continue;
    int allowed = inPlaceOperand(node, i);
    if (value.inPlaceOf != kNone &&
        (allowed < 0 || node.operands[allowed] == kNone ||
         valueOf(node.operands[allowed]).root != taken))
      refuse(number, "cannot make '" + value.name + "' in place of '" +
                         valueOf(taken).name + "'");
    for (unsigned k = 0; k < node.operands.size(); ++k)
      if (node.operands[k] != kNone &&
          valueOf(node.operands[k]).root == taken &&
          static_cast<int>(k) != allowed && !node.isLaunchOperand(k))
        refuse(number, "writes '" + value.name + "' over '" +
                           valueOf(taken).name +
                           "', which it reads in a way that forbids it");
  }
}

/// Compute reads what another queue made only through a Wait.
void Rules::checkWaited(uint32_t number) const {
  for (uint32_t operand : program.nodes[number].operands) {
    if (operand == kNone)
      continue;
    const ProgramValue &value = valueOf(operand);
    if (value.maker == kNone)
      continue;
    Queue made = program.nodes[value.maker].queue;
    if (made != Queue::Compute && made != Queue::Launch && made != Queue::None)
      refuse(number, "reads '" + value.name + "', made by [" +
                         program.nodes[value.maker].name +
                         "], without a Wait between them");
  }
}

void Rules::checkRange(const ProgramValue &value) const {
  bool isResident = value.resident;
  if (isResident && !value.isConstant() && !value.isState())
    throw Error("value '" + value.name +
                "' is resident, but neither a constant nor a state");
  if (isResident && value.offset < 0)
    throw Error("value '" + value.name + "' is resident and has no place");
  if (isResident && value.hasContents &&
      static_cast<int64_t>(value.contents.size()) > value.plannedBytes)
    throw Error("resident '" + value.name + "' has " +
                std::to_string(value.contents.size()) +
                " bytes, and its place " + std::to_string(value.plannedBytes));
  bool staged =
      value.maker != kNone && program.nodes[value.maker].is(Op::Offload_Stage);
  if (staged && value.offset < 0)
    throw Error(program.describe(value.maker) + " makes '" + value.name +
                "', which has no place");
  if (value.offset >= 0 && !isResident && value.home != Home::Device)
    throw Error("value '" + value.name +
                "' has a place on the device, but "
                "is not made there");
}

bool Rules::takesOver(const ProgramValue &value, uint32_t resident) const {
  for (const ProgramValue *at = &valueOf(value.root); at->inPlaceOf != kNone;
       at = &valueOf(at->inPlaceOf))
    if (at->inPlaceOf == resident)
      return true;
  return false;
}

void Rules::checkState(const ProgramValue &input) const {
  const ProgramValue &next = valueOf(input.next);
  std::string where = "state '" + input.name + "'";
  if (next.maker == kNone)
    throw Error(where + " gets its next value '" + next.name +
                "' from no node");
  if (input.home == Home::Token)
    return;
  for (const Dimension &dim : input.dims)
    if (!dim.isFixed())
      throw Error(where + " has a size that is not fixed");
  if (input.home == Home::Launch)
    return;
  if (next.home == Home::Token || next.type != input.type)
    throw Error(where + " and its next value '" + next.name +
                "' are of different types");
  if (input.resident && !takesOver(next, input.root))
    throw Error(where + " is resident, so " + program.describe(next.maker) +
                " must make '" + next.name +
                "' in its place: inplace=" + input.name);
  if (!input.resident && valueOf(next.root).name != next.name)
    throw Error(where + " gets its next value '" + next.name +
                "' from a node that only names bytes of '" +
                valueOf(next.root).name + "'");
  if (!input.resident && next.home != Home::Host)
    throw Error(where + " is on the host, and its next value '" + next.name +
                "' is not: fetch it");
}

void Rules::checkResult(const ProgramValue &value) const {
  if (value.home == Home::Device)
    throw Error("output '" + value.name +
                "' stays on the device: a Fetch is missing");
  if (value.home == Home::Token)
    throw Error("output '" + value.name +
                "' is a token, and no state's next value");
  if (valueOf(value.root).name != value.name)
    throw Error("output '" + value.name + "' only names bytes of '" +
                valueOf(value.root).name + "'");
}

void Rules::checkPeak() const {
  int64_t planned = program.plannedPeakBytes;
  int64_t budget = program.deviceMemoryBytes;
  std::string end =
      "its ranges end at " + std::to_string(program.peakBytes) + " bytes";
  if (program.peakBytes > INT64_MAX - kAlignBytes)
    throw Error(end + ", which no memory holds");
  if (planned >= 0 && planned != alignUp(program.peakBytes))
    throw Error(end + ", which makes a peak of " +
                std::to_string(alignUp(program.peakBytes)) +
                ", and the property 'offload.peak_bytes' is " +
                std::to_string(planned) + ": compile the model again");
  if (budget >= 0 && program.peakBytes > budget)
    throw Error(end + ", over its device memory of " + std::to_string(budget));
  for (uint32_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode &node = program.nodes[i];
    if (node.queue == Queue::Compute &&
        node.scratchBytes > program.scratchBytes)
      refuse(i, "takes " + std::to_string(node.scratchBytes) +
                    " bytes of scratch, and there are " +
                    std::to_string(program.scratchBytes));
  }
}

} // namespace

void checkArity(const ProgramNode &node, const std::string &overload) {
  auto refuse = [&](const std::string &what) {
    throw Error("[" + node.name + "]: " + std::string(node.op->name) + " " +
                what);
  };
  size_t operands = node.operands.size(), outputs = node.outputs.size();
  if (node.isCopy()) {
    if (outputs < 1 || outputs > std::size(kOverloads) ||
        overload != kOverloads[outputs - 1])
      refuse("of overload '" + overload + "' has " + std::to_string(outputs) +
             " results");
    if (operands != outputs && operands != outputs + 1)
      refuse("of " + std::to_string(outputs) + " values has " +
             std::to_string(operands) + " operands");
  }
  struct Arity {
    Op op;
    size_t least, most, outputs;
  };
  constexpr Arity arities[] = {
      {Op::Offload_Wait, 1, 2, 1},    {Op::Offload_Release, 1, 1, 1},
      {Op::Offload_Join, 2, 2, 1},    {Op::Offload_SGD, 4, 4, 1},
      {Op::Offload_AdamW, 11, 11, 3}, {Op::Offload_Linear, 3, 3, 1}};
  for (const Arity &arity : arities)
    if (node.is(arity.op) &&
        (operands < arity.least || operands > arity.most ||
         outputs != arity.outputs || node.operands[0] == kNone))
      refuse("has " + std::to_string(operands) + " operands and " +
             std::to_string(outputs) + " results");
}

int inPlaceOperand(const ProgramNode &node, unsigned index) {
  constexpr std::array<int, 3> adam = {0, 2, 3}; // w, m, v
  if (node.is(Op::Offload_AdamW))
    return adam[index];
  return index == 0 ? node.op->inPlaceOperand : -1;
}

void checkRules(const Program &program) { Rules(program).run(); }

} // namespace offload::rt
