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

/// Sums of an offset and a size must not wrap around.
bool isRange(const Properties &range) {
  int64_t offset = range.getInt("offset").value_or(-1);
  int64_t bytes = range.getInt("bytes").value_or(-1);
  constexpr int64_t most = INT64_MAX / 2;
  return offset >= 0 && bytes >= 0 && offset <= most && bytes <= most - offset;
}

class Rules {
public:
  Rules(const Graph &graph, int64_t reservedBytes)
      : graph(graph), reservedBytes(reservedBytes) {}

  std::vector<std::string> run() {
    for (const auto &[name, properties] : graph.inserts)
      report("[" + llvm::Twine(name) +
             "] is still to be inserted: run insert-staging");
    for (const Node &node : graph.nodeList())
      checkNode(node);
    for (const Value *input : graph.inputs()) {
      checkLoaded(*input);
      if (const Value *next = nextOfState(graph, *input))
        checkState(*input, *next);
    }
    for (const Value *constant : graph.initializers())
      checkLoaded(*constant);
    for (const Value *output : graph.outputs())
      if (!stateOfNext(graph, *output))
        checkOutput(*output);
    checkScratchRange();
    checkPeak();
    return std::move(broken);
  }

private:
  void report(const llvm::Twine &message) { broken.push_back(message.str()); }
  void refuse(const Node &node, const llvm::Twine &what) {
    report("[" + node.name() + "] " + what);
  }

  void checkNode(const Node &node);
  void checkArity(const Node &node);
  void checkQueue(const Node &node);
  void checkCopy(const Node &node);
  void checkOperand(const Node &node, unsigned index);
  void checkLaunchOperand(const Node &node, const Value &operand);
  void checkStrides(const Node &node, const Value &operand);
  void checkView(const Node &node);
  void checkInPlace(const Node &node);
  void checkTaken(const Node &node, const Value &result, int allowed);
  void checkScratch(const Node &node);
  void checkScratchRange();
  void checkLoaded(const Value &value);
  void checkRange(const Value &value);
  void checkBytes(const Value &value, const std::string &maker);
  void checkState(const Value &input, const Value &next);
  void checkOutput(const Value &output);
  void checkPeak();
  bool isKnownBefore(const Value &value) const;
  bool ownsBytes(const Value &value) const;
  std::string describe(const Value &value) const;
  int64_t number(std::string_view key);
  std::optional<Properties> scratchRange() const;

  const Graph &graph;
  int64_t reservedBytes;
  std::vector<std::string> broken;
};

/// A value that the launching thread knows before the step starts.
bool Rules::isKnownBefore(const Value &value) const {
  if (homeOf(graph, value) == Home::Launch)
    return true;
  return !value.definingNode() && !nextOfState(graph, value);
}

