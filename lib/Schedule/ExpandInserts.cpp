// Makes nodes of the `insert` properties of a planned graph.
//
// In:  entries with operator, operands, the node that each goes before, and
//      properties of the values that they will make.
// Out: the nodes, in place, with typed results that carry their properties;
//      readers that follow read them; the entries are gone.
// Not: any decision. What an entry does not say is an error.
// How: entries and nodes are put into one order first: an entry comes right
//      before the node or entry that it names. One walk in that order then
//      makes nodes and redirects readers. A value is known by its base, the
//      one that a copy or Wait is of; two maps give its newest name on compute
//      and on the host.

#include "offload/Schedule/ExpandInserts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace offload {
namespace {

struct Entry {
  std::string name, op;
  std::vector<std::string> of, makes;
  std::string before, after;
  bool isBorder = false;
};

llvm::Error fail(const Entry &entry, const llvm::Twine &what) {
  return makeError("insert '" + entry.name + "' (" + entry.op + ") " + what);
}

/// Overload of a copy of that many values; nullptr where there is none.
const char *overloadFor(size_t parts) {
  constexpr const char *kNames[] = {nullptr, "", "two", "three", "four"};
  return parts < std::size(kNames) ? kNames[parts] : nullptr;
}

std::string replaceEnding(llvm::StringRef name, llvm::StringRef ending,
                          llvm::StringRef by) {
  name.consume_back(ending);
  return (name + by).str();
}

TensorType tokenType() {
  TensorType type;
  type.elem = DataType::Bool;
  type.hasRank = true;
  return type;
}

class Expander {
public:
  Expander(Graph &graph, llvm::function_ref<bool(const Properties &)> wanted)
      : graph(graph), wanted(wanted) {}

  llvm::Expected<unsigned> run() {
    if (llvm::Error error = readEntries())
      return error;
    if (llvm::Error error = checkOrder())
      return error;
    llvm::SmallVector<Node *> nodes;
    for (Node &node : graph.nodeList())
      nodes.push_back(&node);
    if (llvm::Error error = addBorderInput())
      return error;
    for (Node *node : nodes) {
      if (llvm::Error error = expandBefore(node->name(), node))
        return error;
      redirect(*node);
    }
    if (llvm::Error error = expandBefore("", nullptr))
      return error;
    for (const Entry &entry : entries)
      graph.inserts.erase(entry.name);
    if (!entries.empty()) {
      graph.opsets["offload"] = 1;
      graph.irVersion = std::max<int64_t>(graph.irVersion, 10);
    }
    return entries.size();
  }

private:
  //===-- Entries ---------------------------------------------------------===//

  static Entry parse(const std::string &name, const Properties &properties) {
    Entry entry;
    entry.name = name;
    entry.op = properties.get("op");
    entry.of = properties.getList("of");
    entry.makes = properties.getList("makes");
    entry.before = properties.get("before");
    entry.after = properties.get("after");
    entry.isBorder = properties.get("role") == "border";
    if (entry.makes.empty())
      entry.makes = usualNames(entry);
    return entry;
  }

  static std::vector<std::string> usualNames(const Entry &entry) {
    std::vector<std::string> names;
    for (const std::string &of : entry.of) {
      if (entry.op == "Stage")
        names.push_back(of + "_fly");
      else if (entry.op == "Wait")
        names.push_back(replaceEnding(of, "_fly", "_dev"));
      else if (entry.op == "Release")
        names.push_back(replaceEnding(of, "_dev", "_free"));
      else if (entry.op == "Fetch")
        names.push_back(of);
    }
    return names;
  }

  llvm::Error readEntries() {
    llvm::StringSet<> later;              // what entries that stay will make
    llvm::StringMap<std::string> staying; // and where these go
    std::vector<Entry> candidates;
    for (const auto &[name, properties] : graph.inserts) {
      Entry entry = parse(name, properties);
      if (llvm::Error error = checkShape(entry))
        return error;
      if (wanted(properties))
        candidates.push_back(std::move(entry));
      else
        leave(entry, later, staying);
    }
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<Entry> kept;
      for (Entry &entry : candidates) {
        bool waits = later.contains(entry.after);
        for (const std::string &of : entry.of)
          waits |= later.contains(of) && entry.makes != entry.of;
        if (!waits) {
          kept.push_back(std::move(entry));
          continue;
        }
        changed = true;
        leave(entry, later, staying);
      }
      candidates = std::move(kept);
    }
    entries = std::move(candidates);
    for (size_t i = 0; i < entries.size(); ++i) {
      // What goes before an entry that stays goes where that one will.
      for (size_t hops = 0; hops <= staying.size(); ++hops) {
        auto next = staying.find(entries[i].before);
        if (next == staying.end())
          break;
        entries[i].before = next->second;
      }
      goingBefore[entries[i].before].push_back(i);
    }
    return llvm::Error::success();
  }

