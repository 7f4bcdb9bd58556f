// Functions of the `offload` operators as messages.
//
// In:  an operator, the model's opset; functions of a file.
// Out: the function that a `.off` carries; a refusal of others.
// Not: the bodies (OffFormat/FunctionBodies).
// How: ONNX's own parser reads the bodies. Two functions are compared without
//      what has no meaning: comments, and names of nodes.

#include "offload/Onnx/OffFunctions.h"

#include "ProtoConvert.h"

#include <onnx/defs/parser.h>

#include <algorithm>
#include <cassert>

namespace offload {

onnx::FunctionProto offFunctionProto(const OffFunction &function, int64_t opset,
                                     uint32_t subByteParts) {
  onnx::FunctionProto proto;
  std::string text = offFunctionText(function, subByteParts);
  onnx::Common::Status status = onnx::OnnxParser::Parse(proto, text);
  assert(status.IsOK() && "a body that ONNX cannot parse");
  (void)status;
  proto.set_domain("offload");
  if (!function.overload.empty())
    proto.set_overload(std::string(function.overload));
  onnx::OperatorSetIdProto &import = *proto.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  return proto;
}

/// Equal where the functions mean the same.
static std::string meaningOf(onnx::FunctionProto function) {
  function.clear_doc_string();
  function.clear_metadata_props();
  function.clear_value_info();
  for (onnx::NodeProto &node : *function.mutable_node()) {
    node.clear_name();
    node.clear_doc_string();
    node.clear_metadata_props();
    node.set_domain(normalizedDomain(node.domain()));
    if (node.domain().empty())
      node.clear_domain();
    for (onnx::AttributeProto &attribute : *node.mutable_attribute())
      attribute.clear_doc_string();
  }
  for (onnx::OperatorSetIdProto &import : *function.mutable_opset_import())
    import.set_domain(normalizedDomain(import.domain()));
  return function.SerializeAsString();
}

std::string functionLabel(const onnx::FunctionProto &function) {
  return normalizedDomain(function.domain()) + "." + function.name() +
         (function.overload().empty() ? "" : ":" + function.overload());
}

llvm::Error checkOffFunction(const onnx::FunctionProto &proto, int64_t opset) {
  const OffFunction *row = findOffFunction(proto.name(), proto.overload());
  if (!row)
    return makeError("the file has a function '" + functionLabel(proto) +
                     "', which is none of this program's operators: compile "
                     "the model again");
  std::string meaning = meaningOf(proto);
  for (uint32_t mask = 0; mask < 1u << std::max(row->parts, 1u); ++mask)
    if (meaningOf(offFunctionProto(*row, opset, mask)) == meaning)
      return llvm::Error::success();
  return makeError("function '" + functionLabel(proto) +
                   "' is not the one that this program writes, so other "
                   "runtimes would compute other numbers: compile the model "
                   "again");
}

} // namespace offload
