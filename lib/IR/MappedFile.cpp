// Maps files read-only, so that weights are neither copied nor read early.
//
// In:  a path to a regular file; symbolic links are followed.
// Out: a range of memory whose pages are read when they are touched.
// Not: which paths a model may name (Onnx/ExternalData).
// How: one private mapping a file. Somebody who shortens the file while it is
//      mapped ends the process with SIGBUS, as with every mapping.

#include "offload/IR/MappedFile.h"

#include "offload/IR/Graph.h"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace offload {

namespace {

/// Closes a descriptor at the end of a scope.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return number; }

private:
  int number;
};

llvm::Error systemError(llvm::StringRef what, llvm::StringRef path) {
  return makeError("cannot " + what + " '" + path +
                   "': " + llvm::StringRef(std::strerror(errno)));
}

} // namespace

llvm::Expected<std::shared_ptr<const MappedFile>>
MappedFile::open(llvm::StringRef path) {
  std::string name = path.str();
  // O_NONBLOCK: opening a pipe by mistake must not hang; it changes nothing for
  // regular files.
  Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    return systemError("open", path);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0)
    return systemError("examine", path);
  if (S_ISDIR(status.st_mode))
    return makeError("cannot open '" + path + "': it is a directory");
  if (!S_ISREG(status.st_mode))
    return makeError("cannot open '" + path + "': it is not a regular file");

  std::shared_ptr<MappedFile> mapped(new MappedFile());
  mapped->filePath = std::move(name);
  mapped->numBytes = status.st_size;
  if (mapped->numBytes == 0)
    return mapped; // an empty range cannot be mapped
  void *start = ::mmap(nullptr, static_cast<size_t>(mapped->numBytes),
                       PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED)
    return systemError("map", path);
  mapped->start = static_cast<const uint8_t *>(start);
  return mapped;
}

MappedFile::~MappedFile() {
  if (start)
    ::munmap(const_cast<uint8_t *>(start), static_cast<size_t>(numBytes));
}

llvm::ArrayRef<uint8_t> MappedFile::bytes(int64_t offset, int64_t count) const {
  assert(offset >= 0 && count >= 0 && offset <= numBytes &&
         count <= numBytes - offset && "range lies outside of the file");
  return {start + offset, static_cast<size_t>(count)};
}

} // namespace offload
