// Plans where the contents of constants go, and writes them.
//
// In:  a graph, the model's path.
// Out: a place for each constant; copies of the source's files; one data file.
// Not: the model itself (ExportProto, Export).
// How: a constant is
//      - external in the source: it keeps its file. Where the model goes to
//        another folder, or where ONNX would refuse the file (a symbolic link,
//        several hard links), the file is copied beside the model;
//      - embedded and of more than 64 elements: it goes to `<model>.data`, at
//        a multiple of a page;
//      - else part of the model.
//
// A copy takes the name that the source gave it. Where a file of that name and
// of other contents exists (it may be another model's data), or where the name
// is the refused file itself, the copy is called `<model>.<name>`, a name that
// belongs to this model alone.

#include "ExportData.h"

#include "offload/IR/MappedFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>
#include <sys/stat.h>

namespace offload {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static constexpr llvm::StringLiteral kStreamData = "embedded.data";

static std::string folderOf(llvm::StringRef file) {
  llvm::StringRef folder = path::parent_path(file);
  return folder.empty() ? "." : folder.str();
}

static std::string joined(llvm::StringRef folder, llvm::StringRef name) {
  llvm::SmallString<128> result(folder == "." ? "" : folder);
  path::append(result, name);
  return std::string(result);
}

/// The path without links, `.` and `..`; as given where there is no such file.
static std::string realPath(llvm::StringRef file) {
  llvm::SmallString<128> result;
  return fs::real_path(file, result) ? file.str() : std::string(result);
}

/// Whether ONNX takes `location` as a path below the model's folder.
static bool staysBelow(llvm::StringRef location) {
  if (location.empty() || path::is_absolute(location))
    return false;
  for (auto part = path::begin(location); part != path::end(location); ++part)
    if (*part == "..")
      return false;
  return true;
}

/// Why ONNX's checker and loaders refuse `location` below `folder`, or nothing.
static std::string refusal(llvm::StringRef folder, llvm::StringRef location) {
  if (!staysBelow(location))
    return "lies outside of the model's folder";
  llvm::SmallString<128> plain(realPath(folder));
  path::append(plain, location);
  path::remove_dots(plain);
  if (realPath(plain) != plain)
    return "is reached through a symbolic link";
  struct stat status = {};
  if (::stat(plain.c_str(), &status) == 0 && status.st_nlink > 1)
    return "has several hard links";
  return "";
}

/// `to` as seen from the folder `from`; both without links.
static std::string relativePath(llvm::StringRef to, llvm::StringRef from) {
  auto a = path::begin(to), b = path::begin(from);
  while (a != path::end(to) && b != path::end(from) && *a == *b)
    ++a, ++b;
  llvm::SmallString<128> result;
  for (; b != path::end(from); ++b)
    path::append(result, "..");
  for (; a != path::end(to); ++a)
    path::append(result, *a);
  return std::string(result);
}

/// Makes a plan for one graph.
class DataPlanner {
public:
  DataPlanner(const Graph &graph, bool text, const ExportOptions &options)
      : graph(graph), options(options), text(text) {}

  llvm::Expected<DataPlan> forFile(llvm::StringRef model) {
    modelPath = model.str();
    outFolder = folderOf(model);
    if (!fs::is_directory(outFolder))
      return makeError("cannot write '" + modelPath +
                       "': there is no folder '" + outFolder + "'");
    listSourceFiles();
    if (isSourceFile(modelPath))
      return makeError("'" + modelPath +
                       "' is a file of the model that is read: choose another "
                       "name for the output");
    plan.dataPath = modelPath + ".data";
    taken.insert(path::filename(modelPath));
    taken.insert(path::filename(plan.dataPath));
    planAll(/*toFiles=*/true);
    if (!plan.embedded.empty() && isSourceFile(plan.dataPath))
      return makeError("'" + plan.dataPath +
                       "' is a file of the model that is read, and would be "
                       "written: choose another name for the output");
    if (!plan.embedded.empty() && fs::exists(plan.dataPath) &&
        !fs::exists(modelPath))
      return makeError("'" + plan.dataPath +
                       "' would be written, and exists without a '" +
                       modelPath +
                       "' that it belongs to (it may be another model's data): "
                       "remove it or choose another name for the output");
    return std::move(plan);
  }

  DataPlan forStream() {
    plan.dataPath = kStreamData.str();
    planAll(/*toFiles=*/false);
    return std::move(plan);
  }

private:
  using FileId = std::pair<dev_t, ino_t>;

  void listSourceFiles() {
    auto add = [&](llvm::StringRef file) {
      struct stat status = {};
      if (!file.empty() && ::stat(file.str().c_str(), &status) == 0)
        sources.insert({status.st_dev, status.st_ino});
    };
    add(graph.sourcePath);
    forEachTensor([&](const Value &value) {
      if (const MappedFile *file = value.data.mappedFile())
        add(file->path());
    });
  }

  /// Follows links, so that no name of a source's file escapes.
  bool isSourceFile(llvm::StringRef file) const {
    struct stat status = {};
    return ::stat(file.str().c_str(), &status) == 0 &&
           sources.contains({status.st_dev, status.st_ino});
  }

  template <typename Visit> void forEachTensor(Visit visit) const {
    for (const Value *input : graph.inputs())
      if (!input->data.empty())
        visit(*input);
    for (const Value *constant : graph.initializers())
      visit(*constant);
  }

