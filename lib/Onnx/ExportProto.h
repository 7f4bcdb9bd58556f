// A graph as an ONNX model message. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_EXPORTPROTO_H
#define OFFLOAD_LIB_ONNX_EXPORTPROTO_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <onnx/onnx_pb.h>

#include <string>

namespace offload {

/// Where the contents of one constant stand.
struct TensorPlace {
  bool isInline = true;
  std::string location; // of an external one, relative to the model's folder
  int64_t offset = 0;
};
using PlaceOfTensor = llvm::function_ref<TensorPlace(const Value &)>;

struct ProtoOptions {
  /// Types of all values, not only of inputs and outputs. Text leaves them out:
  /// they are inferred again on reading.
  bool valueInfo = true;
};

/// The whole model: nodes, constants, every decision as a property, the
/// functions in use. `placeOf` is asked once for each constant and each default
/// of an input. The same graph gives the same message. Error: an operator of
/// domain `offload` that has no function.
llvm::Expected<onnx::ModelProto> graphToProto(const Graph &graph,
                                              const ProtoOptions &options,
                                              PlaceOfTensor placeOf);

/// Whether ONNX's printer writes contents of that type.
bool isPrintable(DataType type);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_EXPORTPROTO_H
