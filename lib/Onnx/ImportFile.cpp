// Reads a model's message from a file, standard input or text.
//
// In:  bytes, binary or in ONNX's text syntax.
// Out: a ModelProto that has a graph.
// Not: what it says (ImportModel, ImportGraph), external data (ExternalData).
// How: a file is mapped and parsed in place. Where that fails, one walk over
//      the outermost fields tells a truncated model from something else.

#include "ImportFile.h"

#include "offload/IR/Graph.h"
#include "offload/IR/MappedFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/defs/parser.h>
#include <onnx/proto_utils.h>

#include <algorithm>
#include <string_view>

namespace offload {

/// Protobuf cannot hold more in one message.
static constexpr int64_t kMostProtoBytes = (int64_t(2) << 30) - 1;

static std::string quoted(llvm::StringRef path) {
  return path == "-" ? std::string("standard input") : ("'" + path + "'").str();
}

/// Text begins with '<' (a model's header) after blanks and comments; no binary
/// model has such a first byte, since it begins with a field's number.
static bool looksLikeText(llvm::StringRef path, llvm::StringRef bytes) {
  if (path.ends_with(".onnxtxt"))
    return true;
  llvm::StringRef start = bytes.ltrim();
  return (start.starts_with("<") || start.starts_with("#")) &&
         !bytes.take_front(4096).contains('\0');
}

/// What is wrong with bytes that protobuf does not take.
static std::string whyUnreadable(llvm::StringRef bytes) {
  using google::protobuf::io::CodedInputStream;
  CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()),
                          static_cast<int>(bytes.size()));
  constexpr unsigned kLengthDelimited = 2;
  const auto *fields = onnx::ModelProto::descriptor();
  while (uint32_t tag = stream.ReadTag()) {
    const auto *field = fields->FindFieldByNumber(tag >> 3);
    if (!field)
      return "is no ONNX model";
    uint64_t value = 0;
    if (!stream.ReadVarint64(&value))
      return "is truncated in field '" + field->name() + "'";
    if ((tag & 7) != kLengthDelimited)
      continue;
    uint64_t left = bytes.size() - stream.CurrentPosition();
    if (value > left)
      return "is truncated: field '" + field->name() + "' needs " +
             std::to_string(value) + " bytes, and " + std::to_string(left) +
             " are left";
    stream.Skip(static_cast<int>(value));
  }
  return "is no ONNX model, or is damaged";
}

static llvm::Expected<std::unique_ptr<onnx::ModelProto>>
parseModelBytes(llvm::StringRef bytes, llvm::StringRef path) {
  if (bytes.empty())
    return makeError(quoted(path) + " is empty");
  if (static_cast<int64_t>(bytes.size()) > kMostProtoBytes)
    return makeError(quoted(path) + " has " + llvm::Twine(bytes.size()) +
                     " bytes, and a model ends at 2 GiB: save its weights as "
                     "external data");
  // Protobuf writes its own lines to standard error; ours say it better.
  google::protobuf::LogSilencer silencer;
  auto model = std::make_unique<onnx::ModelProto>();
  if (!onnx::ParseProtoFromBytes(model.get(), bytes.data(), bytes.size()))
    return makeError(quoted(path) + " " + whyUnreadable(bytes));
  if (!model->has_graph())
    return makeError(quoted(path) + " is no ONNX model: it has no graph");
  return model;
}

llvm::Expected<std::unique_ptr<onnx::ModelProto>>
parseModelText(llvm::StringRef text, llvm::StringRef name) {
  auto model = std::make_unique<onnx::ModelProto>();
  onnx::OnnxParser parser(std::string_view(text.data(), text.size()));
  onnx::Common::Status status = parser.Parse(*model);
  if (!status.IsOK())
    return makeError(quoted(name) + " is no model in ONNX's text: " +
                     llvm::StringRef(status.ErrorMessage()));
  if (!parser.EndOfInput())
    return makeError(quoted(name) + " has text behind the model's end");
  return model;
}

llvm::Expected<std::unique_ptr<onnx::ModelProto>>
readModelFile(llvm::StringRef path, bool &isText) {
  auto parse = [&](llvm::StringRef bytes) {
    isText = looksLikeText(path, bytes);
    return isText ? parseModelText(bytes, path) : parseModelBytes(bytes, path);
  };
  if (path == "-") {
    auto input = llvm::MemoryBuffer::getSTDIN();
    if (!input)
      return makeError("cannot read standard input: " +
                       input.getError().message());
    return parse((*input)->getBuffer());
  }
  llvm::Expected<std::shared_ptr<const MappedFile>> file =
      MappedFile::open(path);
  if (!file)
    return file.takeError();
  llvm::ArrayRef<uint8_t> bytes = (*file)->bytes(0, (*file)->sizeBytes());
  return parse(llvm::toStringRef(bytes));
}

} // namespace offload
