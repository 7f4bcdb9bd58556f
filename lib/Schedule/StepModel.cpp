// Reads one step of a graph into plain data for the planner.
//
// In:  a graph with rows and types, launch nodes marked.
// Out: compute nodes by position, what they make and how long it lives, the
//      constants that travel together, what is staged and fetched.
// Not: what is resident, streamed, staged when, or where (Planner).
// How: every device value has a root, the value that owns its bytes: a view
//      leads to its operand. One walk over the compute nodes counts each read
//      to the root; WeightGroups then joins constants.

#include "offload/Schedule/StepModel.h"

#include "offload/Schedule/NodeCost.h"

#include "ViewChoice.h"
#include "WeightGroups.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

namespace offload {
namespace {

bool isTableLookup(const Node &node) {
  if (!node.domain.empty() || node.opType != "Gather" ||
      intAttribute(node.attributes, "axis", 0) != 0)
    return false;
  const Value *table = node.operand(0);
  return table && table->isConstant() && node.operand(1) &&
         table->data.sizeBytes() >= kHostTableBytes;
}

/// The operand that makes Dropout more than a second name, or nullptr.
const Value *trainingMode(const Node &node) {
  return node.domain.empty() && node.opType == "Dropout" ? node.operand(2)
                                                         : nullptr;
}

class StepReader {
public:
  StepReader(const Graph &graph, bool lookupsOnHost, bool onCard)
      : graph(graph), lookupsOnHost(lookupsOnHost), onCard(onCard) {}

  llvm::Expected<StepModel> run() {
    if (!graph.states.empty())
      return makeError("'" + graph.states.begin()->first +
                       "' is a state: graphs that carry state from step to "
                       "step (training) cannot be planned");
    findHostLookups();
    choice.emplace(graph, hostLookups);
    for (const Node &node : graph.nodeList())
      if (isCompute(node))
        positions[&node] = static_cast<int32_t>(positions.size());
    for (const Node &node : graph.nodeList())
      if (isCompute(node))
        if (llvm::Error error = readNode(node))
          return error;
    readOutputs();
    readLookups();
    llvm::Expected<std::vector<StepModel::Weight>> weights =
        groupWeights(graph, constants);
    if (!weights)
      return weights.takeError();
    step.weights = std::move(*weights);
    llvm::stable_sort(step.staged, [](const auto &a, const auto &b) {
      return a.first < b.first;
    });
    numberLookups();
    return std::move(step);
  }

private:
  bool isCompute(const Node &node) const {
    return node.queue() == Queue::Compute && !hostLookups.contains(&node);
  }

  bool isOnDevice(const Value *value) const {
    const Node *maker = value->definingNode();
    return maker && isCompute(*maker);
  }

  bool isKnownOnHost(const Value *value) const {
    const Node *maker = value->definingNode();
    return !maker || maker->queue() == Queue::Launch;
  }

  /// A table is looked up on the host only where some fetched output comes
  /// after the rows' first reader: then the run does not return before the
  /// rows were copied, and the next run may write them anew.
  void findHostLookups() {
    if (!lookupsOnHost)
      return;
    llvm::DenseMap<const Node *, unsigned> order;
    for (const Node &node : graph.nodeList())
      order[&node] = order.size();
    unsigned lastMaker = 0;
    for (const Value *output : graph.outputs())
      if (const Node *maker = output->definingNode())
        if (maker->queue() == Queue::Compute && !isTableLookup(*maker))
          lastMaker = std::max(lastMaker, order[maker]);
    for (const Node &node : graph.nodeList()) {
      if (!isTableLookup(node) || node.queue() != Queue::Compute ||
          !isKnownOnHost(node.operand(1)))
        continue;
      bool covered = llvm::any_of(node.result()->users(), [&](Node *user) {
        return user->queue() == Queue::Compute && order[user] <= lastMaker;
      });
      if (covered)
        hostLookups.insert(&node);
    }
  }

  bool isViewNode(const Node &node) const { return choice->isView(node); }

  /// The value that owns the bytes of a device value.
  const Value *rootOf(const Value *value) const {
    while (isOnDevice(value) && isViewNode(*value->definingNode()))
      value = value->definingNode()->operand(0);
    return value;
  }

