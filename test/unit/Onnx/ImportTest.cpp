// What the importer makes of a model: names, order, constants, properties.
// Contents of typed fields and files are judged from outside, in
// differential/test_import.py.

#include "offload/Onnx/Import.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

std::string error(llvm::StringRef text, ImportOptions options = {}) {
  auto graph = importText(text, ".", options);
  EXPECT_FALSE(static_cast<bool>(graph));
  if (graph)
    return "";
  std::string message = llvm::toString(graph.takeError());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::unique_ptr<Graph> read(llvm::StringRef text, ImportOptions options = {}) {
  auto graph = importText(text, ".", options);
  if (!graph) {
    ADD_FAILURE() << llvm::toString(graph.takeError());
    return std::make_unique<Graph>();
  }
  return std::move(*graph);
}

std::vector<std::string> nodeNames(const Graph &graph) {
  std::vector<std::string> names;
  for (const Node &node : graph.nodeList())
    names.push_back(node.name().str());
  return names;
}

using Names = std::vector<std::string>;
constexpr const char *kHead = "<ir_version: 10, opset_import: [\"\": 21]> g ";

std::string model(const std::string &rest) { return kHead + rest; }

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(ImportTest, NamesNodesOfOperatorAndOutput) {
  auto graph = read(model(R"((float[2] x) => (float[2] y) {
    [own] a = Relu (x)
    b = Relu (a)
    [own] c = Relu (b)
    y = Relu (c)
  })"));
  EXPECT_EQ(nodeNames(*graph), (Names{"own", "relu_b", "own_2", "relu_y"}));
}

TEST(ImportTest, SortsWhatIsMerelyUnsorted) {
  auto graph = read(model(R"((float[2] x) => (float[2] y) {
    [first] p = Abs (x)
    [late] y = Add (p, q)
    [maker] q = Relu (x)
    [unmoved] r = Relu (p)
  })"));
  EXPECT_EQ(nodeNames(*graph), (Names{"first", "maker", "late", "unmoved"}));
}

TEST(ImportTest, KeepsTheOrderOfASchedule) {
  std::string message = error(R"(<ir_version: 10, opset_import: ["": 21],
    metadata_props: ["offload.form": "Scheduled"]>
  g (float[2] x) => (float[2] y) {
    [late] y = Relu (q)
    [maker] q = Relu (x)
  })");
  EXPECT_EQ(message, "[late] reads 'q' before [maker] makes it");
}

TEST(ImportTest, RefusesACycleByANodeOnIt) {
  std::string message = error(model(R"((float[2] x) => (float[2] y) {
    [before] p = Relu (x)
    [a] q = Add (p, r)
    [b] r = Relu (q)
    [behind] y = Relu (r)
  })"));
  EXPECT_HAS(message, "part of a cycle");
  EXPECT_TRUE(message.starts_with("[a]") || message.starts_with("[b]"))
      << message;
}

TEST(ImportTest, RefusesValuesMadeTwiceOrNever) {
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) "
                         "{ y = Relu (x) y = Abs (x) }")),
             "'y' is made twice");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] x) { x = Relu (x) }")),
             "'x' is made twice");
  EXPECT_EQ(error(model("(float[2] x) => (float[2] y) "
                        "{ a = Abs (x) y = Relu (x) y = Relu (a) }")),
            "'y' is made twice, as a result of [Relu of 'y'] (node 2) and as a "
            "result of [Relu of 'y'] (node 3)");
  EXPECT_EQ(error(model("(float[2] x) => (float[2] y) { [n] y = Add (x, z) }")),
            "[n] reads 'z', which nothing makes");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] z) { y = Relu (x) }")),
             "output 'z' is made by nothing");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y, float[2] y) "
                         "{ y = Relu (x) }")),
             "output 'y' is listed twice");
}

TEST(ImportTest, ConstantsBecomeInitializers) {
  auto graph = read(model(R"((float[2] x) => (float[2] y) {
    c = Constant <value: tensor = float[2] {1, 2}> ()
    i = Constant <value_int: int = 7> ()
    l = Constant <value_ints: ints = [1, 2, 3]> ()
    f = Constant <value_float: float = 1.5> ()
    s = Constant <value_floats: floats = [1.5, 2.5]> ()
    y = Add (x, c)
  })"));
  EXPECT_EQ(nodeNames(*graph), Names{"add_y"});
  for (const char *name : {"c", "i", "l", "f", "s"})
    ASSERT_TRUE(graph->findValue(name) && graph->findValue(name)->isConstant())
        << name;
  EXPECT_TRUE(graph->findValue("i")->type.dims.empty());
  EXPECT_EQ(graph->findValue("l")->type.dimsAtBound(), std::vector<int64_t>{3});
  EXPECT_EQ(graph->findValue("s")->data.sizeBytes(), 8);
  float f;
  memcpy(&f, graph->findValue("f")->data.bytes().data(), 4);
  EXPECT_EQ(f, 1.5f);
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) { "
                         "[c] s = Constant <value_string: string = \"a\"> () "
                         "y = Relu (x) }")),
             "value_string");
}

