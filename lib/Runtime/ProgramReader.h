// A model file as plain data, before anything of it is checked.
//
// The only code of the runtime that sees protobuf is behind this header.

#ifndef OFFLOAD_LIB_RUNTIME_PROGRAMREADER_H
#define OFFLOAD_LIB_RUNTIME_PROGRAMREADER_H

#include "DataFiles.h"

#include "offload/OffFormat/Attributes.h"
#include "offload/Runtime/Program.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace offload::rt {

struct RawType {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<Dimension> dims; // a name without a size, or a size
};

struct RawConstant {
  RawType type;
  std::span<const std::byte> contents;
};

struct RawNode {
  std::string name, domain, op, overload;
  std::vector<std::string> operands, outputs;
  AttributeMap attributes;
};

struct RawFunction {
  std::string domain, name, overload;
  std::string text; // as functionText() prints it
  std::map<std::string, int> opsets;
};

/// `offload.Folded`: how folded constants were made, in names of its own.
struct FoldedFunction {
  std::map<std::string, int> opsets;
  std::vector<std::string> inputs, outputs;
  std::vector<RawNode> nodes;
};

struct RawModel {
  std::map<std::string, int> opsets; // by domain, "" for ai.onnx
  std::map<std::string, std::string, std::less<>> properties;
  std::vector<RawType> inputs, outputs;
  std::vector<RawConstant> constants;
  std::vector<RawNode> nodes;
  std::vector<RawFunction> functions;
  std::vector<RawType> declared; // results of nodes, where the file types them
  std::optional<FoldedFunction> folded;
};

/// Parses the file at `path`; large contents stay where they are and are kept
/// by `files`. Throws Error: not readable, no ONNX model, data that does not
/// match its shape, a kind of type or attribute that no node here has, a
/// property or a domain that is there twice.
RawModel readModel(const std::string &path, DataFiles &files);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_PROGRAMREADER_H
