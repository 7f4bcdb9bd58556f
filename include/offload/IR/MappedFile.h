// A file mapped read-only into memory.

#ifndef OFFLOAD_IR_MAPPEDFILE_H
#define OFFLOAD_IR_MAPPEDFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace offload {

/// Lives as long as any tensor in it. Pages are read when touched, so mapping
/// 140 GB takes no memory. Thread-safe after open.
class MappedFile {
public:
  /// Error: cannot open, not a regular file. The message names the path.
  static llvm::Expected<std::shared_ptr<const MappedFile>>
  open(llvm::StringRef path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  llvm::StringRef path() const { return filePath; }
  int64_t sizeBytes() const { return numBytes; }
  llvm::ArrayRef<uint8_t> bytes(int64_t offset, int64_t count) const;

private:
  MappedFile() = default;
  std::string filePath;
  const uint8_t *start = nullptr;
  int64_t numBytes = 0;
};

} // namespace offload

#endif // OFFLOAD_IR_MAPPEDFILE_H
