// The seam to LibTorch: every row has its kernel, calls follow their profiles.

#include "offload/Runtime/Kernels.h"
#include "offload/Runtime/Tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace offload;
using namespace offload::rt;

TensorView view(std::vector<float> &data, std::vector<int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return {data.data(), DataType::Float, std::move(dims), strides};
}

KernelCall callOf(Op op, const AttributeMap &attributes,
                  std::vector<TensorView> operands) {
  KernelCall call;
  call.op = op;
  call.sinceVersion = 13;
  call.attributes = &attributes;
  call.launch.resize(operands.size());
  call.operands = std::move(operands);
  return call;
}

TEST(Kernels, EveryRowThatRunsHasOne) {
  for (const OperatorInfo &row : operatorTable()) {
    bool runs = (row.queue == Queue::Compute || row.queue == Queue::Host) &&
                row.id != Op::Offload_Wait && row.id != Op::Offload_Release;
    EXPECT_EQ(hasKernel(row.id), runs) << row.domain << "." << row.name;
  }
}

TEST(Kernels, RunsWhereTheProfileSays) {
  std::vector<float> a = {1, -2, 3}, out(3), expected = {1, 0, 3};
  AttributeMap none;
  KernelCall call = callOf(Op::Relu, none, {view(a, {3})});
  KernelProfile profile = profileKernel(call);
  ASSERT_EQ(profile.outputs.size(), 1u);
  EXPECT_EQ(profile.outputs[0].type, DataType::Float);
  EXPECT_EQ(profile.outputs[0].dims, std::vector<int64_t>{3});
  EXPECT_EQ(profile.scratchBytes, 0);
  void *places[] = {out.data()};
  runKernel(call, profile, places, nullptr, 0);
  EXPECT_EQ(out, expected);
}

TEST(Kernels, WritesOverAnOperandInPlace) {
  std::vector<float> a = {1, 2}, b = {10, 20}, expected = {11, 22};
  AttributeMap none;
  KernelCall call = callOf(Op::Add, none, {view(a, {2}), view(b, {2})});
  KernelProfile profile = profileKernel(call);
  void *places[] = {a.data()};
  runKernel(call, profile, places, nullptr, 0);
  EXPECT_EQ(a, expected);
}

TEST(Kernels, CopiesAResultThatIsAnOperand) {
  std::vector<float> a = {1, 2}, out(2);
  AttributeMap none;
  KernelCall call = callOf(Op::Identity, none, {view(a, {2})});
  KernelProfile profile = profileKernel(call);
  void *places[] = {out.data()};
  runKernel(call, profile, places, nullptr, 0);
  EXPECT_EQ(out, a);
}

TEST(Kernels, AnOutputThatNobodyWantsIsScratch) {
  std::vector<float> a = {1, 5, 3, 2}, out(1);
  AttributeMap attributes = {{"kernel_shape", std::vector<int64_t>{4}}};
  KernelCall call = callOf(Op::MaxPool, attributes, {view(a, {1, 1, 4})});
  call.numOutputs = 2;
  call.wanted = {true, false};
  KernelProfile profile = profileKernel(call);
  EXPECT_EQ(profile.scratchBytes, 512);
  std::vector<std::byte> scratch(512);
  void *places[] = {out.data(), nullptr};
  runKernel(call, profile, places, scratch.data(), 512);
  EXPECT_EQ(out[0], 5);
}

