// Finds flags that make no difference, from where the model's data lies.
//
// Not: --depth where nothing streams; only the plan knows (assign-plan).

#include "UselessFlags.h"

#include "offload/IR/MappedFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace offload::tool {
namespace {

void remark(const llvm::Twine &flag, const llvm::Twine &why) {
  llvm::errs() << "remark: " << flag << " changes nothing: " << why << "\n";
}

std::string realPath(llvm::StringRef path) {
  llvm::SmallString<128> real;
  if (llvm::sys::fs::real_path(path.empty() ? "." : path, real))
    return path.str();
  return real.str().str();
}

bool isBelow(llvm::StringRef path, llvm::StringRef folder) {
  return path.consume_front(folder) &&
         (folder.ends_with("/") || path.starts_with("/"));
}

bool hasExternalData(const Graph &graph) {
  return llvm::any_of(graph.initializers(), [](const Value *constant) {
    return constant->data.isExternal();
  });
}

/// Whether some constant lies in the trusted folder and not in the model's own.
bool needsDataFolder(const Graph &graph, llvm::StringRef folder) {
  const std::string own = realPath(graph.sourceFolder);
  const std::string trusted = realPath(folder);
  return llvm::any_of(graph.initializers(), [&](const Value *constant) {
    const MappedFile *file = constant->data.mappedFile();
    if (!file || !constant->data.isExternal())
      return false;
    const std::string path = realPath(file->path());
    return isBelow(path, trusted) && !isBelow(path, own);
  });
}

void remarkNoCopy(const CommandLine &line, const Graph &graph) {
  if (line.output.empty() || line.output == "-")
    return remark("--no-copy", "no file is written");
  if (!hasExternalData(graph))
    return remark("--no-copy", "the model has no external data");
  llvm::StringRef parent = llvm::sys::path::parent_path(line.output);
  if (realPath(parent) == realPath(graph.sourceFolder))
    remark("--no-copy", "the output lies in the model's folder");
}

} // namespace

void remarkUselessFlags(const CommandLine &line, const Graph &graph,
                        bool plans) {
  if (!plans) {
    const llvm::StringRef why = "no plan is made";
    if (line.target)
      remark("--target", why);
    if (line.memoryGiven)
      remark("--device-memory", why);
    if (line.depth)
      remark("--depth", why);
  }
  if (line.noCopy)
    remarkNoCopy(line, graph);
  for (const std::string &folder : line.dataFolders)
    if (!needsDataFolder(graph, folder))
      remark("--data-folder=" + folder,
             line.dataFolders.size() == 1
                 ? "the model's external data lies in its own folder"
                 : "no external data from outside of the model's folder lies "
                   "there");
}

} // namespace offload::tool
