// Checks a scheduled graph against the rules of the format, node by node.
//
// In:  form Scheduled.
// Out: one line for each broken rule.
// Not: order between queues and bytes that meet (GraphTimeline and
//      OffFormat/HappensBefore); the runtime checks its own program again.
// How: one walk over nodes, one over values, then what concerns the whole.

#include "offload/Analysis/ScheduleRules.h"

#include "offload/Analysis/GraphTimeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace offload {
namespace {

class Rules {
public:
  Rules(const Graph &graph, int64_t reservedBytes)
      : graph(graph), reservedBytes(reservedBytes) {}

  std::vector<std::string> run() {
    for (const Node &node : graph.nodeList())
      checkNode(node);
    for (const Value *input : graph.inputs()) {
      checkRange(*input);
      if (const Value *next = nextOfState(graph, *input))
        checkState(*input, *next);
    }
    for (const Value *constant : graph.initializers())
      checkRange(*constant);
    for (const Value *output : graph.outputs())
      if (!stateOfNext(graph, *output))
        checkOutput(*output);
    checkPeak();
    return std::move(broken);
  }

private:
  void report(const llvm::Twine &message) { broken.push_back(message.str()); }
  void refuse(const Node &node, const llvm::Twine &what) {
    report("[" + node.name() + "] " + what);
  }

  void checkNode(const Node &node);
  void checkQueue(const Node &node);
  void checkCopy(const Node &node);
  void checkOperand(const Node &node, unsigned index);
  void checkLaunchOperand(const Node &node, const Value &operand);
  void checkView(const Node &node);
  void checkInPlace(const Node &node);
  void checkScratch(const Node &node);
  void checkRange(const Value &value);
  void checkState(const Value &input, const Value &next);
  void checkOutput(const Value &output);
  void checkPeak();
  bool isKnownBefore(const Value &value) const;
  bool ownsBytes(const Value &value) const;
  int64_t number(std::string_view key) const;
  std::optional<Properties> scratchRange() const;

