// Reads model properties back onto nodes and values.
//
// In:  metadata_props; a graph whose nodes and values have their final names.
// Out: properties where passes look for them.
// Not: what the properties mean (passes, VerifySchedule).

#include "ImportProperties.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace offload {

llvm::Expected<Form> readForm(const onnx::ModelProto &model) {
  for (const onnx::StringStringEntryProto &entry : model.metadata_props()) {
    if (entry.key() != kFormKey)
      continue;
    if (std::optional<Form> form = parseForm(entry.value()))
      return *form;
    return makeError("property '" + entry.key() + "' is '" + entry.value() +
                     "', and a form is Imported, Planned or Scheduled");
  }
  return Form::Imported;
}

namespace {

class PropertyReader {
public:
  explicit PropertyReader(Graph &graph) : graph(graph) {}

  llvm::Error read(const std::string &key, const std::string &text) {
    llvm::StringRef name = key;
    if (!name.starts_with(kPropertyPrefix)) {
      graph.modelProperties[key] = text;
      return llvm::Error::success();
    }
    if (key == kFormKey)
      return llvm::Error::success(); // readForm has it
    if (llvm::is_contained(kModelKeys, key)) {
      graph.modelProperties[key] = text;
      return llvm::Error::success();
    }
    if (name.consume_front(kStatePrefix)) {
      graph.states[name.str()] = text;
      return llvm::Error::success();
    }
    std::string why;
    std::optional<Properties> properties = Properties::parse(text, &why);
    if (name.consume_front(kNodePrefix))
      return check(key, text, properties, why, readNode(name, properties));
    if (name.consume_front(kValuePrefix))
      return check(key, text, properties, why, readValue(name, properties));
    if (name.consume_front(kInsertPrefix)) {
      if (properties)
        graph.inserts[name.str()] = *properties;
      return check(key, text, properties, why, nullptr);
    }
    return makeError("property '" + key + "' is not known");
  }

private:
  /// `missing`: what the key should name and does not.
  llvm::Error check(const std::string &key, const std::string &text,
                    const std::optional<Properties> &properties,
                    const std::string &why, const char *missing) {
    if (!properties)
      return makeError("property '" + key + "' is '" + text + "': " + why);
    if (missing)
      return makeError("property '" + key + "' names no " + missing);
    return llvm::Error::success();
  }

  const char *readNode(llvm::StringRef name,
                       const std::optional<Properties> &properties) {
    Node *node = graph.findNode(name);
    if (node && properties)
      node->properties = *properties;
    return node ? nullptr : "node of the graph";
  }

  const char *readValue(llvm::StringRef name,
                        const std::optional<Properties> &properties) {
    Value *value = graph.findValue(name);
    if (!value && graph.form != Form::Planned)
      return "value of the graph";
    if (properties)
      (value ? value->properties : graph.plannedValues[name.str()]) =
          *properties;
    return nullptr;
  }

  Graph &graph;
};

} // namespace

llvm::Error readProperties(const onnx::ModelProto &model, Graph &graph) {
  PropertyReader reader(graph);
  llvm::StringSet<> seen;
  for (const onnx::StringStringEntryProto &entry : model.metadata_props()) {
    if (!seen.insert(entry.key()).second)
      return makeError("property '" + entry.key() + "' is there twice");
    if (llvm::Error error = reader.read(entry.key(), entry.value()))
      return error;
  }
  return llvm::Error::success();
}

} // namespace offload
