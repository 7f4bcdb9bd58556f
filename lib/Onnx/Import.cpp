// Reads a model into a Graph: the importer's steps, one after another.
//
// In:  a file, standard input or text; `--dim` and `--data-folder`.
// Out: a checked, typed Graph, or one error.
// Not: each step itself (ImportFile, ImportModel, ImportGraph, ImportDims,
//      ImportProperties, InferTypes).

#include "offload/Onnx/Import.h"

#include "ExternalData.h"
#include "FoldedFunction.h"
#include "ImportDims.h"
#include "ImportFile.h"
#include "ImportGraph.h"
#include "ImportModel.h"
#include "ImportProperties.h"
#include "InferTypes.h"
#include "ProtoConvert.h"

#include "llvm/Support/Path.h"

namespace offload {

/// Versions, form and descriptions of the model.
static llvm::Error readHeader(onnx::ModelProto &model, bool isText,
                              Graph &graph) {
  llvm::Expected<std::map<std::string, int64_t>> opsets = checkVersions(model);
  if (!opsets)
    return opsets.takeError();
  graph.opsets = std::move(*opsets);
  llvm::Expected<Form> form = readForm(model);
  if (!form)
    return form.takeError();
  graph.form = *form;
  graph.irVersion = model.ir_version();
  if (!model.graph().name().empty())
    graph.name = model.graph().name();
  graph.producerName = model.producer_name();
  graph.producerVersion = model.producer_version();
  graph.docString = model.doc_string();
  if (llvm::Error error = checkFunctions(model, *form, isText))
    return error;
  return inlineFunctions(model, graph.opsets);
}

/// An operator's row names the types of its first operand, and some attributes
/// have values that no kernel covers. What is refused here is what the runtime
/// would refuse.
static llvm::Error checkCases(const Graph &graph) {
  for (const Node &node : graph.nodeList()) {
    const Value *operand = node.operand(0);
    if (operand && !node.info->supportsType(operand->type.elem))
      return makeError("[" + node.name() + "] uses operator " + node.opType +
                       " on type " + dataTypeName(operand->type.elem) + " ('" +
                       operand->name() + "'), which is not supported");
    std::string reason =
        unsupportedReason(*node.info, node.sinceVersion, node.attributes,
                          static_cast<unsigned>(node.results().size()));
    if (!reason.empty())
      return makeError("[" + node.name() + "] " + node.opType + ": " + reason);
  }
  return llvm::Error::success();
}

static llvm::Expected<std::unique_ptr<Graph>>
importProto(onnx::ModelProto &model, bool isText, ExternalFiles &files,
            llvm::StringRef folder, const ImportOptions &options) {
  auto graph = std::make_unique<Graph>();
  graph->sourceFolder = folder.str();
  std::optional<onnx::FunctionProto> folded = takeFoldedFunction(model);
  if (llvm::Error error = readHeader(model, isText, *graph))
    return error;
  llvm::Expected<DeclaredTypes> declared = buildGraph(model, files, *graph);
  if (!declared)
    return declared.takeError();
  if (folded)
    if (llvm::Error error = readFoldedFunction(*folded, files, *graph))
      return error;
  if (llvm::Error error = readProperties(model, *graph))
    return error;
  llvm::Expected<DimTable> dims = applyDims(*graph, options.dims);
  if (!dims)
    return dims.takeError();
  for (auto &entry : *declared)
    substituteDims(entry.second, *dims);
  if (llvm::Error error = inferTypes(*graph, *declared))
    return error;
  if (llvm::Error error = checkCases(*graph))
    return error;
  if (llvm::Error error = graph->verify())
    return error;
  return graph;
}

/// ONNX and the standard library throw; none of it leaves the importer.
template <typename Step>
static llvm::Expected<std::unique_ptr<Graph>> guarded(llvm::StringRef what,
                                                      Step step) {
  try {
    return step();
  } catch (const std::exception &error) {
    return makeError("cannot read " + what + ": " + describe(error));
  }
}

llvm::Expected<std::unique_ptr<Graph>>
importModel(llvm::StringRef path, const ImportOptions &options) {
  return guarded(
      "'" + path.str() + "'", [&]() -> llvm::Expected<std::unique_ptr<Graph>> {
        bool isText = false;
        llvm::Expected<std::unique_ptr<onnx::ModelProto>> model =
            readModelFile(path, isText);
        if (!model)
          return model.takeError();
        bool isFile = path != "-";
        std::string folder = llvm::sys::path::parent_path(path).str();
        if (!isFile || folder.empty())
          folder = ".";
        ExternalFiles files(isFile ? path : "", folder, options.dataFolders);
        llvm::Expected<std::unique_ptr<Graph>> graph =
            importProto(**model, isText, files, folder, options);
        if (graph && isFile)
          (*graph)->sourcePath = path.str();
        return graph;
      });
}

llvm::Expected<std::unique_ptr<Graph>>
importText(llvm::StringRef text, llvm::StringRef folder,
           const ImportOptions &options) {
  return guarded("text", [&]() -> llvm::Expected<std::unique_ptr<Graph>> {
    llvm::Expected<std::unique_ptr<onnx::ModelProto>> model =
        parseModelText(text, "text");
    if (!model)
      return model.takeError();
    ExternalFiles files("", folder, options.dataFolders);
    return importProto(**model, /*isText=*/true, files,
                       folder.empty() ? "." : folder, options);
  });
}

} // namespace offload
