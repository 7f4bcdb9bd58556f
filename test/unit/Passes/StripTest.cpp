// Schedules written by hand give back the plain model.

#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"
#include "offload/PassManager/Pass.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace offload;

namespace offload {
std::unique_ptr<Pass> createStripPass();
}

namespace {

std::unique_ptr<Graph> graphOf(llvm::StringRef text) {
  auto graph = importText(text, ".", {});
  EXPECT_TRUE(bool(graph)) << llvm::toString(graph.takeError());
  return graph ? std::move(*graph) : nullptr;
}

/// Text of the stripped graph, or the error.
std::string stripped(llvm::StringRef text) {
  std::unique_ptr<Graph> graph = graphOf(text);
  if (!graph)
    return "not read";
  PassContext context;
  if (llvm::Error error = createStripPass()->run(*graph, context))
    return "error: " + llvm::toString(std::move(error));
  if (llvm::Error error = graph->verify())
    return "broken: " + llvm::toString(std::move(error));
  return printText(*graph);
}

constexpr const char *kPlainStep =
    R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.state.b1": "b1_next",
  "offload.state.head": "head_next",
  "offload.state.w1": "w1_next",
  "offload.state.w2": "w2_next",
  "offload.state.w3": "w3_next"]>
step (float[2,4,1024] x, float[8,16] t, float lr, bool apply, float[1024,1024] w1, float[1024] b1, float[1024,1024] w2, float[1024,1024] w3, float[1024,16] head)
  => (float loss, float[1024,1024] w1_next, float[1024] b1_next, float[1024,1024] w2_next, float[1024,1024] w3_next, float[1024,16] head_next)
  <int64[2] rows = {8, 1024}, int64[1] axis0 = {0}>
{
  [flatten] x2 = Reshape (x, rows)
  [fc1] h1 = Gemm (x2, w1, b1)
  [fc2] h2 = MatMul (h1, w2)
  [fc3] y = MatMul (h2, w3)
  [out] z = MatMul (y, head)
  [error] e = Sub (z, t)
  [sum_squares] loss = ReduceSumSquare <keepdims: int = 0> (e)
  [error_dz] dz = Add (e, e)
  [out_dx] dy = Gemm <transB: int = 1> (dz, head)
  [out_dw] dhead = Gemm <transA: int = 1> (y, dz)
  [update_head] head_next = offload.SGD (head, dhead, lr, apply)
  [fc3_dw] dw3 = Gemm <transA: int = 1> (h2, dy)
  [update_w3] w3_next = offload.SGD (w3, dw3, lr, apply)
  [fc3_dx] dh2 = Gemm <transB: int = 1> (dy, w3)
  [fc2_dx] dh1 = Gemm <transB: int = 1> (dh2, w2)
  [fc2_dw] dw2 = Gemm <transA: int = 1> (h1, dh2)
  [update_w2] w2_next = offload.SGD (w2, dw2, lr, apply)
  [fc1_dw] dw1 = Gemm <transA: int = 1> (x2, dh1)
  [fc1_db] db1 = ReduceSum <keepdims: int = 0> (dh1, axis0)
  [update_w1] w1_next = offload.SGD (w1, dw1, lr, apply)
  [update_b1] b1_next = offload.SGD (b1, db1, lr, apply)
}
<domain: "offload", opset_import: ["": 21]>
SGD (w, g, lr, apply) => (w_next) { d = Mul (lr, g) moved = Sub (w, d) w_next = Where (apply, moved, w) }
)";

// Spill, gradient copies, the border token and all places go; updates and the
// states of weights stay, and the output that a Fetch made keeps its name.
TEST(StripTest, TrainingStep) {
  auto file = llvm::MemoryBuffer::getFile(OFFLOAD_TEST_INPUTS "/step.onnxtxt");
  ASSERT_TRUE(bool(file));
  EXPECT_EQ(stripped((*file)->getBuffer()), kPlainStep);
}

TEST(StripTest, APlainModelStaysAsItIs) {
  EXPECT_EQ(stripped(kPlainStep), kPlainStep);
}

