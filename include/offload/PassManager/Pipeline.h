// A pipeline: passes with their options, as text and as a list.
//
// Text: `classify,assign-plan{depth=2 target=host},insert-staging`. In a value,
// a space and the characters ,{}=% are written %20, %2C and so on. Parsing and
// printing are inverse.

#ifndef OFFLOAD_PASSMANAGER_PIPELINE_H
#define OFFLOAD_PASSMANAGER_PIPELINE_H

#include "offload/PassManager/Pass.h"

#include <string>
#include <utility>
#include <vector>

namespace offload {

struct PipelineStep {
  const PassInfo *pass = nullptr;
  std::vector<std::pair<std::string, std::string>> options; // unescaped
};
using Pipeline = std::vector<PipelineStep>;

/// Error: an unknown pass (names the nearest one), a brace that is not closed,
/// an option without '='.
llvm::Expected<Pipeline> parsePipeline(llvm::StringRef text);
std::string printPipeline(const Pipeline &pipeline);

/// A named pipeline: `--pipeline=NAME`.
struct PipelineInfo {
  llvm::StringRef name;
  llvm::StringRef passes; // in the text's syntax
  llvm::StringRef summary;
};

/// passes/Pipelines.cpp.
llvm::ArrayRef<PipelineInfo> pipelineTable();

/// Error: an unknown name (names the nearest one).
llvm::Expected<Pipeline> namedPipeline(llvm::StringRef name);

/// Whether each pass gets the form that it takes, if the first one gets `form`.
/// Error: the first that does not, and the passes to run before it.
llvm::Error checkForms(const Pipeline &pipeline, Form form);

/// The entry of `names` with the smallest edit distance to `name`, if it is
/// near enough to be meant; else an empty text.
std::string nearestName(llvm::StringRef name,
                        llvm::ArrayRef<llvm::StringRef> names);

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_PIPELINE_H
