// Where the contents of constants go when a model is written. Private to this
// room.

#ifndef OFFLOAD_LIB_ONNX_EXPORTDATA_H
#define OFFLOAD_LIB_ONNX_EXPORTDATA_H

#include "ExportFiles.h"
#include "ExportProto.h"
#include "offload/IR/Graph.h"
#include "offload/Onnx/Export.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>
#include <vector>

namespace offload {

/// Constants of up to this many elements stand in the model itself.
inline constexpr int64_t kInlineElements = 64;

/// Every embedded tensor begins at a multiple of this many bytes of its file.
inline constexpr int64_t kDataAlignBytes = 4096;

/// The place of each constant of one graph, and what must be written for it.
/// Refers to the graph, which must outlive it and not change.
class DataPlan {
public:
  /// For a model file `path`. With `text`, types that text cannot hold are
  /// external however small they are. Errors: there is no such folder;
  /// `path` or a data file to be written is one of the source's files.
  static llvm::Expected<DataPlan> forFile(const Graph &graph,
                                          llvm::StringRef path, bool text,
                                          const ExportOptions &options);
  /// For a model that no file is written with: external tensors stay where they
  /// are. Embedded ones stand in the model, but in text those that it cannot
  /// hold or that are large refer to a file of the name `embedded.data`.
  static DataPlan forStream(const Graph &graph, bool text);

  TensorPlace placeOf(const Value &value) const;
  /// Bytes of embedded tensors that stand in the model.
  int64_t inlineBytes() const { return bytesInline; }
  /// Writes copies and the data file.
  llvm::Error write(PendingFiles &files);
  /// What was copied, and what was left where it is; complete after write.
  llvm::ArrayRef<std::string> remarks() const { return notes; }

private:
  friend class DataPlanner;
  struct Copy {
    std::string from, to;
    int64_t bytes = 0;
  };
  llvm::Error writeEmbedded(PendingFiles &files) const;

  llvm::DenseMap<const Value *, TensorPlace> places; // looked up only
  std::vector<Copy> copies;
  std::vector<std::string> notes;
  std::vector<std::pair<const Value *, int64_t>> embedded; // with offset
  std::string dataPath;
  int64_t dataBytes = 0;
  int64_t bytesInline = 0;
};

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_EXPORTDATA_H
