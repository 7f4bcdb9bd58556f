// Writes a graph: plan the data, make the model, write all files, rename.
//
// In:  a graph in any form.
// Out: a `.off` (or its text) with its data, or an error and nothing.
// Not: what stands in the model (ExportProto), which data goes where
//      (ExportData), how text looks (TextLayout).

#include "offload/Onnx/Export.h"

#include "ExportData.h"
#include "ExportFiles.h"
#include "ExportProto.h"
#include "TextLayout.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace offload {

/// Protobuf neither writes nor reads a larger message.
static constexpr int64_t kLargestMessageBytes = INT32_MAX;

static llvm::Expected<onnx::ModelProto>
modelOf(const Graph &graph, const DataPlan &plan, bool text) {
  return graphToProto(graph, {/*valueInfo=*/!text},
                      [&](const Value &value) { return plan.placeOf(value); });
}

static llvm::Error writeMessage(const onnx::ModelProto &model, int file,
                                llvm::StringRef path) {
  // Asking for the size first: a message over the limit is an error, not the
  // abort that it would be further down.
  if (model.ByteSizeLong() > static_cast<size_t>(kLargestMessageBytes))
    return makeError("the model is larger than 2 GiB, the most that one ONNX "
                     "file holds; write it to a file, so that its weights "
                     "get a data file");
  google::protobuf::io::FileOutputStream stream(file);
  bool written;
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    written = model.SerializeToCodedStream(&coded);
  }
  if (!written || !stream.Flush())
    return makeError("cannot write '" + path + "': " +
                     llvm::StringRef(std::strerror(
                         stream.GetErrno() ? stream.GetErrno() : EIO)));
  return llvm::Error::success();
}

/// For pipes too, which have no offsets.
static llvm::Error writeText(llvm::StringRef text, int file,
                             llvm::StringRef path) {
  while (!text.empty()) {
    ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return makeError("cannot write '" + path +
                       "': " + llvm::StringRef(std::strerror(errno)));
    text = text.drop_front(static_cast<size_t>(count));
  }
  return llvm::Error::success();
}

static llvm::Error writeModel(const Graph &graph, const DataPlan &plan,
                              bool text, int file, llvm::StringRef path) {
  llvm::Expected<onnx::ModelProto> model = modelOf(graph, plan, text);
  if (!model)
    return model.takeError();
  return text ? writeText(layoutText(*model), file, path)
              : writeMessage(*model, file, path);
}

static llvm::Error exportToStream(const Graph &graph, llvm::StringRef path,
                                  int file, bool text) {
  DataPlan plan = DataPlan::forStream(graph, text);
  if (plan.inlineBytes() > kLargestMessageBytes)
    return makeError("the weights are larger than 2 GiB, the most that one "
                     "ONNX file holds; write to a file, so that they get a "
                     "data file");
  return writeModel(graph, plan, text, file, path);
}

static llvm::Error exportToFile(const Graph &graph, llvm::StringRef path,
                                const ExportOptions &options) {
  llvm::Expected<DataPlan> plan =
      DataPlan::forFile(graph, path, options.text, options);
  if (!plan)
    return plan.takeError();
  PendingFiles files;
  // Data first: until the model is renamed, nothing refers to it.
  if (llvm::Error error = plan->write(files))
    return error;
  llvm::Expected<int> file = files.create(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = writeModel(graph, *plan, options.text, *file, path))
    return error;
  if (llvm::Error error = files.commit())
    return error;
  if (options.remarks)
    for (const std::string &remark : plan->remarks())
      *options.remarks << "remark: " << remark << "\n";
  return llvm::Error::success();
}

llvm::Error exportModel(const Graph &graph, llvm::StringRef path,
                        const ExportOptions &options) {
  if (path == "-")
    return exportToStream(graph, "standard output", STDOUT_FILENO,
                          options.text);
  struct stat status = {};
  bool isStream = ::stat(path.str().c_str(), &status) == 0 &&
                  !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (!isStream)
    return exportToFile(graph, path, options);

  // A device or a pipe, which a rename would put a file in place of.
  int file = ::open(path.str().c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return makeError("cannot write '" + path +
                     "': " + llvm::StringRef(std::strerror(errno)));
  llvm::Error error = exportToStream(graph, path, file, options.text);
  ::close(file);
  return error;
}

std::string printText(const Graph &graph) {
  DataPlan plan = DataPlan::forStream(graph, /*text=*/true);
  llvm::Expected<onnx::ModelProto> model = modelOf(graph, plan, /*text=*/true);
  if (!model)
    return "# no text: " + llvm::toString(model.takeError()) + "\n";
  return layoutText(*model);
}

} // namespace offload