TEST(ImportTest, AnInputsInitializerIsADefaultFromVersion4On) {
  const char *rest = R"((float[2] x, float[2] w) => (float[2] y)
    <float[2] w = {1, 2}> { y = Add (x, w) })";
  auto graph = read(model(rest));
  ASSERT_EQ(graph->inputs().size(), 2u);
  EXPECT_FALSE(graph->findValue("w")->isConstant());
  EXPECT_FALSE(graph->findValue("w")->data.empty());
  auto old =
      read(std::string("<ir_version: 3, opset_import: [\"\": 13]> g ") + rest);
  ASSERT_EQ(old->inputs().size(), 1u);
  EXPECT_TRUE(old->findValue("w")->isConstant());
}

TEST(ImportTest, ADefaultMustBeOfTheInputsType) {
  EXPECT_HAS(error(model(R"((float[2] x, float[3] w) => (float[2] y)
    <float[2] w = {1, 2}> { y = Add (x, w) })")),
             "input 'w' is declared float[3], and its initializer is float[2]");
}

TEST(ImportTest, InlinesFunctionsAndKeepsThoseOfOffload) {
  auto graph = read(R"(<ir_version: 10,
    opset_import: ["": 21, "offload": 1, "local": 1]>
  g (float[2] x, float[2] u) => (float[2] y) {
    [call] a = local.twice <k: float = 3.0> (x)
    [stage] b = offload.Stage (a, "")
    [two] c, d = offload.Stage:two (b, u, "")
    y = Relu (c)
  }
  <domain: "local", opset_import: ["": 21, "local": 1]>
  twice <k> (v) => (r) { t = local.scale <k: float = @k> (v) r = Add (t, t) }
  <domain: "local", opset_import: ["": 21]>
  scale <k> (v) => (r) { s = Constant <value_float: float = @k> ()
                         r = Mul (v, s) }
  <domain: "offload", opset_import: ["": 21]>
  Stage (host, after) => (device) { device = Identity (host) }
  <domain: "offload", overload: "two", opset_import: ["": 21]>
  Stage (host_a, host_b, after) => (device_a, device_b)
    { device_a = Identity (host_a) device_b = Identity (host_b) })");
  Names kinds;
  for (const Node &node : graph->nodeList())
    kinds.push_back(node.opType);
  EXPECT_EQ(kinds, (Names{"Mul", "Add", "Stage", "Stage", "Relu"}));
  EXPECT_EQ(graph->findNode("two")->overload, "two");
  EXPECT_EQ(graph->findNode("stage")->operands().size(), 2u);
  EXPECT_FALSE(graph->opsets.contains("local"));
  EXPECT_TRUE(graph->opsets.contains("offload"));
  EXPECT_EQ(graph->findValue("d")->type, graph->findValue("u")->type);
}

TEST(ImportTest, RefusesFunctionsItCannotInline) {
  EXPECT_HAS(error(R"(<ir_version: 10, opset_import: ["": 21, "local": 1]>
  g (float[2] x) => (float[2] y) { y = local.f (x) }
  <domain: "local", opset_import: ["": 18]> f (v) => (r) { r = Relu (v) })"),
             "function 'local:f' imports domain '' at version 18");
  EXPECT_HAS(error(R"(<ir_version: 10, opset_import: ["": 21, "local": 1]>
  g (float[2] x) => (float[2] y) { y = local.f (x) }
  <domain: "local", opset_import: ["": 21, "local": 1]>
  f (v) => (r) { r = local.f (v) })"),
             "cannot inline");
}

TEST(ImportTest, RefusesVersionsOutOfRange) {
  const char *rest = " g (float[2] x) => (float[2] y) { y = Relu (x) }";
  auto with = [&](std::string head) { return "<" + head + ">" + rest; };
  for (const char *good : {"ir_version: 3, opset_import: [\"\": 11]",
                           "ir_version: 14, opset_import: [\"\": 28]",
                           "ir_version: 8, opset_import: [\"ai.onnx\": 17]"})
    EXPECT_EQ(read(with(good))->nodeList().size(), 1u) << good;
  EXPECT_HAS(error(with("ir_version: 15, opset_import: [\"\": 21]")),
             "IR version 15");
  EXPECT_HAS(error(with("ir_version: 2, opset_import: [\"\": 13]")),
             "IR version 2");
  EXPECT_HAS(error(with("ir_version: 10, opset_import: [\"\": 29]")),
             "opset 29");
  EXPECT_HAS(error(with("ir_version: 10, opset_import: [\"\": 10]")),
             "opset 10");
  EXPECT_HAS(error(with("ir_version: 10, opset_import: [\"local\": 1]")),
             "no opset of the default domain");
  EXPECT_HAS(error(with("ir_version: 10, opset_import: [\"\": 21, "
                        "\"ai.onnx\": 20]")),
             "at versions 21 and 20");
}

TEST(ImportTest, NamesNodeAndOperatorOfWhatIsNotSupported) {
  EXPECT_HAS(error(R"(<ir_version: 10, opset_import: ["": 21, "other": 3]>
    g (float[2] x) => (float[2] y) { [n] y = other.Thing (x) })"),
             "[n] uses operator Thing of domain other (since version 3), which "
             "is not supported");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) "
                         "{ [n] y = other.Thing (x) }")),
             "which the model does not import");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) "
                         "{ [n] y = NoSuch (x) }")),
             "[n] uses operator NoSuch of domain ai.onnx");
  EXPECT_HAS(
      error(model("(bool c, float[2] x) => (float[2] y) { [n] y = If (c) "
                  "<then_branch = g1 () => (float[2] a) { a = Relu (x) }"
                  ", else_branch = g2 () => (float[2] b) { b = Abs (x) }"
                  "> }")),
      "[n] uses operator If: control flow is not supported yet");
  EXPECT_HAS(error(model("(float[2] x) => (seq(float[2]) y) "
                         "{ [n] y = SequenceConstruct (x) }")),
             "[n] uses operator SequenceConstruct: sequences are");
  EXPECT_HAS(error(model("(seq(float[2]) x) => (float[2] y) "
                         "{ [n] y = Relu (x) }")),
             "input 'x' is a sequence");
  EXPECT_HAS(error(model("(string[2] x) => (string[2] y) "
                         "{ [n] y = Identity (x) }")),
             "input 'x' has elements of type string");
  EXPECT_HAS(error(model("(complex64[2] x) => (complex64[2] y) "
                         "{ [n] y = Identity (x) }")),
             "type complex64");
  EXPECT_HAS(error(model("(bool[2] x) => (bool[2] y) { [n] y = Relu (x) }")),
             "[n]");
}