TEST(Kernels, AFreeChoiceIsOfTheCallAndChangesNothingOnTheHost) {
  std::vector<float> x(2 * 3 * 8 * 8), w(4 * 3 * 3 * 3);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = std::cos(static_cast<float>(i));
  AttributeMap none;
  KernelCall call =
      callOf(Op::Conv, none, {view(x, {2, 3, 8, 8}), view(w, {4, 3, 3, 3})});
  call.place.deviceForms = true;
  std::vector<std::vector<float>> results;
  for (bool deterministic : {true, false, true}) {
    call.deterministic = deterministic;
    KernelProfile profile = profileKernel(call);
    std::vector<std::byte> scratch(
        static_cast<size_t>(alignUp(profile.scratchBytes) + kAlignBytes));
    std::vector<float> &out = results.emplace_back(2 * 4 * 6 * 6);
    void *places[] = {out.data()};
    // What was profiled may differ in workspaces from what runs.
    if (!deterministic)
      ++profile.requests;
    runKernel(call, profile, places, scratch.data(), profile.scratchBytes);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  for (const OperatorInfo &row : operatorTable())
    if (choosesAlgorithm(row.id)) {
      EXPECT_TRUE(hasDeviceForm(row.id)) << row.name;
    }
}

TEST(Kernels, AnErrorIsOneLineAndLeavesTheSeamUsable) {
  std::vector<float> a = {1, 2, 3}, b = {1, 2};
  AttributeMap none;
  KernelCall wrong = callOf(Op::Add, none, {view(a, {3}), view(b, {2})});
  try {
    profileKernel(wrong);
    FAIL() << "shapes do not broadcast";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(text.find("size"), std::string::npos) << text;
  }
  KernelCall right = callOf(Op::Exp, none, {view(a, {3})});
  EXPECT_EQ(profileKernel(right).outputs.size(), 1u);
}

/// w - lr * g, each operation rounded by itself.
TEST(Kernels, SgdRoundsEveryOperation) {
  std::vector<float> w = {1.1f, -0.3f}, g = {0.7f, 1e-4f}, out(2);
  HostValue lr{DataType::Float, {}, {}, {0.1f}};
  HostValue apply{DataType::Bool, {}, {1}, {}};
  AttributeMap none;
  KernelCall call =
      callOf(Op::Offload_SGD, none, {view(w, {2}), view(g, {2}), {}, {}});
  call.launch = {nullptr, nullptr, &lr, &apply};
  KernelProfile profile = profileKernel(call);
  void *places[] = {out.data()};
  runKernel(call, profile, places, nullptr, 0);
  for (int i = 0; i < 2; ++i) {
    volatile float change = 0.1f * g[i];
    EXPECT_EQ(out[i], w[i] - change);
  }
  apply.ints = {0};
  runKernel(call, profile, places, nullptr, 0);
  EXPECT_EQ(out, w) << "skipped";
}

/// The first step of AdamW by hand: the moments start at zero.
TEST(Kernels, AdamWTakesItsFirstStep) {
  std::vector<float> w = {2}, g = {0.5f}, m = {0}, v = {0}, out(3);
  std::vector<HostValue> scalars;
  for (float value : {0.1f, 0.9f, 0.999f, 0.05f, 0.3f})
    scalars.push_back({DataType::Float, {}, {}, {value}});
  scalars.push_back({DataType::Int64, {}, {1}, {}});
  scalars.push_back({DataType::Bool, {}, {1}, {}});
  AttributeMap none;
  KernelCall call = callOf(Op::Offload_AdamW, none,
                           {view(w, {1}),
                            view(g, {1}),
                            view(m, {1}),
                            view(v, {1}),
                            {},
                            {},
                            {},
                            {},
                            {},
                            {},
                            {}});
  for (size_t i = 0; i < scalars.size(); ++i)
    call.launch[4 + i] = &scalars[i];
  call.numOutputs = 3;
  KernelProfile profile = profileKernel(call);
  void *places[] = {&out[0], &out[1], &out[2]};
  runKernel(call, profile, places, nullptr, 0);
  double kept = 2 * (1 - 0.1 * 0.3), gradient = 0.5;
  EXPECT_NEAR(out[0], kept - 0.1 * gradient / (std::abs(gradient) + 0.05),
              1e-6);
  EXPECT_NEAR(out[1], 0.05, 1e-7);
  EXPECT_NEAR(out[2], 0.00025, 1e-8); // 1 - 0.999f is not 0.001
}

} // namespace
