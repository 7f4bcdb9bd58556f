// Writes a schedule onto its graph.
//
// In:  a graph, the step read from it, the schedule of that step.
// Out: properties of nodes and values; an entry for each node to be inserted.
// Not: decisions (Planner), nodes (ExpandInserts).
// How: one walk over the positions. Before each node come, in this order, what
//      leaves of the node before it, the release that it allows, the copies
//      that wait for the release, and the waits of what the node reads first.
//      All of them form a chain of entries, each before the next.
//
// Border of two steps: the first copy of a step takes the border token, which
// the last Release on compute makes; the first node on compute waits for that
// copy. So every copy and every compute node of a step comes after the compute
// of the step before, and, as the first copy is of a feed, also after its
// return, that is, after its outputs landed. Where a step copies no feed in,
// compute itself waits for the last output before the border.

#include "offload/Schedule/PlanWriter.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cassert>

namespace offload {
namespace {

class PlanWriter {
public:
  PlanWriter(Graph &graph, const StepModel &step, const Schedule &schedule)
      : graph(graph), step(step), schedule(schedule),
        releaseNames(step.nodes.size()) {}

  llvm::Error run() {
    if (!graph.inserts.empty())
      return makeError("insert '" + graph.inserts.begin()->first +
                       "' is there already; strip the plan first");
    for (const StepModel::ComputeNode &node : step.nodes)
      computeNodes.push_back(graph.findNode(node.name));
    placeLookups();
    findStagedAnchors();
    writeNodes();
    writeResidents();
    writeRanges();
    nameUses();
    for (int32_t at = 0; at <= step.end(); ++at)
      writePosition(at);
    return llvm::Error::success();
  }

private:
  struct UseNames {
    std::vector<std::string> fly, dev; // one a part
    std::vector<int32_t> waitAt;       // -1: the part is not read in this use
    std::string suffix;                // "", "_2", ... of node names
  };

  //===-- Names -----------------------------------------------------------===//

  bool isTaken(const std::string &value) const {
    return takenValues.contains(value) || graph.findValue(value) ||
           graph.plannedValues.contains(value);
  }

  std::string valueName(const std::string &stem) {
    std::string name = stem;
    for (unsigned i = 2; isTaken(name); ++i)
      name = stem + "_" + std::to_string(i);
    takenValues.insert(name);
    return name;
  }

  /// Adds an entry to the chain of the current position.
  void addEntry(const std::string &stem, llvm::StringRef op,
                const std::vector<std::string> &of,
                const std::vector<std::string> &makes,
                const std::string &after = "", bool border = false) {
    Properties entry;
    entry.set("op", op);
    entry.setList("of", of);
    entry.setList("makes", makes);
    if (!after.empty())
      entry.set("after", after);
    if (border)
      entry.set("role", "border");
    std::string name = graph.uniqueNodeName(stem);
    graph.inserts[name] = std::move(entry);
    chain.push_back(name);
  }

  void closeChain(int32_t at) {
    for (size_t i = 0; i < chain.size(); ++i) {
      Properties &entry = graph.inserts[chain[i]];
      if (i + 1 < chain.size())
        entry.set("before", chain[i + 1]);
      else if (at < step.end())
        entry.set("before", step.nodes[at].name);
    }
    chain.clear();
  }

  //===-- Nodes and values that are there ---------------------------------===//

  void placeLookups() {
    llvm::DenseSet<const Node *> early; // before the first compute node
    for (const Node &node : graph.nodeList()) {
      if (!computeNodes.empty() && &node == computeNodes.front())
        break;
      early.insert(&node);
    }
    for (const StepModel::Lookup &lookup : step.lookups) {
      Node *node = graph.findNode(lookup.node);
      node->properties.set("queue", queueName(Queue::Host));
      const Node *maker = node->operand(1)->definingNode();
      if (!computeNodes.empty() && (!maker || early.contains(maker)))
        graph.moveBefore(node, computeNodes.front());
    }
  }

  /// A staged value is copied before the first compute node that follows its
  /// maker.
  void findStagedAnchors() {
    stagedAt.assign(step.staged.size(), 0);
    llvm::DenseMap<const Node *, int32_t> following;
    llvm::DenseSet<const Node *> compute(computeNodes.begin(),
                                         computeNodes.end());
    int32_t next = 0;
    for (const Node &node : graph.nodeList()) {
      following[&node] = next;
      next += compute.contains(&node);
    }
    for (size_t i = 0; i < step.staged.size(); ++i)
      if (const Node *maker =
              graph.findValue(step.staged[i].name)->definingNode())
        stagedAt[i] = following[maker];
    chooseLead();
  }