  static void leave(const Entry &entry, llvm::StringSet<> &later,
                    llvm::StringMap<std::string> &staying) {
    for (const std::string &made : entry.makes)
      later.insert(made);
    staying[entry.name] = entry.before;
  }

  llvm::Error checkShape(const Entry &entry) const {
    const bool isCopy = entry.op == "Stage" || entry.op == "Fetch" ||
                        entry.op == "GradTransfer";
    if (!isCopy && entry.op != "Wait" && entry.op != "Release" &&
        entry.op != "Join")
      return fail(entry, "is of no operator that a plan inserts");
    const size_t operands = entry.of.size();
    if (isCopy && !(operands > 0 && overloadFor(operands)))
      return fail(entry, "copies " + llvm::Twine(operands) +
                             " values; a copy has one to four");
    if (!isCopy && operands != (entry.op == "Join" ? 2u : 1u))
      return fail(entry, "is of " + llvm::Twine(operands) + " values");
    const size_t results = isCopy ? operands : entry.isBorder ? 2u : 1u;
    if (entry.makes.size() != results)
      return fail(entry, "makes " + llvm::Twine(entry.makes.size()) +
                             " values instead of " + llvm::Twine(results));
    if (entry.isBorder && entry.op != "Release")
      return fail(entry, "cannot be the border of steps");
    return llvm::Error::success();
  }

  /// Every entry goes before a node or, in the end, before one that does.
  llvm::Error checkOrder() const {
    llvm::StringMap<const Entry *> byName;
    for (const Entry &entry : entries)
      byName[entry.name] = &entry;
    llvm::StringSet<> placed;
    for (const Entry &entry : entries) {
      llvm::SmallVector<const Entry *> chain;
      llvm::StringSet<> onChain;
      const Entry *at = &entry;
      while (!placed.contains(at->name)) {
        if (!onChain.insert(at->name).second)
          return fail(*at, "goes, in a circle, before itself");
        chain.push_back(at);
        if (at->before.empty() || graph.findNode(at->before))
          break;
        const Entry *next = byName.lookup(at->before);
        if (!next)
          return fail(*at, "goes before '" + at->before +
                               "', which is no node and no insert of this "
                               "pass");
        at = next;
      }
      for (const Entry *link : chain)
        placed.insert(link->name);
    }
    return llvm::Error::success();
  }

  /// Expands what goes before `name`, ahead of the node `before`.
  llvm::Error expandBefore(llvm::StringRef name, Node *before) {
    // Depth first, without recursion: chains are as long as there are copies.
    llvm::SmallVector<std::pair<size_t, bool>> open; // entry, its own are done
    auto push = [&](llvm::StringRef anchor) {
      auto found = goingBefore.find(anchor.str());
      if (found == goingBefore.end())
        return;
      for (size_t index : llvm::reverse(found->second))
        open.push_back({index, false});
    };
    push(name);
    while (!open.empty()) {
      auto [index, ready] = open.pop_back_val();
      if (!ready) {
        open.push_back({index, true});
        push(entries[index].name);
        continue;
      }
      if (llvm::Error error = expand(entries[index], before))
        return error;
    }
    return llvm::Error::success();
  }

  //===-- Values ----------------------------------------------------------===//

  /// What the entry copies or waits for.
  llvm::Expected<Value *> operandOf(const Entry &entry,
                                    const std::string &name) const {
    if (Value *value = named.lookup(name))
      return value;
    if (Value *value = graph.findValue(name))
      return value;
    return fail(entry, "is of '" + name + "', which is no value there");
  }

  /// What must exist first; an output stands for what was fetched.
  llvm::Expected<Value *> tokenOf(const Entry &entry) const {
    if (entry.after.empty())
      return nullptr;
    if (Value *fetched = fetchedOutputs.lookup(entry.after))
      return fetched;
    if (Value *value = named.lookup(entry.after))
      return value;
    if (Value *value = graph.findValue(entry.after))
      return value;
    return fail(entry,
                "starts after '" + entry.after + "', which is no value there");
  }

  Value *baseOf(Value *value) const {
    auto found = bases.find(value);
    return found == bases.end() ? value : found->second;
  }