void Rules::checkNode(const Node &node) {
  checkArity(node);
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

/// Nodes of this domain: which operand is `after` depends on how many there
/// are.
void Rules::checkArity(const Node &node) {
  if (node.domain != "offload")
    return;
  constexpr llvm::StringRef overloads[] = {"", "two", "three", "four"};
  size_t operands = node.operands().size(), results = node.results().size();
  bool fits = true;
  if (isCopy(node))
    fits = results >= 1 && results <= std::size(overloads) &&
           node.overload == overloads[results - 1] &&
           (operands == results || operands == results + 1);
  else if (node.isOffload("Wait"))
    fits = results == 1 && (operands == 1 || operands == 2);
  else if (node.isOffload("Release") || node.isOffload("Join"))
    fits = results == 1 && operands == (node.isOffload("Join") ? 2 : 1);
  else if (node.isOffload("SGD"))
    fits = results == 1 && operands == 4;
  else if (node.isOffload("AdamW"))
    fits = results == 3 && operands == 11;
  if (!fits)
    refuse(node, "(" + node.opType + (node.overload.empty() ? "" : ":") +
                     node.overload + ") does not have " +
                     llvm::Twine(operands) + " operands and " +
                     llvm::Twine(results) + " results");
  else if (!isCopy(node) && !node.operand(0))
    refuse(node, "(" + node.opType + ") has no first operand");
}

void Rules::checkQueue(const Node &node) {
  Queue queue = node.queue(), own = node.info->queue;
  if (node.properties.has("queue") && !parseQueue(node.properties.get("queue")))
    refuse(node, "is on queue " +
                     llvm::StringRef(node.properties.get("queue")) +
                     ", which there is not");
  if (queue == own)
    return;
  bool isMovable = (own == Queue::Compute || own == Queue::Host) &&
                   !node.isOffload("Wait") && !node.isOffload("Release");
  bool goes =
      queue == Queue::Compute || queue == Queue::Host || queue == Queue::Launch;
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
    checkStrides(node, *from);
    if (isStage && before) {
      int64_t behind = before->properties.getInt("offset").value_or(0) +
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

/// Kernels that take no strides, copies and further views read bytes in the
/// order in which they lie.
void Rules::checkStrides(const Node &node, const Value &operand) {
  if (isStrided(operand) && !node.info->takesStrides)
    refuse(node, "(" + node.opType + ") reads the strided view '" +
                     operand.name() + "', but takes no strides");
}

void Rules::checkOperand(const Node &node, unsigned index) {
  const Value &operand = *node.operand(index);
  Queue queue = node.queue();
  if (isCopy(node) || queue == Queue::None || node.isOffload("Wait"))
    return; // checkCopy; `after`, Join and Wait take any value
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
  const Node *maker = operand.definingNode();
  bool isUnwaited =
      queue == Queue::Compute && maker && maker->queue() != Queue::Compute &&
      maker->queue() != Queue::Launch && maker->queue() != Queue::None;
  Home home = homeOf(graph, operand);
  if (isUnwaited && (home == Home::Device || node.isOffload("Release")))
    refuse(node, "reads '" + operand.name() + "' of [" + maker->name() +
                     "] without a Wait");
  if (node.isOffload("Release"))
    return;
  if (home == Home::Token)
    refuse(node, "reads the token '" + operand.name() + "' as data");
  else if (queue == Queue::Host && home == Home::Device)
    refuse(node, "reads '" + operand.name() +
                     "' on the host, which is on the device: fetch it first");
  else if (queue == Queue::Compute && home != Home::Device)
    refuse(node, "reads '" + operand.name() +
                     "' on the device, which is on the host: stage it, or "
                     "make it resident");
  checkStrides(node, operand);
}

/// A second result (a mask) has bytes that only the kernel can write.
void Rules::checkView(const Node &node) {
  auto isNamed = [](const Value *result) {
    return result && result->properties.has("view");
  };
  auto named = llvm::find_if(node.results(), isNamed);
  if (named == node.results().end())
    return;
  const Value *result = *named;
  if (node.queue() != Queue::Compute || node.info->view == ViewRule::None ||
      result != node.result() ||
      llvm::count(node.results(), nullptr) + 1 !=
          static_cast<ptrdiff_t>(node.results().size())) {
    refuse(node, "(" + node.opType + ") cannot make a view, but '" +
                     result->name() + "' is one");
    return;
  }
  std::string_view source = result->properties.get("view");
  const Value *owner = graph.findValue(source), *at = sourceOf(*result);
  while (at && at != owner)
    at = sourceOf(*at);
  if (!at)
    refuse(node, "makes '" + result->name() + "' as a view of '" + source +
                     "', which has not the bytes of its operand 0");
}

void Rules::checkInPlace(const Node &node) {
  for (unsigned i = 0; i < node.results().size(); ++i) {
    const Value *result = node.result(i);
    if (!result)
      continue;
    int allowed = inPlaceOperand(node, i);
    const Value *taken = graph.findValue(result->properties.get("inplace"));
    if (result->properties.has("inplace"))
      checkTaken(node, *result, allowed);
    else if (node.queue() == Queue::Host)
      taken = stateOfNext(graph, *result);
    if (!taken)
      continue;
    for (unsigned k = 0; k < node.operands().size(); ++k)
      if (node.operand(k) && static_cast<int>(k) != allowed &&
          !node.info->isLaunchOperand(k) &&
          rootOf(*node.operand(k)) == rootOf(*taken))
        refuse(node, "writes '" + result->name() + "' over '" + taken->name() +
                         "', which it reads in a way that forbids it");
  }
}

/// A result that says whose place it takes.
void Rules::checkTaken(const Node &node, const Value &result, int allowed) {
  std::string_view name = result.properties.get("inplace");
  if (!graph.findValue(name))
    return refuse(node, "makes '" + result.name() + "' in place of '" + name +
                            "', which is no value");
  const Value *root = takenOver(graph, result);
  if (!root || !runsKernel(node) || node.queue() != Queue::Compute)
    return refuse(node, "(" + node.opType + ") cannot make '" + result.name() +
                            "' in place of '" + name + "'");
  const Value &operand = *node.operand(allowed);
  if (isStrided(operand) || operand.type.elem != result.type.elem ||
      operand.type.dims != result.type.dims)
    refuse(node, "makes '" + result.name() + "' in place of '" + name +
                     "', which has another type or strides");
}

std::optional<Properties> Rules::scratchRange() const {
  auto property = graph.modelProperties.find(std::string(kScratchKey));
  return property == graph.modelProperties.end()
             ? std::nullopt
             : Properties::parse(property->second);
}

void Rules::checkScratch(const Node &node) {
  if (!node.properties.has("scratch"))
    return;
  int64_t bytes = node.properties.getInt("scratch").value_or(-1);
  std::optional<Properties> range = scratchRange();
  int64_t all = range ? range->getInt("bytes").value_or(0) : 0;
  if (bytes < 0)
    refuse(node,
           "takes scratch=" + llvm::StringRef(node.properties.get("scratch")) +
               ", which is no number of bytes");
  else if (runsKernel(node) && node.queue() == Queue::Compute && bytes > all)
    refuse(node, "takes " + llvm::Twine(bytes) + " bytes of scratch, and " +
                     kScratchKey + " has " + llvm::Twine(all));
}

void Rules::checkScratchRange() {
  auto property = graph.modelProperties.find(std::string(kScratchKey));
  if (property == graph.modelProperties.end())
    return;
  std::optional<Properties> range = scratchRange();
  if (!range || !isRange(*range))
    report(llvm::Twine(kScratchKey) + " is '" + property->second +
           "', which is no range of two numbers");
  else if (*range->getInt("offset") % kAlignBytes)
    report(llvm::Twine(kScratchKey) + " lies at " +
           llvm::Twine(*range->getInt("offset")) +
           ", which is no multiple of " + llvm::Twine(kAlignBytes));
}

/// Whether the value must have a range of its own.
bool Rules::ownsBytes(const Value &value) const {
  if (homeOf(graph, value) != Home::Device || value.properties.has("inplace") ||
      rootOf(value) != &value)
    return false;
  return !value.definingNode() || !value.users().empty() ||
         graph.isOutput(&value) || isCopy(*value.definingNode());
}

std::string Rules::describe(const Value &value) const {
  const Node *maker = value.definingNode();
  if (!maker)
    return ("'" + value.name() + "'").str();
  return ("[" + maker->name() + "] makes '" + value.name() + "', which").str();
}

/// Inputs and constants: nothing makes them, and only load moves them.
void Rules::checkLoaded(const Value &value) {
  for (const char *key : {"view", "inplace"})
    if (value.properties.has(key))
      report(describe(value) + " is made by no node, and has " + key + "=" +
             std::string(value.properties.get(key)));
  if (isResident(value) && isFeed(graph, value))
    report(describe(value) + " is resident, but fed before each run: stage it");
  checkRange(value);
}

void Rules::checkRange(const Value &value) {
  std::string maker = describe(value);
  if (value.definingNode() && value.properties.get("residency") == "resident")
    report(maker + " is resident, but neither a constant nor a state");
  if (!value.properties.has("offset") && !value.properties.has("bytes")) {
    if (ownsBytes(value))
      report(maker + " has no place on the device");
  } else if (homeOf(graph, value) != Home::Device) {
    report(maker + " has a place on the device, but does not lie there");
  } else if (rootOf(value) != &value || value.properties.has("inplace")) {
    report(maker + " has a place of its own, but only names bytes of another");
  } else if (!isRange(value.properties)) {
    report(maker + " has no range of two numbers: give offset and bytes");
  } else {
    checkBytes(value, maker);
  }
}

void Rules::checkBytes(const Value &value, const std::string &maker) {
  int64_t offset = *value.properties.getInt("offset");
  int64_t bytes = *value.properties.getInt("bytes");
  if (offset % kAlignBytes)
    report(maker + " lies at " + llvm::Twine(offset) +
           ", which is no multiple of " + llvm::Twine(kAlignBytes));
  if (!value.type.isBounded())
    report(maker + " has a size without a bound, so no place can hold it");
  else if (bytes < value.type.bytesAtBound())
    report(maker + " takes " + llvm::Twine(value.type.bytesAtBound()) +
           " bytes, and its place has " + llvm::Twine(bytes));
}

void Rules::checkState(const Value &input, const Value &next) {
  std::string where = ("state '" + input.name() + "'").str();
  const Node *maker = next.definingNode();
  if (!maker) {
    report(where + " gets its next value '" + next.name() + "' from no node");
    return;
  }
  if (input.type.elem != next.type.elem ||
      (input.type.hasRank && next.type.hasRank &&
       input.type.dims != next.type.dims))
    report(where + " and its next value '" + next.name() +
           "' are of different types");
  Home home = homeOf(graph, input);
  if (home == Home::Token)
    return;
  if (!llvm::all_of(input.type.dims, [](Dim dim) { return dim.isStatic(); }))
    report(where + " has a size that is not fixed");
  if (home == Home::Device) {
    const Value *taken = rootOf(next);
    while (taken && taken != &input)
      taken = takenOver(graph, *taken);
    if (!taken || isStrided(next))
      report(where + " is resident, so [" + maker->name() + "] must make '" +
             next.name() + "' in its place: inplace=" + input.name());
  } else if (rootOf(next) != &next) {
    report(where + " gets its next value '" + next.name() + "' from [" +
           maker->name() + "], which only names bytes of '" +
           rootOf(next)->name() + "'");
  } else if (home == Home::Host && homeOf(graph, next) != Home::Host) {
    report(where + " is on the host, and its next value '" + next.name() +
           "' is not: fetch it");
  }
}

void Rules::checkOutput(const Value &output) {
  Home home = homeOf(graph, output);
  const Node *maker = output.definingNode();
  if (home == Home::Device)
    report("output '" + output.name() + "'" +
           (maker ? " of [" + maker->name() + "]" : llvm::Twine()) +
           " is left on the device: a Fetch is missing");
  else if (home == Home::Token)
    report("output '" + output.name() +
           "' is a token, and no state's next value");
  else if (rootOf(output) != &output)
    report("output '" + output.name() + "' only names bytes of '" +
           rootOf(output)->name() + "'");
  else if (nextOfState(graph, output))
    report("output '" + output.name() +
           "' is a state, which the step overwrites: copy it");
}

int64_t Rules::number(std::string_view key) {
  auto property = graph.modelProperties.find(std::string(key));
  if (property == graph.modelProperties.end())
    return -1;
  int64_t value = -1;
  if (!llvm::StringRef(property->second).getAsInteger(10, value) && value >= 0)
    return value;
  report(llvm::Twine(key) + " is '" + property->second +
         "', which is no number of bytes");
  return -1;
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
    if (isRange(range))
      end = std::max(end, *range.getInt("offset") + *range.getInt("bytes"));
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
