// Writes files so that an error leaves nothing half-written.
//
// In:  paths, bytes, files to be copied.
// Out: all files under their final names, or none.
// Not: which files (ExportData), what is in them (ExportProto).
// How: temporary names in the same folder, then renames. A rename puts a new
//      file in place of an old one and never writes into it, so whoever has the
//      old one mapped or linked keeps it.

#include "ExportFiles.h"

#include "offload/IR/Graph.h"
#include "offload/IR/MappedFile.h"

#include "llvm/Support/Path.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace offload {

namespace fs = llvm::sys::fs;

static constexpr size_t kChunkBytes = size_t(1) << 20;
static constexpr size_t kHoleBytes = 4096;

static llvm::Error fileError(llvm::StringRef what, llvm::StringRef path,
                             int error = errno) {
  return makeError("cannot " + what + " '" + path +
                   "': " + llvm::StringRef(std::strerror(error)));
}

//===-- PendingFiles ------------------------------------------------------===//

PendingFiles::~PendingFiles() {
  for (Entry &entry : entries)
    llvm::consumeError(entry.file.discard());
  // A folder that somebody else has put a file into meanwhile stays.
  for (auto folder = madeFolders.rbegin(); folder != madeFolders.rend();
       ++folder)
    ::rmdir(folder->c_str());
}

llvm::Error PendingFiles::makeFolders(llvm::StringRef path) {
  std::vector<std::string> missing;
  for (llvm::StringRef folder = llvm::sys::path::parent_path(path);
       !folder.empty() && !fs::exists(folder);
       folder = llvm::sys::path::parent_path(folder))
    missing.push_back(folder.str());
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (std::error_code error = fs::create_directory(*folder))
      return makeError("cannot make the folder '" + *folder +
                       "': " + error.message());
    madeFolders.push_back(*folder);
  }
  return llvm::Error::success();
}

llvm::Expected<int> PendingFiles::create(llvm::StringRef path) {
  if (fs::is_directory(path))
    return makeError("cannot write '" + path + "': it is a directory");
  if (llvm::Error error = makeFolders(path))
    return error;
  llvm::Expected<fs::TempFile> file =
      fs::TempFile::create(path + ".tmp-%%%%%%%%");
  if (!file)
    return makeError("cannot write '" + path +
                     "': " + llvm::toString(file.takeError()));
  entries.push_back({std::move(*file), path.str()});
  return entries.back().file.FD;
}

llvm::Error PendingFiles::commit() {
  std::vector<std::string> made;
  for (Entry &entry : entries) {
    bool isNew = !fs::exists(entry.path);
    if (llvm::Error error = entry.file.keep(entry.path)) {
      for (const std::string &path : made)
        ::unlink(path.c_str());
      return makeError("cannot write '" + entry.path +
                       "': " + llvm::toString(std::move(error)));
    }
    if (isNew)
      made.push_back(entry.path);
  }
  entries.clear();
  madeFolders.clear();
  return llvm::Error::success();
}

//===-- Writing -----------------------------------------------------------===//

llvm::Error writeAll(int file, llvm::ArrayRef<uint8_t> bytes, int64_t offset,
                     llvm::StringRef path) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(file, bytes.data(),
                             std::min(bytes.size(), kChunkBytes), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return fileError("write", path, count < 0 ? errno : ENOSPC);
    bytes = bytes.drop_front(static_cast<size_t>(count));
    offset += count;
  }
  return llvm::Error::success();
}

