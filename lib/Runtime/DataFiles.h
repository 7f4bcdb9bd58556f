// Contents of constants: files beside the `.off`, mapped, or memory.

#ifndef OFFLOAD_LIB_RUNTIME_DATAFILES_H
#define OFFLOAD_LIB_RUNTIME_DATAFILES_H

#include "offload/Runtime/Tensor.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace offload::rt {

/// A file that is not there, or may not be read. The message names it.
class CannotRead : public Error {
public:
  using Error::Error;
};

/// A whole file, mapped for reading and open.
class FileMapping {
public:
  /// Throws CannotRead.
  explicit FileMapping(const std::filesystem::path &path);
  FileMapping(const FileMapping &) = delete;
  FileMapping &operator=(const FileMapping &) = delete;
  ~FileMapping();
  std::span<const std::byte> bytes() const { return {start, numBytes}; }
  /// Copies bytes of the file without touching the mapping's pages. Throws
  /// CannotRead.
  void read(size_t offset, std::span<std::byte> to) const;

private:
  std::string name;
  int file = -1;
  const std::byte *start = nullptr;
  size_t numBytes = 0;
};

/// Where external data of one tensor lies, as the file says.
struct ExternalRange {
  std::string tensor; // for messages
  std::string location;
  int64_t offset = 0;
  int64_t length = -1; // -1: the file does not say
};

class DataFiles {
public:
  /// Data may lie below the folder of `offPath`, below the folder of the real
  /// file that it leads to, or below one of `trustedFolders`. Throws Error
  /// where one of these is not there.
  DataFiles(const std::string &offPath,
            const std::vector<std::string> &trustedFolders);

  /// The range that `range` names, which must be `bytes` long. Throws Error.
  std::span<const std::byte> find(const ExternalRange &range, int64_t bytes);

  /// Copies contents that this object gave, as a file's if they are one's: a
  /// page that is copied once is not worth mapping. Any thread may call it.
  /// Throws CannotRead.
  void read(std::span<const std::byte> contents, std::byte *to) const;

  /// Lets the system take back the pages of mapped files that were read; they
  /// come again when they are.
  void forgetPages();

  /// Keeps bytes that came with the `.off` itself.
  std::span<const std::byte> keep(std::vector<std::byte> bytes);

private:
  std::filesystem::path resolve(const ExternalRange &range) const;

  std::filesystem::path folder; // as given, where locations are looked up
  std::filesystem::path realFolder, linkedFolder; // without links
  std::vector<std::filesystem::path> trusted;     // likewise
  std::map<std::filesystem::path, std::unique_ptr<FileMapping>> mapped;
  std::vector<std::vector<std::byte>> kept;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_DATAFILES_H
