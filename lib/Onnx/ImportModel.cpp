// Checks a model's versions and inlines its local functions.
//
// In:  a ModelProto as it was read.
// Out: one whose graph holds operators only.
// Not: nodes, tensors and types (ImportGraph).
// How: ONNX's inliner does the work; what it would refuse without names is
//      refused here first.

#include "ImportModel.h"

#include "ProtoConvert.h"
#include "offload/OffFormat/FunctionBodies.h"
#include "offload/Onnx/OffFunctions.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

#include <onnx/inliner/inliner.h>

#include <set>

namespace offload {

llvm::Expected<std::map<std::string, int64_t>>
checkVersions(const onnx::ModelProto &model) {
  if (model.ir_version() < kLeastIrVersion ||
      model.ir_version() > kMostIrVersion)
    return makeError("the model has IR version " +
                     llvm::Twine(model.ir_version()) + ", and versions " +
                     llvm::Twine(kLeastIrVersion) + " to " +
                     llvm::Twine(kMostIrVersion) + " are supported");
  std::map<std::string, int64_t> opsets;
  for (const onnx::OperatorSetIdProto &import : model.opset_import()) {
    std::string domain = normalizedDomain(import.domain());
    auto [known, isNew] = opsets.insert({domain, import.version()});
    if (!isNew && known->second != import.version())
      return makeError("the model imports domain '" + domain +
                       "' at versions " + llvm::Twine(known->second) + " and " +
                       llvm::Twine(import.version()));
  }
  auto standard = opsets.find("");
  if (standard == opsets.end())
    return makeError("the model imports no opset of the default domain");
  if (standard->second < kLeastOpset || standard->second > kMostOpset)
    return makeError("the model imports opset " +
                     llvm::Twine(standard->second) + ", and opsets " +
                     llvm::Twine(kLeastOpset) + " to " +
                     llvm::Twine(kMostOpset) + " are supported");
  auto own = opsets.find("offload");
  if (own != opsets.end() && own->second != kOffloadVersion)
    return makeError(
        "the model imports domain 'offload' at version " +
        llvm::Twine(own->second) + ", and this program knows version " +
        llvm::Twine(kOffloadVersion) + ": compile the model again");
  return opsets;
}

llvm::Error checkFunctions(const onnx::ModelProto &model, Form form,
                           bool isText) {
  int64_t opset = 0;
  for (const onnx::OperatorSetIdProto &import : model.opset_import())
    if (normalizedDomain(import.domain()).empty())
      opset = import.version();
  llvm::StringSet<> present;
  for (const onnx::FunctionProto &function : model.functions()) {
    std::string label = functionLabel(function);
    if (function.domain() == "offload") {
      if (llvm::Error error = checkOffFunction(function, opset))
        return error;
      if (!present.insert(label).second)
        return makeError("function '" + label + "' is there twice");
    } else if (form != Form::Imported) {
      return makeError("the file has a function '" + label +
                       "', and no schedule has functions of its own: compile "
                       "the model again");
    }
  }
  if (form == Form::Imported || isText)
    return llvm::Error::success();
  for (const onnx::NodeProto &node : model.graph().node()) {
    if (node.domain() != "offload")
      continue;
    std::string label = "offload." + node.op_type() +
                        (node.overload().empty() ? "" : ":" + node.overload());
    if (!present.contains(label))
      return makeError("[" + node.name() + "] uses " + label +
                       ", and the file has no function for it: compile the "
                       "model again");
  }
  return llvm::Error::success();
}

/// Adds what the bodies import; one graph has one version of each domain.
static llvm::Error mergeOpsets(const onnx::ModelProto &model,
                               std::map<std::string, int64_t> &opsets) {
  for (const onnx::FunctionProto &function : model.functions())
    for (const onnx::OperatorSetIdProto &import : function.opset_import()) {
      std::string domain = normalizedDomain(import.domain());
      auto [known, isNew] = opsets.insert({domain, import.version()});
      if (!isNew && known->second != import.version())
        return makeError("function '" + function.domain() + ":" +
                         function.name() + "' imports domain '" + domain +
                         "' at version " + llvm::Twine(import.version()) +
                         ", and others do so at version " +
                         llvm::Twine(known->second));
    }
  return llvm::Error::success();
}

/// Removes the functions that are known operators.
static void dropOffloadFunctions(onnx::ModelProto &model) {
  auto *functions = model.mutable_functions();
  for (auto it = functions->begin(); it != functions->end();)
    it = it->domain() == "offload" ? functions->erase(it) : std::next(it);
}

llvm::Error inlineFunctions(onnx::ModelProto &model,
                            std::map<std::string, int64_t> &opsets) {
  dropOffloadFunctions(model);
  if (model.functions().empty())
    return llvm::Error::success();
  if (llvm::Error error = mergeOpsets(model, opsets))
    return error;
  std::set<std::string> functionDomains;
  for (const onnx::FunctionProto &function : model.functions())
    functionDomains.insert(normalizedDomain(function.domain()));

  auto all = onnx::inliner::FunctionIdSet::Create({}, /*invert=*/true);
  try {
    onnx::inliner::InlineSelectedLocalFunctions(model, *all);
  } catch (const std::exception &error) {
    return makeError("cannot inline the model's functions: " + describe(error));
  }

  for (const onnx::NodeProto &node : model.graph().node())
    functionDomains.erase(normalizedDomain(node.domain()));
  for (const std::string &domain : functionDomains)
    if (!domain.empty())
      opsets.erase(domain);
  return llvm::Error::success();
}

} // namespace offload