  /// Where a reader of `value` at position `at` first names the root: there,
  /// or at the first view of the chain.
  int32_t entryOf(const Value *value, int32_t at) const {
    while (isOnDevice(value) && isViewNode(*value->definingNode())) {
      at = positions.lookup(value->definingNode());
      value = value->definingNode()->operand(0);
    }
    return at;
  }

  llvm::Error readNode(const Node &node) {
    const int32_t at = positions.lookup(&node);
    if (llvm::Error error = checkBounded(node))
      return error;
    const Value *training = trainingMode(node);
    if (training && training->isConstant() &&
        llvm::any_of(training->data.bytes(), [](uint8_t b) { return b; }))
      return makeError("[" + node.name() +
                       "] (Dropout) is in training mode, and plans are made "
                       "for inference: set its training_mode to false");
    const bool view = isViewNode(node);
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (const Value *operand = node.operand(i))
        if (!node.isLaunchOperand(i))
          touch(operand, at);
    addNode(node, view);
    if (view) {
      step.views.push_back(
          {node.result()->name().str(), node.operand(0)->name().str(), at});
      return llvm::Error::success();
    }
    const Value *taken = takenOver(node, at);
    for (const Value *result : node.results()) {
      if (!result)
        continue;
      if (taken && result == node.result()) {
        temporaryOf[result] = temporaryOf.lookup(taken);
        step.takeOvers.push_back({result->name().str(), taken->name().str()});
        continue;
      }
      temporaryOf[result] = step.temporaries.size();
      step.temporaries.push_back(
          {result->name().str(), result->type.bytesAtBound(), at, at});
    }
    return llvm::Error::success();
  }

  /// The operand whose bytes result 0 may take over, or nullptr: what a compute
  /// node made, of the same type, read here for the last time and only once.
  const Value *takenOver(const Node &node, int32_t at) const {
    if (node.info->inPlaceOperand < 0 || !node.result())
      return nullptr;
    const unsigned index = node.info->inPlaceOperand;
    const Value *taken = node.operand(index);
    if (!taken || !temporaryOf.contains(taken) ||
        !(taken->type == node.result()->type) || isReadAfter(taken, at))
      return nullptr;
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (i != index && node.operand(i) && rootOf(node.operand(i)) == taken)
        return nullptr;
    return taken;
  }

  /// By the caller, or by a compute node after `at`, through views too.
  bool isReadAfter(const Value *value, int32_t at) const {
    if (graph.isOutput(value))
      return true;
    return llvm::any_of(value->users(), [&](const Node *user) {
      if (!isCompute(*user))
        return user->queue() != Queue::Launch;
      return positions.lookup(user) > at ||
             (isViewNode(*user) && isReadAfter(user->result(), at));
    });
  }

  void addNode(const Node &node, bool view) {
    StepModel::ComputeNode entry;
    entry.name = node.name().str();
    for (const Value *result : node.results())
      if (result && entry.result.empty())
        entry.result = result->name().str();
    entry.isView = view;
    if (!view) {
      entry.flops = countFlops(node);
      entry.touchedBytes = countTouchedBytes(node);
      entry.scratchBytes = countScratchBytes(node, onCard);
    }
    const DataType type = node.results().empty() || !node.result()
                              ? DataType::Float
                              : node.result()->type.elem;
    entry.halfPrecision =
        type == DataType::Float16 || type == DataType::BFloat16;
    step.nodes.push_back(std::move(entry));
  }

  llvm::Error checkBounded(const Node &node) const {
    assert(node.info && "the importer looks every operator up");
    auto refuse = [&](const Value *value) {
      return makeError("the size of '" + value->name() + "' at [" +
                       node.name() + "] (" + node.opType +
                       ") has no bound; bound the inputs that it depends on "
                       "with --dim");
    };
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (const Value *operand = node.operand(i))
        if (!node.isLaunchOperand(i) && !operand->type.isBounded())
          return refuse(operand);
    for (const Value *result : node.results())
      if (result && !result->type.isBounded())
        return refuse(result);
    return llvm::Error::success();
  }

