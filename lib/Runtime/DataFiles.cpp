// Finds and maps external data of a `.off`, unless its path leads out.
//
// In:  location, offset and length of a tensor, as the file wrote them.
// Out: the bytes, in a mapping that lasts as long as this object.
// Not: what the bytes mean, and when they are copied (Storage).
// How: a location is a relative path without ".."; what it leads to, links
//      followed, must lie in one of the allowed folders. A folder that the
//      caller names as trusted admits everything that lies in it. A file is
//      mapped once, whatever its names.

#include "DataFiles.h"

#include "offload/Runtime/Tensor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace offload::rt {

namespace {

/// Without symbolic links, or empty where the path does not exist.
fs::path realPath(const fs::path &path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

bool liesBelow(const fs::path &path, const fs::path &folder) {
  if (folder.empty())
    return false;
  auto [inFolder, inPath] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return inFolder == folder.end();
}

} // namespace

FileMapping::FileMapping(const fs::path &path)
    : name(path.string()), file(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  std::string reason = file < 0 ? std::strerror(errno) : "it is no plain file";
  struct stat status{};
  bool isFile =
      file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (isFile && status.st_size > 0) {
    numBytes = static_cast<size_t>(status.st_size);
    void *pages = mmap(nullptr, numBytes, PROT_READ, MAP_PRIVATE, file, 0);
    isFile = pages != MAP_FAILED;
    reason = std::strerror(errno);
    start = isFile ? static_cast<const std::byte *>(pages) : nullptr;
  }
  if (isFile)
    return;
  if (file >= 0)
    close(file);
  throw CannotRead("cannot read '" + name + "': " + reason);
}

FileMapping::~FileMapping() {
  if (start)
    munmap(const_cast<std::byte *>(start), numBytes);
  close(file);
}

void FileMapping::read(size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    ssize_t got = pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      throw CannotRead(
          "cannot read '" + name + "' at " + std::to_string(offset) + ": " +
          (got < 0 ? std::strerror(errno) : "it has become shorter"));
    offset += static_cast<size_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
}

DataFiles::DataFiles(const std::string &offPath,
                     const std::vector<std::string> &trustedFolders)
    : folder(fs::path(offPath).parent_path()) {
  if (folder.empty())
    folder = ".";
  realFolder = realPath(folder);
  linkedFolder = realPath(offPath).parent_path();
  for (const std::string &name : trustedFolders) {
    trusted.push_back(realPath(name));
    if (trusted.back().empty())
      throw Error("there is no data folder '" + name + "'");
  }
}

fs::path DataFiles::resolve(const ExternalRange &range) const {
  fs::path relative(range.location);
  bool leaves =
      relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end();
  std::vector<fs::path> candidates = {folder / relative};
  if (!leaves) {
    candidates.push_back(linkedFolder / relative);
    for (const fs::path &other : trusted)
      candidates.push_back(other / relative);
  }
  bool isThere = false;
  for (const fs::path &candidate : candidates) {
    fs::path real = realPath(candidate);
    isThere |= !real.empty();
    bool inside = !leaves && (liesBelow(real, realFolder) ||
                              liesBelow(real, linkedFolder));
    for (const fs::path &other : trusted)
      inside |= liesBelow(real, other);
    if (!real.empty() && inside)
      return real;
  }
  std::string where =
      "tensor '" + range.tensor + "' has its data in '" + range.location + "'";
  if (leaves || isThere)
    throw Error(where + ", which leads out of the folder '" + folder.string() +
                "': name a folder that may be read with --data-folder=DIR");
  throw Error(where + ", and there is no such file in '" + folder.string() +
              "'");
}

std::span<const std::byte> DataFiles::find(const ExternalRange &range,
                                           int64_t bytes) {
  std::string where = "tensor '" + range.tensor + "' has its data in '" +
                      range.location + "' at offset " +
                      std::to_string(range.offset) + ", length " +
                      std::to_string(range.length < 0 ? bytes : range.length);
  if (range.length >= 0 && range.length != bytes)
    throw Error(where + ", and its type and shape take " +
                std::to_string(bytes) + " bytes");
  std::unique_ptr<FileMapping> &file = mapped[resolve(range)];
  if (!file)
    file = std::make_unique<FileMapping>(resolve(range));
  auto fileBytes = static_cast<int64_t>(file->bytes().size());
  if (range.offset < 0 || range.offset > fileBytes ||
      bytes > fileBytes - range.offset)
    throw Error(where + ", and that file ends at " + std::to_string(fileBytes) +
                " bytes");
  return file->bytes().subspan(static_cast<size_t>(range.offset),
                               static_cast<size_t>(bytes));
}

void DataFiles::read(std::span<const std::byte> contents, std::byte *to) const {
  std::less_equal<const std::byte *> notBehind;
  for (const auto &[path, file] : mapped) {
    std::span<const std::byte> all = file->bytes();
    if (notBehind(all.data(), contents.data()) &&
        notBehind(contents.data() + contents.size(), all.data() + all.size()))
      return file->read(static_cast<size_t>(contents.data() - all.data()),
                        {to, contents.size()});
  }
  std::copy(contents.begin(), contents.end(), to);
}

void DataFiles::forgetPages() {
  for (const auto &[path, file] : mapped)
    if (!file->bytes().empty())
      madvise(const_cast<std::byte *>(file->bytes().data()),
              file->bytes().size(), MADV_DONTNEED);
}

std::span<const std::byte> DataFiles::keep(std::vector<std::byte> bytes) {
  kept.push_back(std::move(bytes));
  return kept.back();
}

} // namespace offload::rt