// Inference: a table on the host queue, a Stage of two, a Join, sizes given by
// the user.
TEST(StripTest, Inference) {
  EXPECT_EQ(stripped(R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "mine": "stays",
  "offload.device_memory": "65536",
  "offload.dims": "seq<=8",
  "offload.form": "Scheduled",
  "offload.node.embed": "kind=embedding queue=host",
  "offload.node.fc": "kind=linear",
  "offload.peak_bytes": "2048",
  "offload.state.idle": "free",
  "offload.target": "host",
  "offload.value.b_fly": "offset=1024 bytes=8",
  "offload.value.rows_fly": "offset=0 bytes=64",
  "offload.value.w_fly": "offset=512 bytes=16",
  "offload.value.y_dev": "offset=1536 bytes=64"]>
g (int64[seq] ids, bool idle) => (float[seq,2] y, bool free)
  <bool idle = {1}, float[4,2] table = {0,0,0,0,0,0,0,0}, float[2,2] w = {0,0,0,0}, float[2] b = {0,0}>
{
  [embed] rows = Gather (table, ids)
  [stage_rows] rows_fly = offload.Stage (rows, idle)
  [stage_w] w_fly, b_fly = offload.Stage:two (w, b, "")
  [wait_rows] rows_dev = offload.Wait (rows_fly, "")
  [wait_w] w_dev = offload.Wait (w_fly, "")
  [wait_b] b_dev = offload.Wait (b_fly, "")
  [fc] y_dev = Gemm (rows_dev, w_dev, b_dev)
  [fetch_y] y = offload.Fetch (y_dev, "")
  [release_rows] rows_free = offload.Release (rows_dev)
  [release_w] w_free = offload.Release (w_dev)
  [join] free = offload.Join (rows_free, w_free)
}
)"),
            R"(<ir_version: 10, opset_import: ["": 21],
 metadata_props: [
  "mine": "stays",
  "offload.dims": "seq<=8"]>
g (int64[seq] ids)
  => (float[seq,2] y)
  <float[4,2] table = {0, 0, 0, 0, 0, 0, 0, 0}, float[2,2] w = {0, 0, 0, 0}, float[2] b = {0, 0}>
{
  [embed] rows = Gather (table, ids)
  [fc] y = Gemm (rows, w, b)
}
)");
}

// A decision that was not carried out yet goes too.
TEST(StripTest, Planned) {
  EXPECT_EQ(stripped(R"(<ir_version: 10, opset_import: ["": 21],
 metadata_props: [
  "offload.form": "Planned",
  "offload.insert.stage_x": "op=Stage of=x before=act",
  "offload.value.x_fly": "offset=0 bytes=16",
  "offload.value.y": "offset=512 bytes=16"]>
g (float[4] x) => (float[4] y)
{
  [act] y = Relu (x)
}
)"),
            R"(<ir_version: 10, opset_import: ["": 21]>
g (float[4] x)
  => (float[4] y)
{
  [act] y = Relu (x)
}
)");
}

// Two names of one value need a node between them.
TEST(StripTest, AnOutputThatIsAnInput) {
  EXPECT_EQ(stripped(R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: ["offload.form": "Scheduled", "offload.value.x_fly": "offset=0 bytes=16"]>
g (float[4] x) => (float[4] y)
{
  [stage_x] x_fly = offload.Stage (x, "")
  [fetch_y] y = offload.Fetch (x_fly, "")
}
)"),
            R"(<ir_version: 10, opset_import: ["": 21]>
g (float[4] x)
  => (float[4] y)
{
  [y] y = Identity (x)
}
)");
}

TEST(StripTest, ATokenReadAsDataIsAnError) {
  EXPECT_EQ(stripped(R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: ["offload.form": "Scheduled"]>
g (float[4] x) => (bool y)
{
  [act] h = Relu (x)
  [release_h] h_free = offload.Release (h)
  [compute] y = Not (h_free)
}
)"),
            "error: [compute] computes with 'h_free', which only carries "
            "order");
  EXPECT_EQ(stripped(R"(<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: ["offload.form": "Scheduled"]>
g (float[4] x) => (float[4] h, bool h_free)
{
  [act] h = Relu (x)
  [release_h] h_free = offload.Release (h)
}
)"),
            "error: output 'h_free' only carries order, and is no state's "
            "next value");
}

} // namespace
