// Files that are no more what the compiler wrote, though their order is right:
// another runtime would compute other numbers, or none.

#include "OffFile.h"

#include <gtest/gtest.h>

#include <functional>

namespace offload::rt {
namespace {

class Tampered : public testing::Test {
protected:
  TestFolder folder;
  const onnx::ModelProto right = parseText(readInput("step.onnxtxt"));

  void SetUp() override {
    writeModel(right, folder / "right.off");
    ASSERT_NO_THROW(Session::load(folder / "right.off", {}));
  }
  void refused(const std::function<void(onnx::ModelProto &)> &tamper,
               std::initializer_list<std::string> parts) {
    onnx::ModelProto model = right;
    tamper(model);
    writeModel(model, folder / "m.off");
    expectError([&] { Session::load(folder / "m.off", {}); }, parts);
  }
  /// The function with all that it changes.
  static onnx::FunctionProto &function(onnx::ModelProto &model,
                                       const std::string &name) {
    for (onnx::FunctionProto &function : *model.mutable_functions())
      if (function.name() == name && function.overload().empty())
        return function;
    throw Error("no function " + name);
  }
  static onnx::StringStringEntryProto &property(onnx::ModelProto &model,
                                                const std::string &key) {
    for (onnx::StringStringEntryProto &entry : *model.mutable_metadata_props())
      if (entry.key() == key)
        return entry;
    throw Error("no property " + key);
  }
  static void declare(onnx::ModelProto &model, const std::string &name,
                      int type, std::initializer_list<int64_t> dims) {
    onnx::ValueInfoProto &info = *model.mutable_graph()->add_value_info();
    info.set_name(name);
    auto &tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (int64_t dim : dims)
      tensor.mutable_shape()->add_dim()->set_dim_value(dim);
  }
};

TEST_F(Tampered, VersionsOfTheDomain) {
  refused(
      [](onnx::ModelProto &model) {
        for (auto &import : *model.mutable_opset_import())
          if (import.domain() == "offload")
            import.set_version(7);
      },
      {"'offload' at version 7", "knows version 1", "compile the model again"});
  refused(
      [](onnx::ModelProto &model) {
        auto &import = *model.add_opset_import();
        import.set_domain("ai.onnx");
        import.set_version(11);
      },
      {"imports domain '' at two versions"});
}

TEST_F(Tampered, FunctionsMeanWhatTheirOperatorsMean) {
  refused(
      [](onnx::ModelProto &model) {
        function(model, "SGD").mutable_node(1)->set_op_type("Add");
      },
      {"function 'offload.SGD'", "not the one that this program writes"});
  refused(
      [](onnx::ModelProto &model) {
        function(model, "SGD")
            .mutable_node(1)
            ->mutable_input()
            ->SwapElements(0, 1);
      },
      {"function 'offload.SGD'"});
  refused(
      [](onnx::ModelProto &model) {
        onnx::AttributeProto &value =
            *function(model, "Release").mutable_node(0)->mutable_attribute(0);
        value.mutable_t()->set_int32_data(0, 0);
      },
      {"function 'offload.Release'"});
  refused(
      [](onnx::ModelProto &model) {
        function(model, "Wait").mutable_opset_import(0)->set_version(13);
      },
      {"function 'offload.Wait'", "other opsets"});
}

TEST_F(Tampered, EachFunctionIsThereOnceAndNoOther) {
  refused([](onnx::ModelProto &model) { model.clear_functions(); },
          {"uses offload.Stage", "no function for it"});
  refused(
      [](onnx::ModelProto &model) {
        *model.add_functions() = function(model, "Wait");
      },
      {"function 'offload.Wait' twice"});
  refused(
      [](onnx::ModelProto &model) {
        function(model, "Wait").set_name("Await");
      },
      {"function 'offload.Await'", "none of this program's"});
  // ONNX Runtime would take it for the standard operator.
  refused(
      [](onnx::ModelProto &model) {
        onnx::FunctionProto &made = *model.add_functions();
        made = function(model, "SGD");
        made.set_domain("");
        made.set_name("Gemm");
      },
      {"function 'Gemm'", "none of this program's"});
}

TEST_F(Tampered, ThePeakIsTheLargestEndOfARange) {
  for (const char *wrong : {"12957696", "12958720", "0"})
    refused(
        [&](onnx::ModelProto &model) {
          property(model, "offload.peak_bytes").set_value(wrong);
        },
        {"a peak of 12958208", std::string("is ") + wrong});
}

TEST_F(Tampered, PropertiesAreThereOnce) {
  refused(
      [](onnx::ModelProto &model) {
        onnx::StringStringEntryProto &entry = *model.add_metadata_props();
        entry = property(model, "offload.peak_bytes");
      },
      {"property 'offload.peak_bytes' is there twice"});
}

TEST_F(Tampered, DeclaredTypesAreWhatNodesMake) {
  constexpr int kFloat = onnx::TensorProto::FLOAT;
  onnx::ModelProto model = right;
  declare(model, "h2", kFloat, {8, 1024});
  declare(model, "w1_free", onnx::TensorProto::BOOL, {});
  writeModel(model, folder / "m.off");
  EXPECT_NO_THROW(Session::load(folder / "m.off", {}));
  refused([](onnx::ModelProto &m) { declare(m, "h2", kFloat, {8, 512}); },
          {"[fc2]", "makes 'h2' of float[8,1024]", "declares it float[8,512]"});
  refused([](onnx::ModelProto &m) { declare(m, "h2", kFloat, {8}); },
          {"[fc2]", "declares it float[8]"});
  refused(
      [](onnx::ModelProto &m) {
        declare(m, "h2", onnx::TensorProto::FLOAT16, {8, 1024});
      },
      {"[fc2]", "declares it float16[8,1024]"});
  refused([](onnx::ModelProto &m) { declare(m, "w1_free", kFloat, {}); },
          {"[release_w1]", "of bool[]", "declares it float[]"});
}

} // namespace
} // namespace offload::rt