  void redirect(Node &node) {
    const Queue queue = node.queue();
    if (queue != Queue::Compute && queue != Queue::Host)
      return;
    const auto &newest = queue == Queue::Compute ? onDevice : onHost;
    for (unsigned i = 0; i < node.operands().size(); ++i) {
      Value *operand = node.operand(i);
      if (!operand || (node.isLaunchOperand(i) && queue == Queue::Compute))
        continue;
      auto found = newest.find(operand);
      if (found != newest.end())
        node.setOperand(i, found->second);
    }
  }

  //===-- Nodes -----------------------------------------------------------===//

  llvm::Error expand(const Entry &entry, Node *before) {
    llvm::SmallVector<Value *, 5> operands;
    for (const std::string &of : entry.of) {
      llvm::Expected<Value *> operand = operandOf(entry, of);
      if (!operand)
        return operand.takeError();
      operands.push_back(*operand);
    }
    const bool isToken = entry.op == "Release" || entry.op == "Join";
    llvm::Expected<Value *> token = tokenOf(entry);
    if (!token)
      return token.takeError();
    if (entry.op == "Fetch")
      makeRoomForOutputs(entry, operands);
    for (const std::string &made : resultNames(entry))
      if (graph.findValue(made))
        return fail(entry, "makes '" + made + "', which is there already");
    if (graph.findNode(entry.name))
      return fail(entry, "has the name of a node");

    llvm::SmallVector<Value *, 5> all = operands;
    if (!isToken)
      all.push_back(*token);
    Node *node = graph.addNode(entry.name, "offload", entry.op, all,
                               resultNames(entry), before);
    if (!isToken && entry.op != "Wait")
      node->overload = overloadFor(operands.size());
    for (unsigned i = 0; i < node->results().size(); ++i)
      finishResult(entry, *node->result(i), isToken ? nullptr : operands[i]);
    if (entry.isBorder)
      return closeBorder(entry, node->result());
    return llvm::Error::success();
  }

  std::vector<std::string> resultNames(const Entry &entry) const {
    return entry.isBorder ? std::vector<std::string>{entry.makes.front()}
                          : entry.makes;
  }

  /// The name of an output goes to what is fetched for the caller.
  void makeRoomForOutputs(const Entry &entry,
                          llvm::ArrayRef<Value *> operands) {
    for (unsigned i = 0; i < operands.size(); ++i) {
      if (entry.makes[i] != entry.of[i] || !graph.isOutput(operands[i]))
        continue;
      named[entry.of[i]] = operands[i];
      graph.renameValue(operands[i],
                        graph.uniqueValueName(entry.of[i] + "_dev"));
    }
  }

  void finishResult(const Entry &entry, Value &result, Value *source) {
    const std::string name = result.name().str();
    if (auto planned = graph.plannedValues.extract(name))
      result.properties = planned.mapped();
    if (!source) {
      result.type = tokenType();
      return;
    }
    result.type = source->type;
    Value *base = baseOf(source);
    bases[&result] = base;
    if (entry.op == "Wait") {
      onDevice[base] = &result;
    } else if (entry.op != "Stage") {
      onHost[base] = &result;
      giveToOutputs(name, source, &result);
    }
  }

  /// Outputs whose name the fetched value took.
  void giveToOutputs(const std::string &name, Value *source, Value *result) {
    if (named.lookup(name) != source)
      return;
    for (unsigned i = 0; i < graph.outputs().size(); ++i)
      if (graph.outputs()[i] == source)
        graph.setOutput(i, result);
    fetchedOutputs[name] = result;
  }

  llvm::Error addBorderInput() {
    for (const Entry &entry : entries) {
      if (!entry.isBorder)
        continue;
      if (graph.findValue(entry.makes[1]))
        return fail(entry,
                    "makes '" + entry.makes[1] + "', which is there already");
      graph.addInput(entry.makes[1], tokenType(), TensorData::owned({1}));
    }
    return llvm::Error::success();
  }

  llvm::Error closeBorder(const Entry &entry, Value *token) {
    graph.addOutput(token);
    graph.states[entry.makes[1]] = entry.makes[0];
    return llvm::Error::success();
  }

  Graph &graph;
  llvm::function_ref<bool(const Properties &)> wanted;
  std::vector<Entry> entries;
  std::map<std::string, std::vector<size_t>> goingBefore;
  /// Values that gave their name away, by the name that entries know.
  llvm::StringMap<Value *> named;
  llvm::StringMap<Value *> fetchedOutputs;
  llvm::DenseMap<Value *, Value *> bases, onDevice, onHost;
};

} // namespace

llvm::Expected<unsigned>
expandInserts(Graph &graph,
              llvm::function_ref<bool(const Properties &)> wanted) {
  return Expander(graph, wanted).run();
}

} // namespace offload
