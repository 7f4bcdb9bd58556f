// Random small graphs, scheduled by the compiler.
//
// In:  seeds.
// Out: `.off` files of form Scheduled.
// Not: training steps (TrainingSchedules).
// How: nodes pick their operands among the last few values, so there are
//      chains, branches and skips; the budget lies between the smallest one and
//      what keeps everything resident.

#include "Compiler.h"
#include "Schedules.h"

#include "offload/Analysis/PrepareForPlan.h"
#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"
#include "offload/Schedule/Planner.h"

#include "llvm/ADT/StringExtras.h"

#include <iomanip>
#include <sstream>

namespace offload::mutation {

namespace {

struct RandomGraph {
  explicit RandomGraph(uint32_t seed) : random(seed) {}

  std::string text() {
    rows = random.number(2, 6);
    width = 8 * random.number(1, 3);
    values = {"x"};
    auto count = static_cast<unsigned>(random.number(5, 11));
    for (unsigned i = 0; i < count; ++i)
      addNode(i, i + 1 == count);
    std::ostringstream text;
    std::string type =
        "float[" + std::to_string(rows) + "," + std::to_string(width) + "]";
    text << "<ir_version: 10, opset_import: [\"\": 21]>\ng (" << type
         << " x) => (" << type << " y)\n<" << weights.str() << ">\n{\n"
         << nodes.str() << "}\n";
    return text.str();
  }

private:
  std::string pick() {
    auto last = static_cast<int64_t>(values.size()) - 1;
    return values[random.number(std::max<int64_t>(0, last - 2), last)];
  }
  std::string addWeight(const std::string &name, bool isBias) {
    if (!weightNames.empty() && !isBias && random.chance(12))
      return weightNames[random.number(0, weightNames.size() - 1)];
    int64_t count = isBias ? width : width * width;
    weights << (numWeights++ ? ", " : "") << "float["
            << (isBias ? "" : std::to_string(width) + ",") << width << "] "
            << name << " = {";
    float deviation = 1 / std::sqrt(static_cast<float>(width));
    for (int64_t i = 0; i < count; ++i)
      weights << (i ? ", " : "") << std::setprecision(6) << std::fixed
              << random.real(deviation);
    weights << "}";
    if (!isBias)
      weightNames.push_back(name);
    return name;
  }
  void addNode(unsigned index, bool isLast) {
    std::string number = std::to_string(index);
    std::string result = isLast ? "y" : "v" + number;
    // The last value is read, so that all of the end matters.
    std::string operand = isLast ? values.back() : pick();
    nodes << "  [n" << number << "] " << result << " = ";
    if (isLast || random.chance(60)) {
      std::string weight = addWeight("w" + number, false);
      if (random.chance(40))
        nodes << "Gemm (" << operand << ", " << weight << ", "
              << addWeight("b" + number, true) << ")\n";
      else
        nodes << "MatMul (" << operand << ", " << weight << ")\n";
    } else if (random.chance(60)) {
      static constexpr const char *kBinary[] = {"Add", "Sub", "Mul"};
      nodes << kBinary[random.number(0, 2)] << " (" << operand << ", "
            << values.back() << ")\n";
    } else {
      static constexpr const char *kUnary[] = {"Tanh", "Sigmoid", "Neg"};
      nodes << kUnary[random.number(0, 2)] << " (" << operand << ")\n";
    }
    values.push_back(result);
  }

  Random random;
  int64_t rows = 0, width = 0;
  unsigned numWeights = 0;
  std::vector<std::string> values, weightNames;
  std::ostringstream weights, nodes;
};

/// The smallest budget for a depth, and what keeps everything resident.
std::pair<int64_t, int64_t> budgetsOf(const std::string &text,
                                      const Target &target, unsigned depth) {
  auto graph = must(importText(text, ".", {}));
  runPasses(*graph, "classify", PassContext{target, {}, 0});
  must(prepareForPlan(*graph));
  PlanModel model = must(readPlanModel(*graph));
  PlanRequest request;
  request.target = target;
  return {smallestBudget(model, target, depth).deviceMemoryBytes,
          must(makePlan(model, request)).deviceMemoryBytes};
}

} // namespace

RightSchedule compiledSchedule(const Folder &folder, uint32_t seed,
                               uint32_t choice) {
  std::string text = RandomGraph(seed).text();
  Random random(choice * 7919 + seed);
  PassContext context;
  context.target = must(Target::load("host"));
  context.depth = static_cast<unsigned>(random.number(2, 4));
  auto [smallest, largest] = budgetsOf(text, context.target, context.depth);
  // Low budgets stream most.
  int64_t most = random.chance(60) ? (3 * smallest + largest) / 4 : largest;
  context.deviceMemoryBytes =
      random.chance(20) ? smallest
                        : random.number(smallest, std::max(smallest, most));
  auto graph = must(importText(text, ".", {}));
  runPasses(*graph, "classify,assign-plan,insert-staging,insert-grad-transfer",
            context);
  RightSchedule made;
  made.name = "inference " + std::to_string(seed) + " of " +
              std::to_string(*context.deviceMemoryBytes) + " bytes, depth " +
              std::to_string(context.depth);
  made.path = folder / ("inference-" + std::to_string(seed) + "-" +
                        std::to_string(choice) + ".off");
  must(exportModel(*graph, made.path, {}));
  return made;
}

} // namespace offload::mutation
