// Finds external data and maps it, unless its path leads out of the model.
//
// In:  a tensor's location, offset and length, as the model wrote them.
// Out: a range of a mapped file.
// Not: contents inside of the model (TensorReader).
// How: a location is a relative path without "..", looked up in the model's
//      folder and in the folder of the model's real file; what it leads to,
//      links followed, must lie in one of the two. A folder that the user names
//      as trusted admits everything that lies in it.

#include "ExternalData.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <system_error>
#include <vector>

namespace fs = std::filesystem;

namespace offload {

/// Without symbolic links, or empty where the path does not exist.
static fs::path realPath(const fs::path &path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

static bool liesBelow(const fs::path &path, const fs::path &folder) {
  if (folder.empty())
    return false;
  auto [inFolder, inPath] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return inFolder == folder.end();
}

ExternalFiles::ExternalFiles(llvm::StringRef modelPath,
                             llvm::StringRef folderPath,
                             llvm::ArrayRef<std::string> trustedFolders)
    : folder(folderPath.empty() ? "." : folderPath.str()) {
  realFolder = realPath(folder);
  if (!modelPath.empty())
    linkedFolder = realPath(modelPath.str()).parent_path();
  for (const std::string &path : trustedFolders)
    if (fs::path real = realPath(path); !real.empty())
      trusted.push_back(real);
}

llvm::Expected<std::string>
ExternalFiles::resolve(const std::string &location,
                       const llvm::Twine &where) const {
  fs::path relative(location);
  bool leaves =
      relative.is_absolute() || llvm::is_contained(relative, fs::path(".."));
  std::vector<fs::path> candidates = {folder / relative};
  if (!leaves && !linkedFolder.empty())
    candidates.push_back(linkedFolder / relative);
  if (!leaves)
    for (const fs::path &trustedFolder : trusted)
      candidates.push_back(trustedFolder / relative);

  bool found = false;
  for (const fs::path &candidate : candidates) {
    fs::path real = realPath(candidate);
    if (real.empty())
      continue;
    found = true;
    bool inside = !leaves && (liesBelow(real, realFolder) ||
                              liesBelow(real, linkedFolder));
    for (const fs::path &trustedFolder : trusted)
      inside |= liesBelow(real, trustedFolder);
    if (inside)
      return real.string();
  }
  if (leaves || found)
    return makeError(where + " has its data in '" + location +
                     "', which leaves the model's folder '" + folder.string() +
                     "': --data-folder=DIR names a folder that may be read");
  return makeError(where + " has its data in '" + location +
                   "', and there is no such file in '" + folder.string() + "'");
}

llvm::Expected<std::shared_ptr<const MappedFile>>
ExternalFiles::open(const std::string &location, const llvm::Twine &where) {
  auto &known = byLocation[location];
  if (known)
    return known;
  llvm::Expected<std::string> real = resolve(location, where);
  if (!real)
    return real.takeError();
  auto &file = files[*real];
  if (!file) {
    llvm::Expected<std::shared_ptr<const MappedFile>> opened =
        MappedFile::open(*real);
    if (!opened)
      return makeError(where + " has its data in '" + location +
                       "': " + llvm::toString(opened.takeError()));
    file = *opened;
  }
  return known = file;
}

namespace {
/// The entries of a tensor's external data that matter here.
struct Location {
  std::string file;
  int64_t offset = 0;
  std::optional<int64_t> length;
};
} // namespace

static llvm::Expected<Location> parseLocation(const onnx::TensorProto &tensor,
                                              const llvm::Twine &where) {
  Location location;
  for (const onnx::StringStringEntryProto &entry : tensor.external_data()) {
    llvm::StringRef key = entry.key(), text = entry.value();
    if (key == "location") {
      location.file = text.str();
      continue;
    }
    if (key != "offset" && key != "length")
      continue; // a checksum, or something of the exporter's own
    int64_t number = 0;
    if (text.getAsInteger(10, number) || number < 0)
      return makeError(where + " has external data with " + key + " '" + text +
                       "', which is no count of bytes");
    if (key == "offset")
      location.offset = number;
    else
      location.length = number;
  }
  if (location.file.empty())
    return makeError(where + " has external data without a location");
  return location;
}

llvm::Expected<TensorData> ExternalFiles::map(const onnx::TensorProto &tensor,
                                              int64_t bytes,
                                              const llvm::Twine &where) {
  llvm::Expected<Location> location = parseLocation(tensor, where);
  if (!location)
    return location.takeError();
  if (location->length && *location->length != bytes)
    return makeError(where + " has " + llvm::Twine(*location->length) +
                     " bytes of data in '" + location->file +
                     "', and its type and shape need " + llvm::Twine(bytes));
  llvm::Expected<std::shared_ptr<const MappedFile>> file =
      open(location->file, where);
  if (!file)
    return file.takeError();
  int64_t fileBytes = (*file)->sizeBytes();
  if (location->offset > fileBytes || bytes > fileBytes - location->offset)
    return makeError(
        where + " has its data in '" + location->file + "' at offset " +
        llvm::Twine(location->offset) + ", length " + llvm::Twine(bytes) +
        ", and that file ends at " + llvm::Twine(fileBytes) + " bytes");
  return TensorData::mapped(*file, location->file, location->offset, bytes);
}

} // namespace offload
