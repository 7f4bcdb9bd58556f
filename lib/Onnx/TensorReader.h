// Contents of tensors in every form that ONNX allows. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_TENSORREADER_H
#define OFFLOAD_LIB_ONNX_TENSORREADER_H

#include "ExternalData.h"
#include "offload/IR/Graph.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

namespace offload {

struct ReadTensor {
  TensorType type; // static dimensions
  TensorData data;
};

/// Type and contents of `proto`; contents are taken out of it, so that a model
/// lies in memory once. External data is mapped through `files`. Errors name
/// `where`: a type that is not supported, a field that does not go with the
/// type, a number that does not fit it, a count that does not match the shape.
llvm::Expected<ReadTensor> readTensor(onnx::TensorProto &proto,
                                      ExternalFiles &files,
                                      const llvm::Twine &where);

/// The same as an attribute holds it, contents copied.
llvm::Expected<TensorAttribute> readTensorAttribute(onnx::TensorProto &proto,
                                                    ExternalFiles &files,
                                                    const llvm::Twine &where);

/// A node's attribute. Errors name `where`: graphs (control flow), sparse
/// tensors, types, references outside of a function, lists of tensors.
llvm::Expected<AttributeValue> readAttribute(onnx::AttributeProto &proto,
                                             ExternalFiles &files,
                                             const llvm::Twine &where);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_TENSORREADER_H
