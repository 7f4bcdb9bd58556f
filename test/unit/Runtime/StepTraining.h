// The training step of test/Inputs/step.onnxtxt by plain loops.

#ifndef OFFLOAD_TEST_UNIT_RUNTIME_STEPTRAINING_H
#define OFFLOAD_TEST_UNIT_RUNTIME_STEPTRAINING_H

#include "OffText.h"

#include "offload/Runtime/Session.h"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace offload::rt {

using Matrix = std::vector<float>;

/// a (rows x inner) times b (inner x columns), either one transposed as stored.
inline Matrix multiply(const Matrix &a, const Matrix &b, int rows, int inner,
                       int columns, bool transA = false, bool transB = false) {
  std::vector<double> sums(size_t(rows) * columns);
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < inner; ++k) {
      double left = transA ? a[size_t(k) * rows + i] : a[size_t(i) * inner + k];
      for (int j = 0; j < columns; ++j)
        sums[size_t(i) * columns + j] +=
            left *
            (transB ? b[size_t(j) * inner + k] : b[size_t(k) * columns + j]);
    }
  return {sums.begin(), sums.end()};
}

struct StepFeeds {
  Matrix x, t;
  float lr;
  bool apply;

  TensorMap tensors() const {
    return {{"x", floats({2, 4, 1024}, x)},
            {"t", floats({8, 16}, t)},
            {"lr", scalarFloat(lr)},
            {"apply", scalarBool(apply)}};
  }
};

class StepReference {
public:
  static constexpr int kRows = 8, kWide = 1024, kOut = 16;
  std::map<std::string, Matrix> states;

  explicit StepReference(unsigned seed) {
    std::mt19937 random(seed);
    auto fill = [&](const std::string &name, size_t count, float scale) {
      std::normal_distribution<float> normal(0, scale);
      Matrix &matrix = states[name];
      for (size_t i = 0; i < count; ++i)
        matrix.push_back(normal(random));
    };
    for (const char *name : {"w1", "w2", "w3"})
      fill(name, size_t(kWide) * kWide, 1.0f / 32);
    fill("b1", kWide, 1);
    fill("head", size_t(kWide) * kOut, 1.0f / 32);
  }

  static StepFeeds feeds(unsigned seed, float lr, bool apply) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    StepFeeds feeds{{}, {}, lr, apply};
    for (int i = 0; i < kRows * kWide; ++i)
      feeds.x.push_back(normal(random));
    for (int i = 0; i < kRows * kOut; ++i)
      feeds.t.push_back(normal(random));
    return feeds;
  }

  std::vector<int64_t> dimsOf(const std::string &name) const {
    if (name == "b1")
      return {kWide};
    return {kWide, name == "head" ? kOut : kWide};
  }
  void set(Session &session) const {
    for (const auto &[name, matrix] : states)
      session.setState(name, floats(dimsOf(name), matrix));
  }

  /// Returns the loss.
  float step(const StepFeeds &f) {
    Matrix h1 = multiply(f.x, states["w1"], kRows, kWide, kWide);
    for (size_t i = 0; i < h1.size(); ++i)
      h1[i] += states["b1"][i % kWide];
    Matrix h2 = multiply(h1, states["w2"], kRows, kWide, kWide);
    Matrix y = multiply(h2, states["w3"], kRows, kWide, kWide);
    Matrix z = multiply(y, states["head"], kRows, kWide, kOut);
    double loss = 0;
    Matrix dz(z.size());
    for (size_t i = 0; i < z.size(); ++i) {
      double error = double(z[i]) - f.t[i];
      loss += error * error;
      dz[i] = static_cast<float>(2 * error);
    }
    if (!f.apply)
      return static_cast<float>(loss);
    Matrix dy = multiply(dz, states["head"], kRows, kOut, kWide, false, true);
    Matrix dh2 = multiply(dy, states["w3"], kRows, kWide, kWide, false, true);
    Matrix dh1 = multiply(dh2, states["w2"], kRows, kWide, kWide, false, true);
    std::map<std::string, Matrix> gradients;
    gradients["head"] = multiply(y, dz, kWide, kRows, kOut, true);
    gradients["w3"] = multiply(h2, dy, kWide, kRows, kWide, true);
    gradients["w2"] = multiply(h1, dh2, kWide, kRows, kWide, true);
    gradients["w1"] = multiply(f.x, dh1, kWide, kRows, kWide, true);
    Matrix &db = gradients["b1"] = Matrix(kWide, 0);
    for (size_t i = 0; i < dh1.size(); ++i)
      db[i % kWide] += dh1[i];
    for (auto &[name, state] : states)
      for (size_t i = 0; i < state.size(); ++i)
        state[i] -= f.lr * gradients[name][i];
    return static_cast<float>(loss);
  }
};

/// Largest difference over the largest magnitude.
inline double relativeError(const Matrix &got, const Matrix &want) {
  double difference = 0, scale = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    double distance = std::abs(double(got[i]) - want[i]);
    if (!(distance <= difference))
      difference = distance; // NaN too
    scale = std::max(scale, std::abs(double(want[i])));
  }
  return got.size() == want.size() ? difference / scale : 1e30;
}

} // namespace offload::rt

#endif // OFFLOAD_TEST_UNIT_RUNTIME_STEPTRAINING_H
