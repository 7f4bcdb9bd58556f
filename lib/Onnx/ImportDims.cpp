// Fixes and bounds dynamic dimensions of a graph's inputs.
//
// In:  "batch=4", "batch<=4", "x:1=48", "x:1<=48"; inputs as the model types
//      them.
// Out: inputs with static or bounded dimensions, "offload.dims" to match.
// Not: dimensions of other values (InferTypes).
// How: arguments by axis go first, since they tell apart dimensions that share
//      a name; an argument by name gets what is left of that name. A bounded
//      dimension without a name of its own is called after input and axis.

#include "ImportDims.h"

#include "offload/Onnx/Import.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <map>
#include <set>

namespace offload {

namespace {

struct DimArgument {
  std::string text;
  std::string target; // what stands before the sign
  std::string name;   // of a dimension, or of an input where axis >= 0
  int64_t axis = -1;
  bool isBound = false; // "<=" and not "="
  int64_t size = 0;
  bool fromFile = false; // of "offload.dims"
};

} // namespace

/// "offload.dims" has blanks between its parts, and names may hold some.
static std::string escapeDim(llvm::StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += c == ' ' ? "%20" : c == '%' ? "%25" : std::string(1, c);
  return escaped;
}

static std::string unescapeDim(llvm::StringRef text) {
  std::string plain;
  while (!text.empty()) {
    if (text.consume_front("%20"))
      plain += ' ';
    else if (text.consume_front("%25"))
      plain += '%';
    else {
      plain += text.front();
      text = text.drop_front();
    }
  }
  return plain;
}

static llvm::Expected<DimArgument> parseArgument(llvm::StringRef text) {
  DimArgument argument;
  argument.text = text.str();
  auto [target, size] = text.rsplit('=');
  argument.isBound = target.consume_back("<");
  target = target.trim();
  if (target.empty() || size.trim().getAsInteger(10, argument.size) ||
      argument.size < (argument.isBound ? 1 : 0))
    return makeError("--dim '" + text +
                     "' is not of the form NAME=SIZE, NAME<=SIZE, "
                     "INPUT:AXIS=SIZE or INPUT:AXIS<=SIZE");
  argument.target = argument.name = target.str();
  auto [input, axis] = target.rsplit(':');
  int64_t number = 0;
  if (!axis.empty() && input.size() < target.size() &&
      !axis.getAsInteger(10, number) && number >= 0) {
    argument.name = input.str();
    argument.axis = number;
  }
  return argument;
}

namespace {

class DimApplier {
public:
  DimApplier(Graph &graph) : graph(graph) {
    for (Value *input : graph.inputs())
      for (const Dim &dim : input->type.dims)
        if (!dim.name.empty())
          ++occurrences[dim.name];
  }

  llvm::Expected<DimTable> run(llvm::ArrayRef<std::string> texts) {
    std::string before = graph.modelProperties.contains(key)
                             ? graph.modelProperties[key]
                             : std::string();
    if (llvm::Error error = collect(texts, before))
      return error;
    for (const auto &[target, argument] : arguments)
      if (argument.axis >= 0)
        if (llvm::Error error = applyToAxis(argument))
          return error;
    for (const auto &[target, argument] : arguments)
      if (argument.axis < 0)
        if (llvm::Error error = applyToName(argument))
          return error;
    record(before);
    return std::move(table);
  }

private:
  /// By target, so that an argument replaces what the file says.
  llvm::Error collect(llvm::ArrayRef<std::string> texts,
                      llvm::StringRef before) {
    llvm::SmallVector<llvm::StringRef> parts;
    before.split(parts, ' ', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef part : parts) {
      llvm::Expected<DimArgument> argument = parseArgument(unescapeDim(part));
      if (!argument)
        return makeError("property '" + key + "' is '" + before +
                         "': " + llvm::toString(argument.takeError()));
      argument->fromFile = true;
      std::string target = argument->target;
      arguments[target] = std::move(*argument);
    }
    for (const std::string &text : texts) {
      llvm::Expected<DimArgument> argument = parseArgument(text);
      if (!argument)
        return argument.takeError();
      auto known = arguments.find(argument->target);
      if (known != arguments.end() && !known->second.fromFile)
        return makeError("--dim '" + known->second.text + "' and --dim '" +
                         text + "' are for one dimension");
      std::string target = argument->target;
      arguments[target] = std::move(*argument);
    }
    return llvm::Error::success();
  }