  /// The copy that carries the border token: of a feed if there is one, else of
  /// rows or launch values, which are made of feeds.
  void chooseLead() {
    for (auto source :
         {StepModel::Staged::Source::Feed, StepModel::Staged::Source::Rows,
          StepModel::Staged::Source::Launch})
      for (size_t i = 0; i < step.staged.size(); ++i)
        if (!lead && step.staged[i].source == source && stagedAt[i] == 0)
          lead = i;
  }

  void writeNodes() {
    for (size_t at = 0; at < step.nodes.size(); ++at)
      if (int64_t bytes = step.nodes[at].scratchBytes)
        computeNodes[at]->properties.setInt("scratch", bytes);
  }

  static void setRange(Properties &properties, int64_t offset, int64_t bytes) {
    properties.setInt("offset", offset);
    properties.setInt("bytes", bytes);
  }

  void writeResidents() {
    llvm::StringSet<> onDevice;
    for (size_t i = 0; i < step.weights.size(); ++i) {
      int64_t offset = schedule.residentOffsets[i];
      for (const StepModel::Part &part : step.weights[i].parts) {
        onDevice.insert(part.name);
        if (!schedule.resident[i])
          continue;
        Properties &properties = graph.findValue(part.name)->properties;
        properties.set("residency", "resident");
        setRange(properties, offset, part.bytes);
        offset += alignUp(part.bytes);
      }
    }
    for (const StepModel::Lookup &lookup : step.lookups)
      if (!onDevice.contains(lookup.table))
        graph.findValue(lookup.table)->properties.set("residency", "host");
  }

  void writeRanges() {
    for (size_t i = 0; i < step.temporaries.size(); ++i)
      setRange(graph.findValue(step.temporaries[i].name)->properties,
               schedule.temporaryOffsets[i], step.temporaries[i].bytes);
    for (const StepModel::TakeOver &value : step.takeOvers)
      graph.findValue(value.name)->properties.set("inplace", value.source);
    for (size_t i = 0; i < step.staged.size(); ++i) {
      const StepModel::Staged &staged = step.staged[i];
      stagedFly.push_back(valueName(staged.name + "_fly"));
      stagedDev.push_back(valueName(staged.name + "_dev"));
      setRange(graph.plannedValues[stagedFly.back()], schedule.stagedOffsets[i],
               staged.bytes);
      current[staged.name] = stagedFly.back();
    }
  }

  //===-- Uses ------------------------------------------------------------===//

  void nameUses() {
    std::vector<unsigned> times(step.weights.size(), 0);
    for (const StagedUse &use : schedule.uses) {
      const StepModel::Weight &weight = step.weights[use.weight];
      UseNames names;
      int64_t offset = use.offset;
      for (const StepModel::Part &part : weight.parts) {
        const std::string fly = valueName(part.name + "_fly");
        names.fly.push_back(fly);
        names.dev.push_back(valueName(part.name + "_dev"));
        names.waitAt.push_back(firstReadIn(part, use));
        setRange(graph.plannedValues[fly], offset, part.bytes);
        offset += alignUp(part.bytes);
      }
      if (unsigned time = ++times[use.weight]; time > 1)
        names.suffix = "_" + std::to_string(time);
      useNames.push_back(std::move(names));
      if (use.after != StagedUse::kAtOnce)
        needRelease(use.after);
    }
  }

  static int32_t firstReadIn(const StepModel::Part &part,
                             const StagedUse &use) {
    auto at = llvm::lower_bound(part.readAt, use.first);
    return at != part.readAt.end() && *at <= use.last ? *at : -1;
  }

  void needRelease(int32_t at) {
    if (releaseNames[at].empty())
      releaseNames[at] = "needed";
  }

  //===-- One position ----------------------------------------------------===//

  void writePosition(int32_t at) {
    if (at > 0) {
      writeFetches(at - 1);
      if (at < step.end())
        writeRelease(at - 1);
    }
    writeStages(at);
    if (at < step.end()) {
      writeWaits(at);
      writeView(at);
    } else {
      writeBorder();
    }
    closeChain(at);
  }

  void writeFetches(int32_t at) {
    for (; nextOutput < step.outputs.size() &&
           step.outputs[nextOutput].madeAt == at;
         ++nextOutput) {
      const std::string &name = step.outputs[nextOutput].name;
      addEntry("fetch_" + name, "Fetch", {name}, {name});
    }
  }

  /// A token of all compute up to the node at `at`: named by the use that ends
  /// there, else by what the node made.
  void writeRelease(int32_t at) {
    if (releaseNames[at].empty())
      return;
    std::string stem = step.nodes[at].result, of = stem;
    for (size_t i = 0; i < schedule.uses.size(); ++i) {
      const StagedUse &use = schedule.uses[i];
      if (use.last != at)
        continue;
      stem = step.weights[use.weight].name() + useNames[i].suffix;
      of = lastWaited(i);
      break;
    }
    releaseNames[at] = valueName(stem + "_free");
    addEntry("release_" + stem, "Release", {of}, {releaseNames[at]});
  }

