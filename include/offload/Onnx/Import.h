// Reads ONNX models (binary or text) and `.off` files into a Graph.

#ifndef OFFLOAD_ONNX_IMPORT_H
#define OFFLOAD_ONNX_IMPORT_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace offload {

struct ImportOptions {
  /// `--dim` arguments as given: "batch=4" fixes a named dimension, "batch<=4"
  /// bounds it, "x:1=48" and "x:1<=48" do so for axis 1 of input x.
  std::vector<std::string> dims;
  /// Folders that external data may lie in though they are outside of the
  /// model's (`--data-folder`).
  std::vector<std::string> dataFolders;
};

/// Reads, checks and normalizes a model: local functions other than those of
/// domain `offload` inlined, Constant nodes turned into initializers, every
/// node named, operators looked up in the table, types and shapes inferred at
/// the bound, properties of a `.off` read back onto nodes and values. External
/// data is mapped, never read. `path` "-" reads standard input.
///
/// Errors, one line each, naming what is wrong: not ONNX, truncated, bytes that
/// do not match a shape, external data too short or outside of the folder,
/// unknown operator, domain or type, control flow, a cycle, opset or IR version
/// out of range, a `--dim` that names nothing.
llvm::Expected<std::unique_ptr<Graph>>
importModel(llvm::StringRef path, const ImportOptions &options);

/// The same from text in ONNX's syntax. `folder` is where external data lies.
llvm::Expected<std::unique_ptr<Graph>> importText(llvm::StringRef text,
                                                  llvm::StringRef folder,
                                                  const ImportOptions &options);

/// Types and shapes of all node results at the bound, by ONNX's own inference
/// functions with shape arithmetic evaluated; folds what depends on no feed and
/// on no bounded dimension. Values already typed by a pass keep their type.
llvm::Error inferTypes(Graph &graph);

/// An error, in one line, that lists the dimensions of inputs that have neither
/// a size nor a bound, each with the flags to give. A plan needs them all.
llvm::Error requireBoundedInputs(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ONNX_IMPORT_H
