// Lays out a model as text.
//
// In:  a model.
// Out: text in ONNX's syntax, made for reading and for tests: the model's head,
//      one property a line, the graph's signature, one node a line, functions
//      of up to four nodes on one line.
// Not: what a graph's model is (ExportProto).
// How: types, nodes, tensors and attributes are printed by ONNX's own printer;
//      only what lies between them (line breaks, the head, and a space after a
//      comma in a tensor's contents) is laid out here. ONNX's printer puts all
//      properties on one line, which nobody can read, and drops the defaults of
//      a function's attributes.
//
// A list longer than kListColumns breaks into one entry a line.

#include "TextLayout.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <onnx/defs/printer.h>

#include <sstream>
#include <vector>

namespace offload {

namespace {

constexpr size_t kListColumns = 200;
constexpr int kOneLineNodes = 4;

template <typename Message> std::string printed(const Message &message) {
  using onnx::operator<<;
  std::ostringstream stream;
  stream << message;
  return llvm::StringRef(stream.str()).trim().str();
}

/// As ONNX's printer quotes: `"` and `\` are escaped, nothing else.
std::string quoted(llvm::StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

/// A name as ONNX's printer writes it: bare where it is an identifier.
std::string identifier(llvm::StringRef name) {
  bool bare = !name.empty() && !llvm::isDigit(name.front());
  for (char c : name)
    bare &= llvm::isAlnum(c) || c == '_';
  return bare ? name.str() : quoted(name);
}

/// Puts a space after each comma within braces, outside of quotes: `{8,1024}`
/// becomes `{8, 1024}`. Dimensions keep theirs without.
std::string spaced(llvm::StringRef text) {
  std::string result;
  bool inQuotes = false;
  int braces = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    result += c;
    if (inQuotes && c == '\\') {
      result += text[++i];
    } else if (c == '"') {
      inQuotes = !inQuotes;
    } else if (!inQuotes) {
      braces += (c == '{') - (c == '}');
      if (c == ',' && braces > 0 && i + 1 < text.size() && text[i + 1] != ' ')
        result += ' ';
    }
  }
  return result;
}

/// "(a, b)" after `before`; one entry a line where that line would be too long.
std::string list(llvm::StringRef before, char open,
                 llvm::ArrayRef<std::string> entries, char close) {
  std::string line = before.str() + open + llvm::join(entries, ", ") + close;
  if (line.size() <= kListColumns || entries.size() < 2)
    return line;
  std::string indent =
      "\n" + std::string(before.size() - before.ltrim(' ').size() + 2, ' ');
  return before.str() + open + indent + llvm::join(entries, "," + indent) +
         close;
}

/// `int64[2] rows = {8, 1024}`, or `= ["location": ...]`.
std::string initializerText(const onnx::TensorProto &tensor) {
  onnx::ValueInfoProto info;
  info.set_name(tensor.name());
  onnx::TypeProto::Tensor &type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  type.mutable_shape();
  for (int64_t dim : tensor.dims())
    type.mutable_shape()->add_dim()->set_dim_value(dim);

  // The printer writes a nameless tensor as its type and its contents.
  std::string contents;
  if (tensor.has_name()) {
    onnx::TensorProto nameless = tensor;
    nameless.clear_name();
    contents = printed(nameless);
  } else {
    contents = printed(tensor);
  }
  llvm::StringRef rest = contents;
  rest.consume_front(printed(info.type()));
  return printed(info) + " = " + spaced(rest.ltrim());
}

std::string
opsetsText(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>
               &opsets) {
  std::vector<std::string> entries;
  for (const onnx::OperatorSetIdProto &opset : opsets)
    entries.push_back(quoted(opset.domain()) + ": " +
                      std::to_string(opset.version()));
  return "opset_import: [" + llvm::join(entries, ", ") + "]";
}

std::string headText(const onnx::ModelProto &model) {
  std::string text = "<ir_version: " + std::to_string(model.ir_version()) +
                     ", " + opsetsText(model.opset_import());
  auto addText = [&](const char *key, const std::string &value) {
    text += std::string(", ") + key + ": " + quoted(value);
  };
  if (model.has_producer_name())
    addText("producer_name", model.producer_name());
  if (model.has_producer_version())
    addText("producer_version", model.producer_version());
  if (model.has_domain())
    addText("domain", model.domain());
  if (model.has_model_version())
    text += ", model_version: " + std::to_string(model.model_version());
  if (model.has_doc_string())
    addText("doc_string", model.doc_string());
  if (model.metadata_props_size() == 0)
    return text + ">\n";

  text += ",\n metadata_props: [";
  const char *separator = "\n  ";
  for (const onnx::StringStringEntryProto &entry : model.metadata_props()) {
    text += separator + quoted(entry.key()) + ": " + quoted(entry.value());
    separator = ",\n  ";
  }
  return text + "]>\n";
}

std::string nodeText(const onnx::NodeProto &node) {
  return spaced(printed(node));
}

std::string graphText(const onnx::GraphProto &graph) {
  std::vector<std::string> inputs, outputs, inner;
  for (const onnx::ValueInfoProto &input : graph.input())
    inputs.push_back(printed(input));
  for (const onnx::ValueInfoProto &output : graph.output())
    outputs.push_back(printed(output));
  for (const onnx::TensorProto &tensor : graph.initializer())
    inner.push_back(initializerText(tensor));
  for (const onnx::ValueInfoProto &info : graph.value_info())
    inner.push_back(printed(info));

  std::string text = list(identifier(graph.name()) + " ", '(', inputs, ')');
  text += "\n" + list("  => ", '(', outputs, ')') + "\n";
  if (!inner.empty())
    text += list("  ", '<', inner, '>') + "\n";
  text += "{\n";
  for (const onnx::NodeProto &node : graph.node())
    text += "  " + nodeText(node) + "\n";
  return text + "}\n";
}

std::string functionText(const onnx::FunctionProto &function) {
  std::string text = "<domain: " + quoted(function.domain());
  if (!function.overload().empty())
    text += ", overload: " + quoted(function.overload());
  text += ", " + opsetsText(function.opset_import()) + ">\n";

  text += identifier(function.name()) + " ";
  std::vector<std::string> attributes, inputs, outputs;
  for (const std::string &name : function.attribute())
    attributes.push_back(identifier(name));
  for (const onnx::AttributeProto &attribute : function.attribute_proto())
    attributes.push_back(spaced(printed(attribute)));
  for (const std::string &name : function.input())
    inputs.push_back(identifier(name));
  for (const std::string &name : function.output())
    outputs.push_back(identifier(name));
  if (!attributes.empty())
    text += "<" + llvm::join(attributes, ", ") + "> ";
  text += "(" + llvm::join(inputs, ", ") + ") => (" +
          llvm::join(outputs, ", ") + ") {";

  const char *separator = function.node_size() > kOneLineNodes ? "\n  " : " ";
  for (const onnx::NodeProto &node : function.node())
    text += separator + nodeText(node);
  return text + (function.node_size() > kOneLineNodes ? "\n}\n" : " }\n");
}

} // namespace

std::string layoutText(const onnx::ModelProto &model) {
  std::string text = headText(model) + graphText(model.graph());
  for (const onnx::FunctionProto &function : model.functions())
    text += functionText(function);
  return text;
}

} // namespace offload