  /// The node at `at`, or what comes at the end of the step, reads `value`.
  void touch(const Value *value, int32_t at) {
    const Value *root = rootOf(value);
    const int32_t entry = entryOf(value, at);
    if (isOnDevice(root)) {
      StepModel::Temporary &temporary =
          step.temporaries[temporaryOf.lookup(root)];
      temporary.last = std::max(temporary.last, at);
    } else if (root->isConstant()) {
      ConstantReads &reads = constants[root];
      int32_t &last = reads.spans.try_emplace(entry, entry).first->second;
      last = std::max(last, at);
      if (value == root &&
          (reads.namedAt.empty() || reads.namedAt.back() != at))
        reads.namedAt.push_back(at);
    } else {
      touchStaged(root, value == root, at);
    }
  }

  void touchStaged(const Value *root, bool direct, int32_t at) {
    auto [place, isNew] = stagedOf.try_emplace(root, step.staged.size());
    if (isNew) {
      StepModel::Staged staged;
      staged.name = root->name().str();
      staged.bytes = root->type.bytesAtBound();
      staged.first = staged.last = at;
      const Node *maker = root->definingNode();
      staged.source = !maker ? StepModel::Staged::Source::Feed
                      : maker->queue() == Queue::Launch
                          ? StepModel::Staged::Source::Launch
                          : StepModel::Staged::Source::Rows;
      step.staged.push_back(std::move(staged));
    }
    StepModel::Staged &staged = step.staged[place->second];
    staged.last = std::max(staged.last, at);
    if (direct && (staged.readAt.empty() || staged.readAt.back() != at))
      staged.readAt.push_back(at);
  }

  void readOutputs() {
    llvm::DenseSet<const Value *> done;
    for (const Value *output : graph.outputs()) {
      if (!done.insert(output).second)
        continue;
      if (!isOnDevice(output)) {
        if (output->definingNode() && output->type.isBounded())
          step.hostOutputBytes += output->type.bytesAtBound();
        continue;
      }
      touch(output, step.end());
      step.outputs.push_back({output->name().str(), output->type.bytesAtBound(),
                              positions.lookup(output->definingNode())});
    }
    llvm::stable_sort(step.outputs, [](const auto &a, const auto &b) {
      return a.madeAt < b.madeAt;
    });
  }

  void readLookups() {
    for (const Node &node : graph.nodeList()) {
      if (!hostLookups.contains(&node))
        continue;
      StepModel::Lookup lookup;
      lookup.node = node.name().str();
      lookup.table = node.operand(0)->name().str();
      lookup.tableBytes = node.operand(0)->data.sizeBytes();
      step.lookups.push_back(std::move(lookup));
    }
  }

  void numberLookups() {
    for (StepModel::Lookup &lookup : step.lookups) {
      for (StepModel::Weight &weight : step.weights)
        for (const StepModel::Part &part : weight.parts)
          weight.staysOnHost |= part.name == lookup.table;
      llvm::StringRef rows = graph.findNode(lookup.node)->result()->name();
      for (unsigned i = 0; i < step.staged.size(); ++i)
        if (step.staged[i].name == rows)
          lookup.staged = i;
    }
  }

  const Graph &graph;
  const bool lookupsOnHost, onCard;
  StepModel step;
  llvm::DenseSet<const Node *> hostLookups;
  std::optional<ViewChoice> choice;
  llvm::DenseMap<const Node *, int32_t> positions;
  llvm::DenseMap<const Value *, size_t> temporaryOf, stagedOf;
  ConstantReadsMap constants;
};

} // namespace

int64_t StepModel::Weight::bytes() const {
  int64_t total = 0;
  for (const Part &part : parts)
    total += alignUp(part.bytes);
  return total;
}

int64_t StepModel::scratchBytes() const {
  int64_t most = 0;
  for (const ComputeNode &node : nodes)
    most = std::max(most, node.scratchBytes);
  return most;
}

llvm::Expected<StepModel> readStep(const Graph &graph, bool lookupsOnHost,
                                   bool onCard) {
  return StepReader(graph, lookupsOnHost, onCard).run();
}

} // namespace offload