TEST(ImportTest, RefusesNodesThatTheirSchemaRefuses) {
  std::string message = error(model(
      "(float[2] x) => (float[2] y) { [n] y = Relu <nope: int = 1> (x) }"));
  EXPECT_HAS(message, "[n] (Relu) is not valid");
  EXPECT_HAS(message, "nope");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) { [n] y = Add (x) }")),
             "[n] (Add) is not valid");
}

TEST(ImportTest, RefusesTextThatIsNoModel) {
  EXPECT_HAS(error("<ir_version: 10"), "no model in ONNX's text");
  EXPECT_HAS(error(model("(float[2] x) => (float[2] y) { y = Relu (x) } junk")),
             "text");
}

//===-- properties --------------------------------------------------------===//

std::string planned(const std::string &properties, const char *form) {
  return "<ir_version: 10, opset_import: [\"\": 21], metadata_props: "
         "[\"offload.form\": \"" +
         std::string(form) + "\"" + properties +
         "]> g (float[2] x, float[2] s) => (float[2] y, float[2] s_next) "
         "{ [n] y = Relu (x) [m] s_next = Relu (s) }";
}

TEST(ImportTest, ReadsPropertiesBack) {
  auto graph = read(planned(R"(, "offload.node.n": "kind=linear scratch=64",
    "offload.value.y": "offset=512 bytes=8", "offload.value.new": "offset=0",
    "offload.insert.stage_x": "op=Stage of=x before=n",
    "offload.state.s": "s_next", "offload.target": "host",
    "author": "somebody")",
                            "Planned"));
  EXPECT_EQ(graph->form, Form::Planned);
  EXPECT_EQ(graph->findNode("n")->properties.print(), "kind=linear scratch=64");
  EXPECT_EQ(graph->findValue("y")->properties.getInt("offset"), 512);
  EXPECT_EQ(graph->plannedValues.at("new").getInt("offset"), 0);
  EXPECT_EQ(graph->inserts.at("stage_x").get("op"), "Stage");
  EXPECT_EQ(graph->states.at("s"), "s_next");
  EXPECT_EQ(graph->modelProperties.at("offload.target"), "host");
  EXPECT_EQ(graph->modelProperties.at("author"), "somebody");
  EXPECT_FALSE(graph->modelProperties.contains("offload.form"));
}

TEST(ImportTest, RefusesPropertiesThatNameNothing) {
  auto refused = [](const std::string &property, const char *form) {
    return error(planned(", " + property, form));
  };
  EXPECT_EQ(refused(R"("offload.node.q": "kind=linear")", "Planned"),
            "property 'offload.node.q' names no node of the graph");
  EXPECT_EQ(refused(R"("offload.value.q": "offset=0")", "Scheduled"),
            "property 'offload.value.q' names no value of the graph");
  EXPECT_EQ(refused(R"("offload.speed": "9")", "Planned"),
            "property 'offload.speed' is not known");
  EXPECT_HAS(refused(R"("offload.node.n": "colour=red")", "Planned"),
             "property 'offload.node.n' is 'colour=red'");
  EXPECT_HAS(refused(R"("offload.state.s": "nowhere")", "Planned"),
             "is no output of the graph");
  EXPECT_HAS(
      refused(R"("offload.target": "a", "offload.target": "b")", "Planned"),
      "is there twice");
  EXPECT_HAS(error(planned("", "Cooked")), "'Cooked'");
}

} // namespace
