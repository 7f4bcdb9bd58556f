// Checks a scheduled graph against the rules of the format, node by node.
//
// In:  form Scheduled.
// Out: one line for each broken rule.
// Not: places, states and budget (PlaceRules); order between queues and bytes
//      that meet (GraphTimeline and OffFormat/HappensBefore); the runtime
//      checks its own program again.
// How: one walk over nodes, then what concerns the whole.

#include "offload/Analysis/ScheduleRules.h"

#include "PlaceRules.h"

#include "offload/Analysis/GraphTimeline.h"

#include "llvm/ADT/STLExtras.h"

namespace offload {
namespace {

class Rules {
public:
  Rules(const Graph &graph, int64_t reservedBytes)
      : graph(graph), places(graph, reservedBytes, broken) {}

  std::vector<std::string> run() {
    for (const auto &[name, properties] : graph.inserts)
      report("[" + llvm::Twine(name) +
             "] is still to be inserted: run insert-staging");
    for (const Node &node : graph.nodeList())
      checkNode(node);
    places.checkWhole();
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
  bool isKnownBefore(const Value &value) const;

  const Graph &graph;
  std::vector<std::string> broken;
  PlaceRules places;
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
  places.checkScratch(node);
  for (const Value *result : node.results())
    if (result)
      places.checkRange(*result);
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
  else if (node.isOffload("Linear"))
    fits = results == 1 && operands == 3 && node.operand(1) && node.operand(2);
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

/// Kernels that take no strides and copies read bytes in the order in which
/// they lie; a further view must have strides of its own.
void Rules::checkStrides(const Node &node, const Value &operand) {
  const Value *result = node.result();
  bool isView = result && sourceOf(*result) == &operand;
  if (isStrided(operand) &&
      (isView ? !layoutOf(*result) : !node.info->takesStrides))
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
  if (node.isLaunchOperand(index)) {
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
      (node.info->view == ViewRule::Part && !node.isLaunchOperand(1)) ||
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
          !node.isLaunchOperand(k) &&
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
  if (isStrided(operand) || isPart(operand) ||
      operand.type.elem != result.type.elem ||
      operand.type.dims != result.type.dims)
    refuse(node, "makes '" + result.name() + "' in place of '" + name +
                     "', which has another type or strides");
}

} // namespace

std::vector<std::string> checkScheduleRules(const Graph &graph,
                                            int64_t reservedBytes) {
  return Rules(graph, reservedBytes).run();
}

} // namespace offload
