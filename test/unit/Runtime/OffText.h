// Makes `.off` files for tests of the runtime from ONNX's text, without the
// compiler half.

#ifndef OFFLOAD_TEST_UNIT_RUNTIME_OFFTEXT_H
#define OFFLOAD_TEST_UNIT_RUNTIME_OFFTEXT_H

#include "offload/OffFormat/FunctionBodies.h"
#include "offload/Runtime/Tensor.h"

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

namespace offload::rt {

/// A folder of its own for one test, gone with the object.
class TestFolder {
public:
  TestFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "offload-test-XXXXXX")
            .string();
    path = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string &name) const {
    return (path / name).string();
  }
  std::filesystem::path path;
};

/// Gives a text that leaves them out the functions of its `offload` operators.
inline void addFunctions(onnx::ModelProto &model) {
  for (const onnx::FunctionProto &function : model.functions())
    if (function.name() != "Folded")
      return;
  for (const OffFunction &function : offFunctions()) {
    bool isUsed =
        std::any_of(model.graph().node().begin(), model.graph().node().end(),
                    [&](const onnx::NodeProto &node) {
                      return node.domain() == "offload" &&
                             node.op_type() == function.op &&
                             node.overload() == function.overload;
                    });
    if (!isUsed)
      continue;
    onnx::FunctionProto &made = *model.add_functions();
    onnx::OnnxParser::Parse(made, offFunctionText(function, 0).c_str());
    made.set_domain("offload");
    made.set_overload(std::string(function.overload));
    for (const onnx::OperatorSetIdProto &import : model.opset_import())
      if (import.domain().empty())
        *made.add_opset_import() = import;
  }
}

inline onnx::ModelProto parseText(const std::string &text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  auto status = parser.Parse(model);
  if (!status.IsOK())
    throw Error("the test's text: " + status.ErrorMessage());
  addFunctions(model);
  return model;
}

inline void writeModel(const onnx::ModelProto &model, const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  model.SerializeToOstream(&file);
}

inline std::string writeText(const std::string &text, const std::string &path) {
  writeModel(parseText(text), path);
  return path;
}

/// A text file of test/Inputs.
inline std::string readInput(const std::string &name) {
  std::ifstream file(std::string(OFFLOAD_TEST_INPUTS) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `text` with the one place of `what` replaced.
inline std::string replaced(std::string text, const std::string &what,
                            const std::string &with) {
  size_t at = text.find(what);
  if (at == std::string::npos || text.find(what, at + 1) != std::string::npos)
    throw Error("'" + what + "' does not stand in the text once");
  return text.replace(at, what.size(), with);
}

template <typename T>
Tensor tensorOf(DataType type, std::vector<int64_t> dims,
                const std::vector<T> &values) {
  Tensor tensor = Tensor::allocate(type, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}
inline Tensor floats(std::vector<int64_t> dims,
                     const std::vector<float> &values) {
  return tensorOf<float>(DataType::Float, std::move(dims), values);
}
inline Tensor int64s(std::vector<int64_t> dims,
                     const std::vector<int64_t> &values) {
  return tensorOf<int64_t>(DataType::Int64, std::move(dims), values);
}
inline Tensor scalarFloat(float value) { return floats({}, {value}); }
inline Tensor scalarBool(bool value) {
  return tensorOf<uint8_t>(DataType::Bool, {}, {uint8_t(value)});
}
inline std::vector<float> valuesOf(const Tensor &tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numElements()};
}
inline bool sameBytes(const Tensor &a, const Tensor &b) {
  return a.type == b.type && a.dims == b.dims &&
         std::equal(a.bytes.get(), a.bytes.get() + a.sizeBytes(),
                    b.bytes.get());
}

/// Expects that `body` throws Error with all of `parts` in its one line.
template <typename Body>
void expectError(Body body, std::initializer_list<std::string> parts) {
  try {
    body();
    ADD_FAILURE() << "was not refused: " << *parts.begin();
  } catch (const Error &error) {
    std::string text = error.what();
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos)
          << "'" << part << "' is not in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

} // namespace offload::rt

#endif // OFFLOAD_TEST_UNIT_RUNTIME_OFFTEXT_H
