// Canonical text is a fixed point: what is read prints as it was.

#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

std::string reprinted(llvm::StringRef text) {
  auto graph = importText(text, ".", {});
  if (!graph)
    return "not read: " + llvm::toString(graph.takeError());
  return printText(**graph);
}

void expectFixedPoint(const std::string &text) {
  EXPECT_EQ(reprinted(text), text);
}

std::string withoutComments(llvm::StringRef text) {
  std::string result;
  for (llvm::StringRef line : llvm::split(text.rtrim('\n'), '\n'))
    if (!line.starts_with("#"))
      result += (line + "\n").str();
  return result;
}

// Every form of the format in one file, byte for byte but for its comments.
TEST(TextTest, TheStepIsAFixedPoint) {
  auto file = llvm::MemoryBuffer::getFile(OFFLOAD_TEST_INPUTS "/step.onnxtxt");
  ASSERT_TRUE(bool(file));
  std::string text = withoutComments((*file)->getBuffer());
  EXPECT_LT(text.size(), (*file)->getBufferSize());
  EXPECT_EQ(reprinted((*file)->getBuffer()), text);
  expectFixedPoint(text);
}

TEST(TextTest, NamesThatAreNoIdentifiers) {
  expectFixedPoint(R"(<ir_version: 10, opset_import: ["": 21],
 metadata_props: [
  "a key": "with \"quotes\" and \\",
  "offload.node./layer.0/act": "kind=a%20b"]>
"main graph" (float["batch size",4] "input.1", float[2] float)
  => (float["batch size",4] "/layer.0/Relu_output_0", float[2] "3")
{
  ["/layer.0/act"] "/layer.0/Relu_output_0" = Relu ("input.1")
  ["say \"hi\""] "3" = Relu (float)
}
)");
}

TEST(TextTest, Head) {
  expectFixedPoint(
      R"(<ir_version: 11, opset_import: ["": 22], producer_name: "maker", producer_version: "1.2 \"beta\"", doc_string: "two
lines">
g (float[4] x)
  => (float[4] y)
{
  [act] y = Relu (x)
}
)");
}

TEST(TextTest, Attributes) {
  expectFixedPoint(R"(<ir_version: 10, opset_import: ["": 21]>
g (float[1,4,8,8] x, int64[2] shape)
  => (float[1,4,8,8] a, float[1,4,8,8] b, float[1,4,16,16] c, float[?,?] d)
  <float[4,1,3,3] w = {0.1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float[4] scales = {1, 1, 2, 2}>
{
  [act] a = LeakyRelu <alpha: float = 0.1> (x)
  [conv] b = Conv <group: int = 4, pads: ints = [1, 1, 1, 1]> (x, w)
  [grow] c = Resize <mode: string = "nearest"> (x, "", scales)
  [fill] d = ConstantOfShape <value: tensor = float[1] {-0.5}> (shape)
}
)");
}

// Numbers come back as they were, whatever they are.
TEST(TextTest, Constants) {
  expectFixedPoint(R"(<ir_version: 10, opset_import: ["": 21]>
g (float[6] x, float16[3] h, bfloat16[2] n, int8[2] i, uint8[1] u, bool[2] p, double[1] r)
  => (float[6] a, float16[3] b, bfloat16[2] c, int8[2] d, uint8[1] e, bool[2] f, double[1] k)
  <
    float[6] cx = {nan, inf, -inf, -0, 1e-40, 0.1},
    float16[3] ch = {15360, 31744, 32768},
    bfloat16[2] cn = {16256, 49024},
    int8[2] ci = {-128, 127},
    uint8[1] cu = {255},
    bool[2] cp = {1, 0},
    double[1] cr = {0.1}>
{
  [add_x] a = Add (x, cx)
  [add_h] b = Add (h, ch)
  [add_n] c = Add (n, cn)
  [add_i] d = Add (i, ci)
  [add_u] e = Add (u, cu)
  [and_p] f = And (p, cp)
  [add_r] k = Add (r, cr)
}
)");
}

TEST(TextTest, DefaultsOfInputs) {
  expectFixedPoint(R"(<ir_version: 10, opset_import: ["": 21]>
g (float[2] x, float[2] bias)
  => (float[2] y)
  <float[2] bias = {1, 2}>
{
  [add] y = Add (x, bias)
}
)");
}

TEST(TextTest, LongListsBreak) {
  std::string inputs, nodes, outputs;
  for (int i = 0; i < 12; ++i) {
    std::string n = std::to_string(i), comma = i == 11 ? "" : ",";
    inputs += "\n  float[128] input_number_" + n + comma;
    outputs += "\n    float[128] output_number_" + n + comma;
    nodes += "  [act_" + n + "] output_number_" + n + " = Relu (input_number_" +
             n + ")\n";
  }
  expectFixedPoint("<ir_version: 10, opset_import: [\"\": 21]>\ng (" + inputs +
                   ")\n  => (" + outputs + ")\n{\n" + nodes + "}\n");
}

// The overloads, and absent operands at the end, which ONNX allows to leave out
// and the format does not.
TEST(TextTest, CopiesOfSeveralValues) {
  expectFixedPoint(
      R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.a_fly": "offset=0 bytes=8",
  "offload.value.b_fly": "offset=512 bytes=8",
  "offload.value.c_fly": "offset=1024 bytes=8",
  "offload.value.d_fly": "offset=1536 bytes=8"]>
g (float[2] a, float[2] b, float[2] c, float[2] d)
  => (float[2] ah, float[2] bh, float[2] ch, float[2] dh, bool both)
{
  [stage] a_fly, b_fly, c_fly, d_fly = offload.Stage:four (a, b, c, d, "")
  [fetch] ah, bh, ch = offload.Fetch:three (a_fly, b_fly, c_fly, "")
  [send] dh = offload.GradTransfer (d_fly, ch)
  [join] both = offload.Join (ah, dh)
}
<domain: "offload", overload: "four", opset_import: ["": 21]>
Stage (host_a, host_b, host_c, host_d, after) => (device_a, device_b, device_c, device_d) { device_a = Identity (host_a) device_b = Identity (host_b) device_c = Identity (host_c) device_d = Identity (host_d) }
<domain: "offload", opset_import: ["": 21]>
Join (first, second) => (token) { token = Constant <value: tensor = bool {1}> () }
<domain: "offload", opset_import: ["": 21]>
GradTransfer (device, after) => (host) { host = Identity (device) }
<domain: "offload", overload: "three", opset_import: ["": 21]>
Fetch (device_a, device_b, device_c, after) => (host_a, host_b, host_c) { host_a = Identity (device_a) host_b = Identity (device_b) host_c = Identity (device_c) }
)");
}

TEST(TextTest, LayoutOfTheReaderDoesNotMatter) {
  EXPECT_EQ(reprinted("<opset_import:[\"\":21],ir_version:10>g(float[2]x)=>"
                      "(float[2]y){[a]y=Relu(x)}"),
            R"(<ir_version: 10, opset_import: ["": 21]>
g (float[2] x)
  => (float[2] y)
{
  [a] y = Relu (x)
}
)");
}

} // namespace