  const std::string &lastWaited(size_t use) const {
    const UseNames &names = useNames[use];
    for (size_t part = 0; part < names.dev.size(); ++part)
      if (names.waitAt[part] >= 0)
        return names.dev[part];
    llvm_unreachable("a use is read");
  }

  void writeStages(int32_t at) {
    if (at == 0 && lead)
      writeStaged(*lead);
    for (size_t i = 0; i < step.staged.size(); ++i)
      if (stagedAt[i] == at && lead != i)
        writeStaged(i);
    for (; nextUse < schedule.uses.size(); ++nextUse) {
      const StagedUse &use = schedule.uses[nextUse];
      if (use.after >= at || at == step.end())
        return;
      const StepModel::Weight &weight = step.weights[use.weight];
      std::vector<std::string> parts;
      for (const StepModel::Part &part : weight.parts)
        parts.push_back(part.name);
      addEntry("stage_" + weight.name() + useNames[nextUse].suffix, "Stage",
               parts, useNames[nextUse].fly,
               use.after == StagedUse::kAtOnce ? borderToken()
                                               : releaseNames[use.after]);
    }
  }

  void writeStaged(size_t i) {
    const std::string &name = step.staged[i].name;
    addEntry("stage_" + name, "Stage", {name}, {stagedFly[i]}, borderToken());
  }

  /// The token for the first copy of the step; none for all others.
  std::string borderToken() {
    if (!borderIdle.empty())
      return "";
    borderIdle = valueName("step_idle");
    borderFree = valueName("step_free");
    return borderIdle;
  }

  void writeWaits(int32_t at) {
    auto waitForStaged = [&](size_t i) {
      addEntry("wait_" + step.staged[i].name, "Wait", {stagedFly[i]},
               {stagedDev[i]});
    };
    if (at == 0 && lead)
      waitForStaged(*lead);
    for (size_t i = 0; i < step.staged.size(); ++i)
      if (step.staged[i].first == at && lead != i)
        waitForStaged(i);
    for (size_t i = firstOpenUse; i < schedule.uses.size(); ++i) {
      const StagedUse &use = schedule.uses[i];
      if (use.first > at)
        break;
      if (i == firstOpenUse && use.last < at)
        ++firstOpenUse;
      writeUseWaits(i, at);
    }
  }

  void writeUseWaits(size_t i, int32_t at) {
    const StagedUse &use = schedule.uses[i];
    for (size_t part = 0; part < useNames[i].waitAt.size(); ++part) {
      if (useNames[i].waitAt[part] != at)
        continue;
      const std::string &name = step.weights[use.weight].parts[part].name;
      addEntry("wait_" + name + useNames[i].suffix, "Wait",
               {useNames[i].fly[part]}, {useNames[i].dev[part]});
      current[name] = useNames[i].fly[part];
    }
  }

  /// A view names what owns the bytes of its operand here.
  void writeView(int32_t at) {
    for (; nextView < step.views.size() && step.views[nextView].at == at;
         ++nextView) {
      const StepModel::View &view = step.views[nextView];
      auto found = current.find(view.source);
      graph.findValue(view.name)->properties.set(
          "view", found == current.end() ? view.source : found->second);
    }
  }

  void writeBorder() {
    if (step.nodes.empty())
      return;
    const std::string &last = step.nodes.back().result;
    std::string of = last;
    if (!lead && !step.outputs.empty()) {
      of = valueName(last + "_ok");
      addEntry("wait_step", "Wait", {last}, {of}, step.outputs.back().name);
    }
    if (!borderIdle.empty())
      addEntry("release_step", "Release", {of}, {borderFree, borderIdle}, "",
               /*border=*/true);
  }

  Graph &graph;
  const StepModel &step;
  const Schedule &schedule;
  std::vector<Node *> computeNodes;
  std::vector<int32_t> stagedAt;
  std::optional<size_t> lead;
  std::vector<std::string> stagedFly, stagedDev;
  std::vector<UseNames> useNames;
  /// Token made after each position; empty where none is needed.
  std::vector<std::string> releaseNames;
  /// Constant or staged value -> the value that owns its bytes here.
  llvm::StringMap<std::string> current;
  llvm::StringSet<> takenValues;
  std::vector<std::string> chain;
  std::string borderIdle, borderFree;
  size_t nextUse = 0, nextOutput = 0, nextView = 0, firstOpenUse = 0;
};

} // namespace

llvm::Error writePlan(Graph &graph, const StepModel &step,
                      const Schedule &schedule) {
  return PlanWriter(graph, step, schedule).run();
}

} // namespace offload
