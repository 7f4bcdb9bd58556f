// Small pieces of a model between ONNX's messages and the graph's own types;
// used by reading, inference and writing. Private to this room.
//
// ONNX's library throws; whoever calls into it turns what it throws into an
// llvm::Error by `describe`. Not thread-safe beyond what protobuf is.

#ifndef OFFLOAD_LIB_ONNX_PROTOCONVERT_H
#define OFFLOAD_LIB_ONNX_PROTOCONVERT_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <exception>
#include <string>

namespace offload {

/// "ai.onnx" and "" are one domain, which the graph calls "".
std::string normalizedDomain(llvm::StringRef domain);

/// "float", "int4", "string", "complex64", ... or "type 99": for messages.
std::string protoTypeName(int32_t dataType);

/// The element type, or an error that says what `where` ("input 'x'") has: no
/// type, string, complex, or a type that this program does not know.
llvm::Expected<DataType> elementTypeFromProto(int32_t dataType,
                                              const llvm::Twine &where);

/// "float[batch,3,224]"; "float" without a known rank. Names are written as
/// they are, unknown sizes as "?".
std::string typeText(const TensorType &type);

/// A dense tensor type. A size becomes a static dimension, a name a named one
/// without bound. Errors name `where`: not a tensor, no element type, a
/// negative size, more bytes than fit 63 bits.
llvm::Expected<TensorType> typeFromProto(const onnx::TypeProto &proto,
                                         const llvm::Twine &where);

/// Named dimensions are written by name, static ones as sizes, and unknown ones
/// empty. A type without rank writes no shape.
void typeToProto(const TensorType &type, onnx::TypeProto &proto);

/// What 64-bit processes can address (128 TiB). Planning adds up bytes of many
/// tensors, and sums of so few stay far from overflow.
inline constexpr int64_t kMostTensorBytes = int64_t(1) << 47;

/// Number of elements and of bytes of a shape, or an error that names `where`:
/// a negative size, more than kMostTensorBytes.
struct TensorSize {
  int64_t elements = 0, bytes = 0;
};
llvm::Expected<TensorSize> checkedSize(DataType elem,
                                       llvm::ArrayRef<int64_t> dims,
                                       const llvm::Twine &where);

/// Contents inline as raw_data; `name` may be empty.
void tensorToProto(llvm::StringRef name, DataType elem,
                   llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<uint8_t> bytes,
                   onnx::TensorProto &proto);

/// All kinds of AttributeValue; a tensor is written as raw_data.
void attributeToProto(llvm::StringRef name, const AttributeValue &value,
                      onnx::AttributeProto &proto);

/// Text of a thrown error, for makeError, without the file and line that some
/// of ONNX's assertions begin with.
std::string describe(const std::exception &error);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_PROTOCONVERT_H
