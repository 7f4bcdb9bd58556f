// A graph whose sizes follow its feeds, and its result by plain loops.

#ifndef OFFLOAD_TEST_UNIT_RUNTIME_DYNAMICROWS_H
#define OFFLOAD_TEST_UNIT_RUNTIME_DYNAMICROWS_H

#include "OffText.h"

#include <vector>

namespace offload::rt {

using Values = std::vector<float>;

// Rows up to four; the shape of the result is computed from that of x. The
// weight streams with its bias in one copy.
inline constexpr const char *kDynamic = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.dims": "rows<=4",
  "offload.form": "Scheduled",
  "offload.node.flat": "queue=launch",
  "offload.node.shape": "queue=launch",
  "offload.node.size": "queue=launch",
  "offload.state.x_idle": "x_free",
  "offload.value.b_fly": "offset=1024 bytes=8",
  "offload.value.h": "offset=1536 bytes=32",
  "offload.value.w_fly": "offset=512 bytes=16",
  "offload.value.x_fly": "offset=0 bytes=32",
  "offload.value.z": "view=h"]>
g (float[rows,2] x, float[rows,k] other, bool x_idle)
  => (float[m] y, int64[1] count, bool x_free)
  <float[2,2] w = {1, 2, 3, 4}, float[2] b = {10, 20}, bool x_idle = {1},
   int64[1] minus = {-1}, int64[1] zero = {0}>
{
  [stage_x] x_fly = offload.Stage (x, x_idle)
  [stage_w] w_fly, b_fly = offload.Stage:two (w, b, "")
  [shape] dims = Shape (x)
  [size] count = Gather (dims, zero)
  [flat] target = Identity (minus)
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [wait_w] w_dev = offload.Wait (w_fly, "")
  [wait_b] b_dev = offload.Wait (b_fly, "")
  [fc] h = Gemm (x_dev, w_dev, b_dev)
  [reshape] z = Reshape (h, target)
  [release] x_free = offload.Release (x_dev)
  [fetch] y = offload.Fetch (z, "")
}
)";

inline Values dynamicResult(const Values &x) {
  Values y;
  for (size_t i = 0; i < x.size(); i += 2) {
    y.push_back(x[i] + 3 * x[i + 1] + 10);
    y.push_back(2 * x[i] + 4 * x[i + 1] + 20);
  }
  return y;
}

inline TensorMap dynamicFeeds(int64_t rows, float start) {
  Values x, other(static_cast<size_t>(rows));
  for (int64_t i = 0; i < 2 * rows; ++i)
    x.push_back(start + static_cast<float>(i));
  return {{"x", floats({rows, 2}, x)}, {"other", floats({rows, 1}, other)}};
}

} // namespace offload::rt

#endif // OFFLOAD_TEST_UNIT_RUNTIME_DYNAMICROWS_H
