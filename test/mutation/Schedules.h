// Right schedules in files: what mutants are made of.
//
// Inference ones come from the compiler, at random budgets and depths;
// training ones are variants of test/Inputs/step.onnxtxt, right by how they are
// built, whatever a verifier says of them.

#ifndef OFFLOAD_TEST_MUTATION_SCHEDULES_H
#define OFFLOAD_TEST_MUTATION_SCHEDULES_H

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

namespace offload::mutation {

/// Fixed, so that every run of the test makes the same schedules and mutants.
inline constexpr uint32_t kSeed = 20240611;

class Random {
public:
  explicit Random(uint32_t seed) : engine(seed) {}
  /// From `least` to `most`, both included.
  int64_t number(int64_t least, int64_t most) {
    auto count = static_cast<uint64_t>(most - least + 1);
    return least + static_cast<int64_t>(engine() % count);
  }
  bool chance(unsigned percent) { return number(1, 100) <= percent; }
  /// Roughly normal, with the given standard deviation.
  float real(float deviation) {
    double sum = 0;
    for (int i = 0; i < 12; ++i)
      sum += static_cast<double>(engine()) / 4294967296.0;
    return static_cast<float>((sum - 6) * deviation);
  }
  std::mt19937 engine;
};

/// A folder of its own, gone with the object.
class Folder {
public:
  Folder();
  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string operator/(const std::string &name) const {
    return (path / name).string();
  }

private:
  std::filesystem::path path;
};

struct RightSchedule {
  std::string name; // "inference 7 of 5632 bytes, depth 2"
  std::string path;
};

/// A random graph of linear and elementwise nodes over float[rows,width], made
/// from `seed`, scheduled for a random budget and depth made from `choice`.
/// Throws rt::Error with the compiler's message.
RightSchedule compiledSchedule(const Folder &folder, uint32_t seed,
                               uint32_t choice);

/// A training step of some Linears in ONNX's text: sizes, biases, places that
/// weights and gradients share, spills, offsets and node order from `seed`.
std::string trainingText(uint32_t seed);

/// That, read and written by the compiler's front and back ends alone.
RightSchedule trainingSchedule(const Folder &folder, uint32_t seed);

} // namespace offload::mutation

#endif // OFFLOAD_TEST_MUTATION_SCHEDULES_H
