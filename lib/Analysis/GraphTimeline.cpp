// Makes the plain step that the proof of order reads from a scheduled graph.
//
// In:  form Scheduled, rules kept.
// Out: a Timeline: operations, bytes that they read and write, what they wait
//      for.
// Not: the proof (OffFormat/HappensBefore), the rules (ScheduleRules).
// How: a node waits for the makers of its operands on other queues. A Join
//      stands for both of its operands, and a state's input for the maker of
//      its next value in the step before. Accesses through views and Waits
//      count for the value that owns the bytes.

#include "offload/Analysis/GraphTimeline.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

namespace offload {

bool isCopy(const Node &node) {
  return node.isOffload("Stage") || node.isOffload("Fetch") ||
         node.isOffload("GradTransfer");
}

unsigned numCopied(const Node &copy) {
  return static_cast<unsigned>(copy.results().size());
}

static bool makesToken(const Node &node) {
  return node.isOffload("Release") || node.isOffload("Join");
}

/// On compute alone: elsewhere a view is refused, and no name is followed.
static bool isView(const Node &node) {
  const Value *result = node.result();
  return result && node.queue() == Queue::Compute &&
         result->properties.has("view");
}

bool runsKernel(const Node &node) {
  Queue queue = node.queue();
  return (queue == Queue::Compute || queue == Queue::Host) && !isCopy(node) &&
         !isView(node) && !node.isOffload("Wait") && !makesToken(node);
}

bool isResident(const Value &value) {
  return !value.definingNode() &&
         value.properties.get("residency") == "resident";
}

Value *nextOfState(const Graph &graph, const Value &input) {
  auto state = graph.states.find(input.name().str());
  return state == graph.states.end() ? nullptr : graph.findValue(state->second);
}

Value *stateOfNext(const Graph &graph, const Value &output) {
  for (const auto &[input, next] : graph.states)
    if (next == output.name())
      return graph.findValue(input);
  return nullptr;
}

bool isFeed(const Graph &graph, const Value &value) {
  return value.isGraphInput() && !nextOfState(graph, value);
}

/// A state's home is told by the node that makes its next value, without
/// following names: two states may each be the other's next value.
static Home homeOfLoaded(const Graph &graph, const Value &value) {
  const Value *next = nextOfState(graph, value);
  if (const Node *maker = next ? next->definingNode() : nullptr) {
    if (makesToken(*maker))
      return Home::Token;
    if (maker->queue() == Queue::Launch)
      return Home::Launch;
  }
  return isResident(value) ? Home::Device : Home::Host;
}

Home homeOf(const Graph &graph, const Value &value) {
  const Value &root = *rootOf(value);
  const Node *maker = root.definingNode();
  if (!maker)
    return homeOfLoaded(graph, root);
  if (makesToken(*maker))
    return Home::Token;
  switch (maker->queue()) {
  case Queue::Launch:
    return Home::Launch;
  case Queue::D2H:
  case Queue::Host:
    return Home::Host;
  default:
    return Home::Device;
  }
}

const Value *sourceOf(const Value &value) {
  const Node *maker = value.definingNode();
  if (!maker || value.resultIndex() != 0)
    return nullptr;
  return maker->isOffload("Wait") || isView(*maker) ? maker->operand(0)
                                                    : nullptr;
}

const Value *rootOf(const Value &value) {
  const Value *root = &value;
  while (const Value *source = sourceOf(*root))
    root = source;
  return root;
}

/// Whether a view on the way to the root is of that kind.
static bool passes(const Value &value, ViewRule rule) {
  for (const Value *at = &value; sourceOf(*at); at = sourceOf(*at))
    if (at->definingNode()->info->view == rule)
      return true;
  return false;
}

std::optional<ValueLayout> layoutOf(const Value &value) {
  const Value *source = sourceOf(value);
  if (!source)
    return ValueLayout::ofRoot(value.type);
  std::optional<ValueLayout> layout = layoutOf(*source);
  return layout ? layout->through(*value.definingNode()) : std::nullopt;
}

bool isStrided(const Value &value) {
  if (!passes(value, ViewRule::Strided) && !passes(value, ViewRule::Part))
    return false;
  std::optional<ValueLayout> layout = layoutOf(value);
  return !layout || !layout->isContiguous();
}

bool isPart(const Value &value) { return passes(value, ViewRule::Part); }

int inPlaceOperand(const Node &node, unsigned index) {
  constexpr std::array<int, 3> adam = {0, 2, 3}; // w, m, v
  if (node.isOffload("AdamW") && index < adam.size())
    return adam[index];
  return index == 0 ? node.info->inPlaceOperand : -1;
}

const Value *takenOver(const Graph &graph, const Value &value) {
  const Value *named = graph.findValue(value.properties.get("inplace"));
  const Node *maker = value.definingNode();
  if (!named || !maker)
    return nullptr;
  int index = inPlaceOperand(*maker, value.resultIndex());
  const Value *operand = index < 0 ? nullptr : maker->operand(index);
  return operand && rootOf(*operand) == rootOf(*named) ? rootOf(*operand)
                                                       : nullptr;
}

namespace {

class TimelineBuilder {
public:
  explicit TimelineBuilder(const Graph &graph) : graph(graph) {
    for (const auto &[input, next] : graph.states)
      inputOfNext[next] = input;
  }

  Timeline run() {
    for (const Value *input : graph.inputs())
      addValue(input);
    for (const Value *constant : graph.initializers())
      addValue(constant);
    for (const Node &node : graph.nodeList())
      for (const Value *result : node.results())
        if (result)
          addValue(result);
    for (uint32_t number = 0; number < values.size(); ++number)
      linkValue(*values[number], timeline.values[number]);
    for (const Node &node : graph.nodeList())
      if (node.queue() != Queue::Launch && node.queue() != Queue::None) {
        ops[&node] = static_cast<uint32_t>(ops.size());
        order.push_back(&node);
      }
    for (const Node *node : order)
      addOp(*node);
    return std::move(timeline);
  }

private:
  static constexpr uint32_t kNone = TimelineValue::kNone;