  const Graph &graph;
  int64_t reservedBytes;
  std::vector<std::string> broken;
};

/// A value that the launching thread knows before the step starts.
bool Rules::isKnownBefore(const Value &value) const {
  if (value.definingNode())
    return homeOf(graph, value) == Home::Launch;
  return !nextOfState(graph, value);
}

void Rules::checkNode(const Node &node) {
  checkQueue(node);
  if (isCopy(node))
    checkCopy(node);
  for (unsigned i = 0; i < node.operands().size(); ++i)
    if (node.operand(i))
      checkOperand(node, i);
  checkView(node);
  checkInPlace(node);
  checkScratch(node);
  for (const Value *result : node.results())
    if (result)
      checkRange(*result);
}

void Rules::checkQueue(const Node &node) {
  Queue queue = node.queue(), own = node.info->queue;
  if (queue == own)
    return;
  bool isMovable = (own == Queue::Compute || own == Queue::Host) &&
                   !node.isOffload("Wait") && !node.isOffload("Release");
  bool goes = queue == Queue::Compute || queue == Queue::Host ||
              queue == Queue::Launch;
  if (!isMovable || !goes)
    refuse(node, "(" + node.opType + ") cannot run on queue " +
                     llvm::StringRef(queueName(queue)));
  else if (queue == Queue::Launch && !node.info->shapeArithmetic)
    refuse(node, "(" + node.opType +
                     ") is on queue launch, but is no shape arithmetic");
}

void Rules::checkCopy(const Node &node) {
  bool isStage = node.isOffload("Stage");
  const Value *before = nullptr;
  for (unsigned i = 0; i < numCopied(node); ++i) {
    const Value *from = node.operand(i), *to = node.result(i);
    if (!from || !to) {
      refuse(node, "copies a part that is absent");
      continue;
    }
    Home home = homeOf(graph, *from);
    bool fits = isStage ? home == Home::Host || home == Home::Launch
                        : home == Home::Device;
    if (!fits)
      refuse(node, "copies '" + from->name() + "', which is not on the " +
                       (isStage ? "host" : "device"));
    if (isStage && before) {
      int64_t behind =
          before->properties.getInt("offset").value_or(0) +
          alignUp(before->properties.getInt("bytes").value_or(0));
      int64_t offset = to->properties.getInt("offset").value_or(0);
      if (offset != behind)
        refuse(node, "copies '" + before->name() + "' and '" + to->name() +
                         "' at once, which do not lie one behind the other: "
                         "offset=" +
                         llvm::Twine(offset) + " is not " +
                         llvm::Twine(behind));
    }
    before = to;
  }
}

void Rules::checkLaunchOperand(const Node &node, const Value &operand) {
  if (!isKnownBefore(operand))
    refuse(node, "needs '" + operand.name() +
                     "' before the step starts, but it depends on what the "
                     "step computes");
}

void Rules::checkOperand(const Node &node, unsigned index) {
  const Value &operand = *node.operand(index);
  Queue queue = node.queue();
  if (isCopy(node) || queue == Queue::None)
    return; // checkCopy; `after` and Join take any value
  if (node.isOffload("Wait") || node.isOffload("Release"))
    return;
  if (queue == Queue::Launch) {
    bool shapeOnly = node.opType == "Shape" || node.opType == "Size";
    if (!shapeOnly)
      checkLaunchOperand(node, operand);
    return;
  }
  // `lr` and `apply` are states or feeds; what the step makes is not known.
  if (node.info->isLaunchOperand(index)) {
    checkLaunchOperand(node, operand);
    return;
  }
  Home home = homeOf(graph, operand);
  if (home == Home::Token)
    refuse(node, "reads the token '" + operand.name() + "' as data");
  else if (queue == Queue::Host && home == Home::Device)
    refuse(node, "reads '" + operand.name() +
                     "' on the host, which is on the device: fetch it first");
  else if (queue == Queue::Compute && operand.definingNode() &&
           operand.definingNode()->isOffload("Stage"))
    refuse(node, "reads '" + operand.name() + "' of [" +
                     operand.definingNode()->name() + "] without a Wait");
  else if (queue == Queue::Compute && home != Home::Device)
    refuse(node, "reads '" + operand.name() +
                     "' on the device, which is on the host: stage it, or "
                     "make it resident");
}

void Rules::checkView(const Node &node) {
  const Value *result = node.result();
  if (!result || !result->properties.has("view"))
    return;
  std::string_view source = result->properties.get("view");
  const Value *operand = node.operand(0), *named = graph.findValue(source);
  if (node.queue() != Queue::Compute || node.info->view == ViewRule::None)
    refuse(node, "(" + node.opType + ") cannot make a view, but '" +
                     result->name() + "' is one");
  else if (!operand || !named ||
           rootOf(graph, *operand) != rootOf(graph, *named))
    refuse(node, "makes '" + result->name() + "' as a view of '" + source +
                     "', which has not the bytes of its operand 0");
  if (node.info->view != ViewRule::Strided)
    return;
  for (const Node *user : result->users())
    if (user->info && runsKernel(*user) && !user->info->takesStrides)
      refuse(*user, "(" + user->opType + ") reads the strided view '" +
                        result->name() + "', but takes no strides");
}

void Rules::checkInPlace(const Node &node) {
  for (unsigned i = 0; i < node.results().size(); ++i) {
    const Value *result = node.result(i);
    if (!result)
      continue;
    const Value *taken = graph.findValue(result->properties.get("inplace"));
    if (result->properties.has("inplace") && !taken) {
      refuse(node, "makes '" + result->name() + "' in place of '" +
                       result->properties.get("inplace") +
                       "', which is no value");
      continue;
    }
    const bool isNamed = taken != nullptr;
    if (!taken && node.queue() == Queue::Host)
      taken = stateOfNext(graph, *result);
    if (!taken)
      continue;
    constexpr int adam[] = {0, 2, 3}; // w, m, v
    int allowed = node.isOffload("AdamW") && i < 3 ? adam[i]
                  : i == 0                         ? node.info->inPlaceOperand
                                                   : -1;
    const Value *root = rootOf(graph, *taken);
    for (unsigned k = 0; k < node.operands().size(); ++k)
      if (node.operand(k) && static_cast<int>(k) != allowed &&
          !node.info->isLaunchOperand(k) &&
          rootOf(graph, *node.operand(k)) == root)
        refuse(node, "writes '" + result->name() + "' over '" + taken->name() +
                         "', which it reads in a way that forbids it");
    const Value *operand = allowed < 0 ? nullptr : node.operand(allowed);
    if (isNamed && (!operand || rootOf(graph, *operand) != root))
      refuse(node, "(" + node.opType + ") cannot make '" + result->name() +
                       "' in place of '" + taken->name() + "'");
  }
}

std::optional<Properties> Rules::scratchRange() const {
  auto property = graph.modelProperties.find(std::string(kScratchKey));
  return property == graph.modelProperties.end()
             ? std::nullopt
             : Properties::parse(property->second);
}

void Rules::checkScratch(const Node &node) {
  int64_t bytes = node.properties.getInt("scratch").value_or(0);
  std::optional<Properties> range = scratchRange();
  int64_t all = range ? range->getInt("bytes").value_or(0) : 0;
  if (runsKernel(node) && node.queue() == Queue::Compute && bytes > all)
    refuse(node, "takes " + llvm::Twine(bytes) + " bytes of scratch, and " +
                     kScratchKey + " has " + llvm::Twine(all));
}

/// Whether the value must have a range of its own.
bool Rules::ownsBytes(const Value &value) const {
  if (homeOf(graph, value) != Home::Device ||
      value.properties.has("inplace") || rootOf(graph, value) != &value)
    return false;
  return !value.definingNode() || !value.users().empty() ||
         graph.isOutput(&value) || isCopy(*value.definingNode());
}

void Rules::checkRange(const Value &value) {
  std::optional<int64_t> offset = value.properties.getInt("offset");
  std::optional<int64_t> bytes = value.properties.getInt("bytes");
  std::string maker = value.definingNode()
                          ? ("[" + value.definingNode()->name() + "] makes '" +
                             value.name() + "', which")
                                .str()
                          : ("'" + value.name() + "'").str();
  if (!offset && !bytes && !value.properties.has("offset")) {
    if (ownsBytes(value))
      report(maker + " has no place on the device");
    return;
  }
  if (homeOf(graph, value) != Home::Device) {
    report(maker + " has a place on the device, but does not lie there");
    return;
  }
  if (!offset || !bytes || *offset < 0 || *bytes < 0) {
    report(maker + " has no range of two numbers: give offset and bytes");
    return;
  }
  if (*offset % kAlignBytes)
    report(maker + " lies at " + llvm::Twine(*offset) +
           ", which is no multiple of " + llvm::Twine(kAlignBytes));
  if (value.type.isBounded() && *bytes < value.type.bytesAtBound())
    report(maker + " takes " + llvm::Twine(value.type.bytesAtBound()) +
           " bytes, and its place has " + llvm::Twine(*bytes));
}

void Rules::checkState(const Value &input, const Value &next) {
  llvm::Twine where = "state '" + input.name() + "'";
  if (!next.definingNode()) {
    report(where + " gets its next value '" + next.name() + "' from no node");
    return;
  }
  Home home = homeOf(graph, input);
  if (home == Home::Token)
    return;
  if (input.type.elem != next.type.elem ||
      (input.type.hasRank && next.type.hasRank &&
       input.type.dims != next.type.dims))
    report(where + " and its next value '" + next.name() +
           "' are of different types");
  if (home == Home::Device) {
    const Value *taken = &next;
    while (taken && taken != &input)
      taken = graph.findValue(
          rootOf(graph, *taken)->properties.get("inplace"));
    if (!taken)
      report(where + " is resident, so [" + next.definingNode()->name() +
             "] must make '" + next.name() +
             "' in its place: inplace=" + input.name());
  } else if (homeOf(graph, next) != Home::Host &&
             homeOf(graph, next) != Home::Launch) {
    report(where + " is on the host, and its next value '" + next.name() +
           "' is not: fetch it");
  }
}

void Rules::checkOutput(const Value &output) {
  Home home = homeOf(graph, output);
  if (home == Home::Device && output.definingNode())
    refuse(*output.definingNode(), "leaves output '" + output.name() +
                                       "' on the device: a Fetch is missing");
  else if (home == Home::Token)
    report("output '" + output.name() +
           "' is a token, and no state's next value");
}

int64_t Rules::number(std::string_view key) const {
  auto property = graph.modelProperties.find(std::string(key));
  int64_t value = -1;
  if (property == graph.modelProperties.end() ||
      llvm::StringRef(property->second).getAsInteger(10, value))
    return -1;
  return value;
}

void Rules::checkPeak() {
  int64_t end = alignUp(largestEnd(graph));
  int64_t peak = number(kPeakBytesKey), budget = number(kDeviceMemoryKey);
  if (peak >= 0 && peak != end)
    report("ranges end at " + llvm::Twine(end) + " bytes, and " +
           kPeakBytesKey + " is " + llvm::Twine(peak));
  if (budget >= 0 && end + reservedBytes > budget)
    report("ranges end at " + llvm::Twine(end) + " bytes" +
           (reservedBytes ? " beside " + std::to_string(reservedBytes) +
                                " that the target reserves"
                          : std::string()) +
           ", over the device memory of " + llvm::Twine(budget));
}

} // namespace

int64_t largestEnd(const Graph &graph) {
  int64_t end = 0;
  auto extend = [&end](const Properties &range) {
    end = std::max(end, range.getInt("offset").value_or(0) +
                            range.getInt("bytes").value_or(0));
  };
  for (const Value *input : graph.inputs())
    extend(input->properties);
  for (const Value *constant : graph.initializers())
    extend(constant->properties);
  for (const Node &node : graph.nodeList())
    for (const Value *result : node.results())
      if (result)
        extend(result->properties);
  auto scratch = graph.modelProperties.find(std::string(kScratchKey));
  if (scratch != graph.modelProperties.end())
    if (std::optional<Properties> range = Properties::parse(scratch->second))
      extend(*range);
  return end;
}

std::vector<std::string> checkScheduleRules(const Graph &graph,
                                            int64_t reservedBytes) {
  return Rules(graph, reservedBytes).run();
}

} // namespace offload
