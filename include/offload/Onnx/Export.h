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
  /// Where to say what was copied; may be null.
  llvm::raw_ostream *remarks = nullptr;
};

/// Writes `path` and, where needed, its data: external tensors keep pointing to
/// the source's files when `path` lies in their folder, and are copied beside it
/// (cloned where the file system can) otherwise; embedded tensors of more than
/// 64 elements go to one page-aligned `<path>.data`. Everything is written to
/// temporary names and renamed at the end, so an error leaves nothing behind.
/// The same graph gives the same bytes.
llvm::Error exportModel(const Graph &graph, llvm::StringRef path,
                        const ExportOptions &options);

/// ONNX's text syntax by ONNX's printer, one property a line. Initializers of
/// more than 64 elements or of 2- and 4-bit types print as external references.
std::string printText(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ONNX_EXPORT_H