  llvm::Error applyToAxis(const DimArgument &argument) {
    Value *input = graph.findValue(argument.name);
    if (!input || !input->isGraphInput())
      return namesNothing(argument);
    if (!input->type.hasRank ||
        argument.axis >= static_cast<int64_t>(input->type.dims.size()))
      return makeError("--dim '" + argument.text + "': input '" +
                       argument.name + "' has no axis " +
                       llvm::Twine(argument.axis));
    Dim &dim = input->type.dims[argument.axis];
    if (dim.isStatic()) {
      if (dim.bound == argument.size)
        return llvm::Error::success();
      return makeError("--dim '" + argument.text + "': axis " +
                       llvm::Twine(argument.axis) + " of input '" +
                       argument.name + "' has the fixed size " +
                       llvm::Twine(dim.bound));
    }
    done.insert({input, argument.axis});
    if (!argument.isBound) {
      dim = Dim{argument.size, ""};
      return llvm::Error::success();
    }
    // A name that others share may mean another size there.
    if (dim.name.empty() || occurrences[dim.name] > 1)
      dim.name =
          freshName(argument.name + "_axis" + std::to_string(argument.axis));
    dim.bound = argument.size;
    table[dim.name] = dim;
    return llvm::Error::success();
  }

  std::string freshName(std::string name) {
    while (occurrences.contains(name))
      name += "_";
    occurrences[name] = 1;
    return name;
  }

  llvm::Error applyToName(const DimArgument &argument) {
    Dim made{argument.size, argument.isBound ? argument.name : ""};
    bool found = false;
    for (Value *input : graph.inputs())
      for (size_t axis = 0; axis < input->type.dims.size(); ++axis) {
        Dim &dim = input->type.dims[axis];
        if (dim.name != argument.name || done.contains({input, axis}))
          continue;
        dim = made;
        found = true;
      }
    if (!found)
      return namesNothing(argument);
    table[argument.name] = made;
    return llvm::Error::success();
  }

  llvm::Error namesNothing(const DimArgument &argument) {
    // What a `.off` was fixed to is no longer dynamic in it.
    if (argument.fromFile)
      return llvm::Error::success();
    std::vector<std::string> present;
    for (Value *input : graph.inputs())
      for (auto [axis, dim] : llvm::enumerate(input->type.dims))
        if (!dim.isStatic())
          present.push_back(
              (dim.name.empty() ? std::string() : "'" + dim.name + "' = ") +
              "'" + input->name().str() + ":" + std::to_string(axis) + "'");
    return makeError("--dim '" + argument.text +
                     "' names no dynamic dimension of an input; there " +
                     (present.empty() ? std::string("are none")
                                      : (present.size() == 1 ? "is " : "are ") +
                                            llvm::join(present, ", ")));
  }

  void record(const std::string &before) {
    std::vector<std::string> parts;
    for (const auto &[target, argument] : arguments)
      parts.push_back(escapeDim(argument.target +
                                (argument.isBound ? "<=" : "=") +
                                std::to_string(argument.size)));
    std::string after = llvm::join(parts, " ");
    if (after.empty())
      graph.modelProperties.erase(key);
    else
      graph.modelProperties[key] = after;
    graph.planIsStale = graph.form != Form::Imported && after != before;
  }

  Graph &graph;
  const std::string key{kDimsKey};
  DimTable table;
  std::map<std::string, DimArgument> arguments;
  std::map<std::string, unsigned> occurrences;
  std::set<std::pair<const Value *, size_t>> done; // looked up, never walked
};

} // namespace

llvm::Expected<DimTable> applyDims(Graph &graph,
                                   llvm::ArrayRef<std::string> arguments) {
  return DimApplier(graph).run(arguments);
}

void substituteDims(TensorType &type, const DimTable &table) {
  for (Dim &dim : type.dims) {
    auto known = table.find(dim.name);
    if (!dim.name.empty() && known != table.end())
      dim = known->second;
  }
}

llvm::Error requireBoundedInputs(const Graph &graph) {
  std::vector<std::string> missing;
  llvm::StringSet<> named;
  for (const Value *input : graph.inputs()) {
    if (!input->type.hasRank)
      return makeError("input '" + input->name() +
                       "' has no shape: a model that is planned gives each "
                       "input its rank");
    for (auto [axis, dim] : llvm::enumerate(input->type.dims)) {
      if (dim.bound >= 0 ||
          (!dim.name.empty() && !named.insert(dim.name).second))
        continue;
      std::string flag = dim.name.empty()
                             ? input->name().str() + ":" + std::to_string(axis)
                             : dim.name;
      missing.push_back(
          "dimension " +
          (dim.name.empty() ? std::string() : "'" + dim.name + "' ") +
          "of input '" + input->name().str() + "' (axis " +
          std::to_string(axis) + ") has no size: give --dim '" + flag +
          "=N' or --dim '" + flag + "<=N'");
    }
  }
  if (missing.empty())
    return llvm::Error::success();
  return makeError(llvm::join(missing, "; "));
}

} // namespace offload
