// Writes a Graph as an ONNX model: binary `.off`, or text.

#ifndef OFFLOAD_ONNX_EXPORT_H
#define OFFLOAD_ONNX_EXPORT_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace offload {

struct ExportOptions {
  /// Leave external data where it is though the output lies in another folder.
  bool noCopy = false;
  /// Write ONNX's text syntax instead of the binary form.
  bool text = false;
  /// Where to say what was copied, one line each; may be null.
  llvm::raw_ostream *remarks = nullptr;
};

/// Writes `path` and, where needed, its data: external tensors keep pointing to
/// the source's files when `path` lies in their folder and ONNX accepts them
/// there, and are copied beside it (cloned where the file system can)
/// otherwise; embedded tensors of more than 64 elements go to one page-aligned
/// `<path>.data`. Everything is written to temporary names and renamed at the
/// end, so an error leaves nothing behind; no file of the source is ever
/// written to or replaced, under whatever name. The same graph and path give
/// the same bytes.
///
/// `path` "-" is standard output; it, pipes and devices get the model alone:
/// the binary form then holds embedded tensors itself (up to 2 GiB), and text
/// is as printText makes it.
///
/// Errors, one line each: `path` is the source, or in no folder, or
/// cannot be written, or the disk is full; a model of 2 GiB and more without
/// its data file; an operator of domain `offload` that has no function.
llvm::Error exportModel(const Graph &graph, llvm::StringRef path,
                        const ExportOptions &options);

/// ONNX's text syntax by ONNX's printer, one property a line. Initializers of
/// more than 64 elements or of 2- and 4-bit types print as external references;
/// where they are embedded in the source, to a file "embedded.data" that only
/// exportModel to a real path writes, under the model's name. For looking at a
/// graph: one that cannot be written prints as a comment that says why.
std::string printText(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ONNX_EXPORT_H