  void addValue(const Value *value) {
    values.push_back(value);
    numbers.insert({value, static_cast<uint32_t>(timeline.values.size())});
    timeline.values.push_back({value->name().str(), {}, kNone, kNone, false});
  }

  const Value *stateOf(const Value &output) const {
    auto state = inputOfNext.find(output.name());
    return state == inputOfNext.end() ? nullptr
                                      : graph.findValue(state->second);
  }
  bool isResult(const Value &value) const {
    return graph.isOutput(&value) && !stateOf(value);
  }
  uint32_t numberOf(const Value *value) const {
    return numbers.find(value)->second;
  }

  void linkValue(const Value &value, TimelineValue &entry) {
    Home home = homeOf(graph, value);
    if (rootOf(value) != &value || home == Home::Token)
      return;
    if (home == Home::Device)
      placeInArena(value, entry);
    else if (home == Home::Host && !isFeed(graph, value) && !isResult(value))
      placeOnHost(value, entry);
    const Value *next = nextOfState(graph, value);
    if (next && home != Home::Launch)
      entry.carriedFrom = numberOf(rootOf(*next));
    else if (value.isConstant())
      entry.carriedFrom = numberOf(&value);
    // The launching thread writes launch values between two runs as a caller
    // writes feeds.
    entry.feed = isFeed(graph, value) || home == Home::Launch;
  }

  /// What is made in place has the bytes of the first value in the chain.
  void placeInArena(const Value &value, TimelineValue &entry) {
    const Value *owner = &value;
    if (const Value *taken = takenOver(graph, value))
      entry.inPlaceOf = numberOf(taken);
    while (const Value *taken = takenOver(graph, *owner))
      owner = taken;
    int64_t offset = owner->properties.getInt("offset").value_or(0);
    entry.range = {ByteRange::kArena, offset,
                   offset + owner->properties.getInt("bytes").value_or(0)};
  }

  /// A buffer of its own; a state and its next value have one together.
  void placeOnHost(const Value &value, TimelineValue &entry) {
    const Value *input = stateOf(value);
    entry.range = {numberOf(input ? input : &value) + 1, 0,
                   value.type.isBounded() ? value.type.bytesAtBound() : 1};
    if (input)
      entry.inPlaceOf = numberOf(input);
  }

  void addOp(const Node &node) {
    TimelineOp op;
    op.name = node.name().str();
    op.queue = node.queue();
    if (isCopy(node) || runsKernel(node))
      addAccesses(node, op);
    int64_t scratch = node.properties.getInt("scratch").value_or(0);
    if (runsKernel(node) && op.queue == Queue::Compute && scratch > 0)
      addScratch(node, scratch, op);
    for (const Value *operand : node.operands())
      if (operand)
        addWaits(*operand, op.queue, false, op.waits);
    timeline.ops.push_back(std::move(op));
  }

  void addAccesses(const Node &node, TimelineOp &op) {
    unsigned data = isCopy(node)
                        ? numCopied(node)
                        : static_cast<unsigned>(node.operands().size());
    for (unsigned i = 0; i < data; ++i) {
      const Value *operand = node.operand(i);
      if (!operand || (!isCopy(node) && node.isLaunchOperand(i)))
        continue;
      const Value *root = rootOf(*operand);
      if (!llvm::is_contained(op.reads, numberOf(root)))
        op.reads.push_back(numberOf(root));
      op.landsOutput |= isResult(*root);
    }
    for (const Value *result : node.results())
      if (result) {
        op.writes.push_back(numberOf(result));
        op.landsOutput |= isResult(*result);
      }
  }

  void addScratch(const Node &node, int64_t bytes, TimelineOp &op) {
    std::optional<Properties> range;
    auto property = graph.modelProperties.find(std::string(kScratchKey));
    if (property != graph.modelProperties.end())
      range = Properties::parse(property->second);
    int64_t offset = range ? range->getInt("offset").value_or(0) : 0;
    op.writes.push_back(static_cast<uint32_t>(timeline.values.size()));
    timeline.values.push_back({"scratch of " + node.name().str(),
                               {ByteRange::kArena, offset, offset + bytes},
                               kNone,
                               kNone,
                               false});
  }

  void addWaits(const Value &value, Queue queue, bool previousStep,
                std::vector<WaitPoint> &waits) const {
    if (const Value *next = nextOfState(graph, value)) {
      // One step back is as far as two glued steps go.
      if (!previousStep)
        addWaits(*next, queue, true, waits);
      return;
    }
    const Node *maker = value.definingNode();
    if (!maker)
      return;
    if (maker->queue() == Queue::None) {
      for (const Value *operand : maker->operands())
        if (operand)
          addWaits(*operand, queue, previousStep, waits);
      return;
    }
    if (maker->queue() == Queue::Launch || maker->queue() == queue)
      return;
    WaitPoint point{ops.find(maker)->second, previousStep};
    if (!llvm::is_contained(waits, point))
      waits.push_back(point);
  }

  const Graph &graph;
  Timeline timeline;
  llvm::StringMap<std::string> inputOfNext;
  std::vector<const Value *> values; // by number
  llvm::DenseMap<const Value *, uint32_t> numbers;
  llvm::DenseMap<const Node *, uint32_t> ops;
  std::vector<const Node *> order;
};

} // namespace

Timeline makeGraphTimeline(const Graph &graph) {
  return TimelineBuilder(graph).run();
}

} // namespace offload