static bool isZero(llvm::ArrayRef<uint8_t> bytes) {
  return bytes.empty() ||
         (bytes[0] == 0 &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

llvm::Error writeSparse(int file, llvm::ArrayRef<uint8_t> bytes, int64_t offset,
                        llvm::StringRef path) {
  size_t done = 0;
  while (done < bytes.size()) {
    // One write for each run of pages that hold something.
    size_t end = done;
    while (end < bytes.size() && end - done < kChunkBytes) {
      size_t count = std::min(kHoleBytes, bytes.size() - end);
      if (isZero(bytes.slice(end, count)))
        break;
      end += count;
    }
    if (end == done) {
      done += std::min(kHoleBytes, bytes.size() - done);
      continue;
    }
    if (llvm::Error error = writeAll(file, bytes.slice(done, end - done),
                                     offset + static_cast<int64_t>(done), path))
      return error;
    done = end;
  }
  return llvm::Error::success();
}

llvm::Error setSize(int file, int64_t bytes, llvm::StringRef path) {
  return ::ftruncate(file, bytes) == 0 ? llvm::Error::success()
                                       : fileError("write", path);
}

//===-- Copying -----------------------------------------------------------===//

namespace {

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int number;
};

/// Copies [begin, end) at the same offsets: within the kernel where it can.
llvm::Error copyRange(int from, llvm::StringRef fromPath, int to,
                      llvm::StringRef toPath, off_t begin, off_t end) {
  bool inKernel = true;
  std::vector<uint8_t> buffer;
  while (begin < end) {
    size_t want = std::min(static_cast<size_t>(end - begin), kChunkBytes * 64);
    if (inKernel) {
      off_t in = begin, out = begin;
      ssize_t count = ::copy_file_range(from, &in, to, &out, want, 0);
      if (count > 0) {
        begin += count;
        continue;
      }
      if (count < 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT ||
                        errno == EIO))
        return fileError("write", toPath);
      inKernel = false; // other file systems, or none of the kernel's business
      buffer.resize(kChunkBytes);
    }
    ssize_t count =
        ::pread(from, buffer.data(), std::min(want, kChunkBytes), begin);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count < 0 ? fileError("read", fromPath)
                       : makeError("'" + fromPath + "' became shorter");
    if (llvm::Error error =
            writeAll(to, llvm::ArrayRef(buffer).take_front(size_t(count)),
                     begin, toPath))
      return error;
    begin += count;
  }
  return llvm::Error::success();
}

llvm::Error copyData(int from, llvm::StringRef fromPath, int to,
                     llvm::StringRef toPath, off_t bytes) {
  for (off_t at = 0; at < bytes;) {
    off_t begin = ::lseek(from, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO)
      break; // a hole up to the end
    off_t end = begin < 0 ? bytes : ::lseek(from, begin, SEEK_HOLE);
    begin = std::max<off_t>(begin, at);
    end = end < 0 ? bytes : std::min(end, bytes);
    if (llvm::Error error = copyRange(from, fromPath, to, toPath, begin, end))
      return error;
    at = end;
  }
  return setSize(to, bytes, toPath);
}

} // namespace

llvm::Expected<bool> copyContents(llvm::StringRef from, int to,
                                  llvm::StringRef toPath) {
  Descriptor source(::open(from.str().c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (source.number < 0 || ::fstat(source.number, &status) != 0)
    return fileError("open", from);
  bool cloned = ::ioctl(to, FICLONE, source.number) == 0;
  if (!cloned)
    if (llvm::Error error =
            copyData(source.number, from, to, toPath, status.st_size))
      return error;
  timespec times[] = {status.st_atim, status.st_mtim};
  if (::futimens(to, times) != 0)
    return fileError("set the time of", toPath);
  return cloned;
}

bool sameContents(llvm::StringRef left, llvm::StringRef right) {
  struct stat a = {}, b = {};
  if (::stat(left.str().c_str(), &a) != 0 ||
      ::stat(right.str().c_str(), &b) != 0 || a.st_size != b.st_size)
    return false;
  if (a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
      a.st_mtim.tv_nsec == b.st_mtim.tv_nsec)
    return true;
  auto first = MappedFile::open(left), second = MappedFile::open(right);
  if (!first || !second) {
    llvm::consumeError(first.takeError());
    llvm::consumeError(second.takeError());
    return false;
  }
  return (*first)->bytes(0, a.st_size) == (*second)->bytes(0, b.st_size);
}

} // namespace offload
