// Checks the paths of a call before it does anything.
//
// In:  flags.
// Out: one error for the first path that cannot serve.
// Not: whether an input exists or what it holds (its reader says that); a disk
//      that fills up while an output is written.
// How: paths are compared by what they lead to, since a file has many
//      spellings. An output is written beside its path and renamed, so its
//      folder must be writable, not an older file there; what is no regular
//      file (a device, a pipe) is written to directly.

#include "Paths.h"

#include "offload/Runtime/Npy.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace offload::run {

namespace {

namespace fs = std::filesystem;
using rt::Error;

struct InputFile {
  std::string flag, path;
};

struct OutputFile {
  std::string flag, path, kind;
  std::string start; // of a file of that kind
};

std::vector<InputFile> inputFiles(const Arguments &arguments) {
  std::vector<InputFile> files = {{"FILE", arguments.file}};
  auto addNamed = [&](const char *flag, const std::vector<NamedFile> &named) {
    for (const NamedFile &file : named)
      files.push_back({flag, file.second});
  };
  auto addPaths = [&](const char *flag, const std::vector<std::string> &paths) {
    for (const std::string &path : paths)
      files.push_back({flag, path});
  };
  addNamed("--input", arguments.inputs);
  addPaths("--inputs", arguments.inputsArchives);
  addNamed("--state", arguments.states);
  addNamed("--weight", arguments.weights);
  addPaths("--weights", arguments.weightsArchives);
  return files;
}

std::vector<OutputFile> outputFiles(const Arguments &arguments) {
  std::vector<OutputFile> files = {
      {"--output", arguments.output, ".npz", "PK"},
      {"--output-state", arguments.outputState, ".npz", "PK"},
      {"--output-weights", arguments.outputWeights, ".npz", "PK"},
      {"--timeline", arguments.timeline, "trace", "{\"traceEvents\":["}};
  std::erase_if(files,
                [](const OutputFile &file) { return file.path.empty(); });
  return files;
}

/// A pipe would be waited for, and a device has no size to read up to.
void checkInput(const InputFile &input) {
  std::error_code error;
  fs::file_status status = fs::status(input.path, error);
  if (fs::exists(status) && !fs::is_regular_file(status) &&
      !fs::is_directory(status))
    throw Error(input.flag + ": '" + input.path +
                "' is no regular file: write what it gives to a file first");
}

/// Why nothing can be written at `path`; empty: it can.
std::string writeObstacle(const fs::path &path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    return "it is a folder";
  if (fs::exists(status) && !fs::is_regular_file(status))
    return ::access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(folder, error))
    return error && error != std::errc::no_such_file_or_directory
               ? "its folder: " + error.message()
               : "no such folder";
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return std::string("its folder: ") + std::strerror(errno);
  fs::path first = rt::nameWhileWritten(path.string());
  if (!fs::exists(first, error) && error == std::errc::filename_too_long)
    return error.message();
  return "";
}

/// An output may replace an older one of its kind, and nothing else: neither
/// the model nor its weights.
void checkOutput(const OutputFile &output) {
  std::string obstacle = writeObstacle(output.path);
  if (!obstacle.empty())
    throw Error(output.flag + ": '" + output.path +
                "' cannot be written: " + obstacle);
  std::error_code error;
  if (!fs::is_regular_file(output.path, error) ||
      fs::file_size(output.path, error) == 0)
    return;
  std::ifstream stream(output.path, std::ios::binary);
  std::string start(output.start.size(), '\0');
  if (!stream.read(start.data(), static_cast<std::streamsize>(start.size())) ||
      start != output.start)
    throw Error(output.flag + "=" + output.path +
                " would replace a file that is no " + output.kind +
                ": give another name");
}

/// The path without links, also where the last of them leads to nothing yet.
fs::path target(fs::path path) {
  constexpr int kMostLinks = 40; // as many as the kernel follows
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, error); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  path = fs::absolute(path, error);
  fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : canonical;
}

bool leadToOneFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || target(a) == target(b);
}

} // namespace

void checkPaths(const Arguments &arguments) {
  std::vector<InputFile> inputs = inputFiles(arguments);
  std::vector<OutputFile> outputs = outputFiles(arguments);
  for (const InputFile &input : inputs)
    checkInput(input);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile &output = outputs[i];
    checkOutput(output);
    for (const InputFile &input : inputs)
      if (leadToOneFile(input.path, output.path))
        throw Error(output.flag + "=" + output.path + " would replace '" +
                    input.path + "', which " + input.flag +
                    " names: give another name");
    for (size_t j = 0; j < i; ++j)
      if (leadToOneFile(outputs[j].path, output.path))
        throw Error(outputs[j].flag + "=" + outputs[j].path + " and " +
                    output.flag + "=" + output.path +
                    " lead to one file: give each a file of its own");
  }
}

} // namespace offload::run
