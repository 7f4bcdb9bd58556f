// Contents that a model keeps in files beside it. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_EXTERNALDATA_H
#define OFFLOAD_LIB_ONNX_EXTERNALDATA_H

#include "offload/IR/Graph.h"
#include "offload/IR/MappedFile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace offload {

/// Finds and maps the files that one model names, each once. Data may lie below
/// the model's folder, below the folder of the file that the model's path leads
/// to (a model in a Hugging Face cache is a symbolic link, and so is its data),
/// or below one of the folders that the user trusts.
class ExternalFiles {
public:
  /// `modelPath` may be empty for a model that came by standard input or as
  /// text; then only `folder` counts.
  ExternalFiles(llvm::StringRef modelPath, llvm::StringRef folder,
                llvm::ArrayRef<std::string> trustedFolders);

  /// The range that `tensor` names, of exactly `bytes` bytes; nothing is read.
  /// Errors name `where`, the file, and what is wrong with it.
  llvm::Expected<TensorData> map(const onnx::TensorProto &tensor, int64_t bytes,
                                 const llvm::Twine &where);

private:
  llvm::Expected<std::string> resolve(const std::string &location,
                                      const llvm::Twine &where) const;
  llvm::Expected<std::shared_ptr<const MappedFile>>
  open(const std::string &location, const llvm::Twine &where);

  std::filesystem::path folder;       // as given, where locations are looked up
  std::filesystem::path realFolder;   // the same without symbolic links
  std::filesystem::path linkedFolder; // folder of the model's real file
  std::vector<std::filesystem::path> trusted; // without symbolic links
  /// By real path, so that two names of one file share a mapping.
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  std::map<std::string, std::shared_ptr<const MappedFile>> byLocation;
};

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_EXTERNALDATA_H
