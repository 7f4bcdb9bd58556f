// The bytes of a model as a message. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTFILE_H
#define OFFLOAD_LIB_ONNX_IMPORTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <memory>

namespace offload {

/// The model in a file, or on standard input where `path` is "-". Text is told
/// from binary by the ending `.onnxtxt` or by its first character. Errors:
/// missing, a directory, empty, too large for protobuf, truncated, not ONNX.
/// `isText` says which it was.
llvm::Expected<std::unique_ptr<onnx::ModelProto>>
readModelFile(llvm::StringRef path, bool &isText);

/// The same from text; `name` stands in messages.
llvm::Expected<std::unique_ptr<onnx::ModelProto>>
parseModelText(llvm::StringRef text, llvm::StringRef name);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTFILE_H
