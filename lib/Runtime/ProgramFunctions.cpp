// Refuses files whose functions give `offload` operators another meaning.
//
// In:  functions as text, the opsets that the model and they import.
// Out: nothing, or one error.
// Not: how kernels compute (Kernels): they are judged against the same bodies.
// How: the runtime runs no function; it compares each with the text that the
//      compiler writes. A file that any other ONNX runtime would read
//      differently is refused, for its numbers would depend on who runs it.

#include "ProgramFunctions.h"

#include "offload/OffFormat/FunctionBodies.h"

#include <algorithm>
#include <set>

namespace offload::rt {

namespace {

constexpr const char *kMend = ": compile the model again";

std::string label(const std::string &domain, const std::string &name,
                  const std::string &overload) {
  return domain + (domain.empty() ? "" : ".") + name +
         (overload.empty() ? "" : ":" + overload);
}

void checkVersion(const RawModel &model) {
  auto own = model.opsets.find("offload");
  if (own != model.opsets.end() && own->second != kOffloadVersion)
    throw Error("imports domain 'offload' at version " +
                std::to_string(own->second) +
                ", and this program knows version " +
                std::to_string(kOffloadVersion) + kMend);
}

void checkFunction(const RawFunction &function, const RawModel &model) {
  std::string name = "has a function '" +
                     label(function.domain, function.name, function.overload) +
                     "'";
  const OffFunction *row =
      function.domain == "offload"
          ? findOffFunction(function.name, function.overload)
          : nullptr;
  if (!row)
    throw Error(name + ", which is none of this program's operators" + kMend);
  std::vector<std::string> forms = offFunctionForms(*row);
  if (std::find(forms.begin(), forms.end(), function.text) == forms.end())
    throw Error(name +
                " that is not the one that this program writes, so "
                "other runtimes would compute other numbers" +
                kMend);
  auto standard = model.opsets.find("");
  std::map<std::string, int> wanted;
  if (standard != model.opsets.end())
    wanted.insert(*standard);
  if (function.opsets != wanted)
    throw Error(name + " that imports other opsets than the model" + kMend);
}

} // namespace

void checkFunctions(const RawModel &model) {
  checkVersion(model);
  std::set<std::string> present;
  for (const RawFunction &function : model.functions) {
    checkFunction(function, model);
    std::string name = label(function.domain, function.name, function.overload);
    if (!present.insert(name).second)
      throw Error("has the function '" + name + "' twice" + kMend);
  }
  for (const RawNode &node : model.nodes) {
    if (node.domain != "offload" || !findOffFunction(node.op, node.overload))
      continue; // an operator that is none is refused by its row
    std::string name = label(node.domain, node.op, node.overload);
    if (!present.contains(name))
      throw Error("[" + node.name + "] uses " + name +
                  ", and the file has no function for it" + kMend);
  }
}

} // namespace offload::rt