  void planAll(bool toFiles) {
    forEachTensor([&](const Value &value) {
      TensorPlace &place = plan.places[&value];
      const TensorData &data = value.data;
      if (data.isExternal() && !data.location().empty()) {
        place.isInline = false;
        place.offset = data.fileOffset();
        place.location = toFiles ? relocated(data) : data.location().str();
        return;
      }
      bool fits = numElements(value) <= kInlineElements &&
                  (!text || isPrintable(value.type.elem));
      // A model on standard output has no file beside it.
      if (fits || (!toFiles && !text)) {
        plan.bytesInline += data.sizeBytes();
        return;
      }
      place.isInline = false;
      place.location = path::filename(plan.dataPath).str();
      place.offset = (plan.dataBytes + kDataAlignBytes - 1) / kDataAlignBytes *
                     kDataAlignBytes;
      plan.dataBytes = place.offset + data.sizeBytes();
      plan.embedded.push_back({&value, place.offset});
    });
  }

  static int64_t numElements(const Value &value) {
    int64_t count = 1;
    for (int64_t dim : value.type.dimsAtBound())
      count *= dim;
    return count;
  }

  /// The location that the written model names for a file of the source.
  std::string relocated(const TensorData &data) {
    std::string file = data.mappedFile()->path().str();
    auto [entry, isNew] =
        relocations.insert({data.location().str() + '\0' + file, ""});
    if (isNew)
      entry->second =
          relocate(data.location(), file, data.mappedFile()->sizeBytes());
    return entry->second;
  }

  std::string relocate(llvm::StringRef location, const std::string &file,
                       int64_t bytes) {
    std::string source = graph.sourceFolder.empty() ? "." : graph.sourceFolder;
    bool sameFolder = fs::equivalent(outFolder, source);
    std::string why = sameFolder ? refusal(outFolder, location) : "";
    if (sameFolder && why.empty())
      return location.str();
    if (options.noCopy) {
      std::string real = realPath(file);
      plan.notes.push_back("left '" + real +
                           "' where it is; to run the model, give "
                           "--data-folder=" +
                           folderOf(real));
      return sameFolder && staysBelow(location)
                 ? location.str()
                 : relativePath(real, realPath(outFolder));
    }
    auto [name, isThere] = targetName(location, file, sameFolder);
    taken.insert(name);
    std::string target = joined(outFolder, name);
    if (isThere)
      plan.notes.push_back("'" + target + "' holds the weights already");
    else
      plan.copies.push_back({file, target, bytes});
    return name;
  }

  /// The location of a copy of `file`, and whether that copy exists; see the
  /// head of this file.
  std::pair<std::string, bool> targetName(llvm::StringRef location,
                                          const std::string &file,
                                          bool sameFolder) const {
    std::string name =
        staysBelow(location) ? location.str() : path::filename(location).str();
    if (!sameFolder && !taken.contains(name)) {
      if (holdsSame(name, file))
        return {name, true};
      struct stat status = {};
      if (::lstat(joined(outFolder, name).c_str(), &status) != 0)
        return {name, false};
    }
    std::string stem =
        (path::filename(modelPath) + "." + path::filename(location)).str();
    name = stem;
    for (unsigned i = 2;
         taken.contains(name) || isSourceFile(joined(outFolder, name)); ++i)
      name = stem + "_" + std::to_string(i);
    return {name, holdsSame(name, file)};
  }

  /// Whether that name in the output's folder is `file` or a copy of it that
  /// ONNX accepts.
  bool holdsSame(llvm::StringRef name, const std::string &file) const {
    std::string target = joined(outFolder, name);
    struct stat status = {};
    return ::lstat(target.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           refusal(outFolder, name).empty() && sameContents(file, target);
  }

  const Graph &graph;
  const ExportOptions &options;
  bool text;
  std::string modelPath, outFolder;
  std::set<FileId> sources;
  llvm::StringSet<> taken;
  std::map<std::string, std::string> relocations;
  DataPlan plan;
};

llvm::Expected<DataPlan> DataPlan::forFile(const Graph &graph,
                                           llvm::StringRef path, bool text,
                                           const ExportOptions &options) {
  return DataPlanner(graph, text, options).forFile(path);
}

DataPlan DataPlan::forStream(const Graph &graph, bool text) {
  ExportOptions options;
  return DataPlanner(graph, text, options).forStream();
}

TensorPlace DataPlan::placeOf(const Value &value) const {
  return places.lookup(&value);
}

llvm::Error DataPlan::write(PendingFiles &files) {
  for (const Copy &copy : copies) {
    llvm::Expected<int> file = files.create(copy.to);
    if (!file)
      return file.takeError();
    llvm::Expected<bool> cloned = copyContents(copy.from, *file, copy.to);
    if (!cloned)
      return cloned.takeError();
    notes.push_back((*cloned ? "cloned '" : "copied '") + copy.from + "' to '" +
                    copy.to + "' (" + std::to_string(copy.bytes) + " bytes)");
  }
  return writeEmbedded(files);
}

llvm::Error DataPlan::writeEmbedded(PendingFiles &files) const {
  if (embedded.empty())
    return llvm::Error::success();
  llvm::Expected<int> file = files.create(dataPath);
  if (!file)
    return file.takeError();
  for (const auto &[value, offset] : embedded)
    if (llvm::Error error =
            writeSparse(*file, value->data.bytes(), offset, dataPath))
      return error;
  return setSize(*file, dataBytes, dataPath);
}

} // namespace offload
