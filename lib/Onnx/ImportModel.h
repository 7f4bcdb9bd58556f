// What must hold of a model before its graph is read. Private to this room.

#ifndef OFFLOAD_LIB_ONNX_IMPORTMODEL_H
#define OFFLOAD_LIB_ONNX_IMPORTMODEL_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <string>

namespace offload {

/// Versions of ONNX that are read.
inline constexpr int64_t kLeastIrVersion = 3, kMostIrVersion = 14;
inline constexpr int64_t kLeastOpset = 11, kMostOpset = 28;

/// Domain -> version, the default domain called "". Errors: IR version or opset
/// out of range, no default domain, a domain at two versions, another version
/// of domain `offload` than this program's.
llvm::Expected<std::map<std::string, int64_t>>
checkVersions(const onnx::ModelProto &model);

/// Refuses what a schedule may not hold: functions of domain `offload` that are
/// not this program's, twice, or missing for a node that uses one, and
/// functions of other domains, which have no place in it. Text may leave
/// functions out: they are written anew. A plain model (Imported) is held to
/// the first alone.
llvm::Error checkFunctions(const onnx::ModelProto &model, Form form,
                           bool isText);

/// Inlines local functions until only operators are left, and takes those of
/// domain `offload` away: they are known by name, and written anew. Domains
/// that the bodies import are added to `opsets`, and domains that only held
/// functions are removed. Errors: bodies at another opset, functions that call
/// each other in a circle.
llvm::Error inlineFunctions(onnx::ModelProto &model,
                            std::map<std::string, int64_t> &opsets);

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_IMPORTMODEL_H
