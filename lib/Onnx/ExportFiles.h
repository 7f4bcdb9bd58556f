// Files that appear all at once or not at all. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_EXPORTFILES_H
#define OFFLOAD_LIB_ONNX_EXPORTFILES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// Files written under temporary names in their final folders and renamed by
/// commit. Whatever was not committed is removed with the object, with the
/// folders made for it; a signal removes the files too.
class PendingFiles {
public:
  PendingFiles() = default;
  ~PendingFiles();
  PendingFiles(const PendingFiles &) = delete;
  PendingFiles &operator=(const PendingFiles &) = delete;

  /// A descriptor open for writing, owned by this object. Folders of `path` are
  /// made where missing. Errors name `path`.
  llvm::Expected<int> create(llvm::StringRef path);
  /// Renames all, in the order of creation, so that what refers to others comes
  /// last. After an error, what this commit has newly made is gone.
  llvm::Error commit();

private:
  struct Entry {
    llvm::sys::fs::TempFile file;
    std::string path;
  };
  llvm::Error makeFolders(llvm::StringRef path);

  std::vector<Entry> entries;
  std::vector<std::string> madeFolders; // outermost first
};

/// Writes all of it, at the descriptor's position or at `offset`. The error
/// names `path`.
llvm::Error writeAll(int file, llvm::ArrayRef<uint8_t> bytes, int64_t offset,
                     llvm::StringRef path);

/// Writes `bytes` at `offset` without its pages of zeros, which stay holes.
llvm::Error writeSparse(int file, llvm::ArrayRef<uint8_t> bytes, int64_t offset,
                        llvm::StringRef path);

/// Sets the size of an open file, so that a hole at its end counts.
llvm::Error setSize(int file, int64_t bytes, llvm::StringRef path);

/// Copies the file `from` into the empty file `to` (named `toPath` in errors):
/// as a clone that shares its blocks where the file system can, else by
/// contents with holes kept. Time of modification included. True: a clone.
llvm::Expected<bool> copyContents(llvm::StringRef from, int to,
                                  llvm::StringRef toPath);

/// Whether two regular files have the same contents. Files of the same size and
/// time of modification count as the same, as copies made by copyContents are.
bool sameContents(llvm::StringRef left, llvm::StringRef right);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_EXPORTFILES_H
