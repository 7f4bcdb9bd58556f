// ThreadSanitizer over the training step: wrong orders planted in the launch
// list are reported, the right one is not, whichever queue is late.
//
// How: a planted race ends its process, so each runs in a child of this program
// (`thread-races --run PLANT QUEUE`), which is judged by its exit code and by
// what it says.

#include "../unit/Runtime/StepTraining.h"

#include "../../lib/Runtime/SessionParts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include <sys/wait.h>

namespace offload::rt {
namespace {

constexpr int kReported = 66; // TSAN_OPTIONS below
std::string programPath;

struct Plant {
  std::string name;
  std::string node;   // whose waits are dropped
  std::string report; // what the checker of orders says of it, in part
};

const std::vector<Plant> kPlants = {
    {"read-before-copied", "wait_w3", "reads 'w3_fly'"},
    {"overwritten-while-read", "stage_w3", "writes 'w3_fly'"},
    {"host-read-before-landed", "update_w3", "reads 'gw3'"},
    {"buffer-reused-while-leaving", "wait_gw3", "writes 'dw2'"},
    {"copied-before-made", "send_gw2", "reads 'dw2'"},
    {"spill-overwritten", "wait_spill_h1", "writes 'y'"},
    {"state-staged-while-updated", "stage_w1", "reads 'w1'"},
};

void dropWaits(LaunchList &list, const Plant &plant) {
  for (TimelineOp &op : list.timeline.ops)
    if (op.name == plant.node)
      op.waits.clear();
  std::vector<Violation> violations = checkTimeline(list.timeline);
  for (const Violation &violation : violations)
    if (violation.message.find(plant.report) != std::string::npos)
      return;
  throw Error("the checker finds no fault in " + plant.name);
}

/// In the child: the step, three times.
int runSteps(const std::string &plantName, const std::string &queue) {
  SessionOptions options;
  options.skipVerification = plantName != "none";
  options.poison = true;
  if (std::optional<Queue> late = parseQueue(queue))
    options.delays = {{*late, 1, 5}};
  EditLaunchList edit;
  for (const Plant &plant : kPlants)
    if (plant.name == plantName)
      edit = [plant](LaunchList &list, const Program &) {
        dropWaits(list, plant);
      };
  TestFolder folder;
  auto session = loadSession(
      writeText(readInput("step.onnxtxt"), folder / "step.off"), options, edit);
  StepReference(5).set(*session);
  for (unsigned i = 0; i < 3; ++i)
    session->run(StepReference::feeds(i, 1e-4f, true).tensors());
  session->statistics();
  return 0;
}

struct Child {
  int code = -1;
  std::string said;
};

Child runChild(const std::string &plant, const std::string &queue) {
  std::string command = "OMP_NUM_THREADS=1 TSAN_OPTIONS='halt_on_error=1 "
                        "exitcode=" +
                        std::to_string(kReported) + "' '" + programPath +
                        "' --run " + plant + " " + queue + " 2>&1";
  Child child;
  FILE *pipe = popen(command.c_str(), "r");
  std::array<char, 4096> block;
  while (size_t count = fread(block.data(), 1, block.size(), pipe))
    child.said.append(block.data(), count);
  int status = pclose(pipe);
  child.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return child;
}

class Planted : public testing::TestWithParam<Plant> {};

TEST_P(Planted, IsReported) {
  Child child = runChild(GetParam().name, "none");
  EXPECT_EQ(child.code, kReported) << child.said;
  EXPECT_NE(child.said.find("ThreadSanitizer: data race"), std::string::npos)
      << child.said;
  // Of bytes that a kernel or a copy touches, and of nothing else.
  EXPECT_TRUE(child.said.find("tellKernel") != std::string::npos ||
              child.said.find("HostDevice::copy") != std::string::npos ||
              child.said.find("HostDevice::fill") != std::string::npos)
      << child.said;
}

INSTANTIATE_TEST_SUITE_P(Races, Planted, testing::ValuesIn(kPlants),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Right : public testing::TestWithParam<std::string> {};

TEST_P(Right, IsSilentWhicheverQueueIsLate) {
  Child child = runChild("none", GetParam());
  EXPECT_EQ(child.code, 0) << child.said;
  EXPECT_EQ(child.said, "");
}

INSTANTIATE_TEST_SUITE_P(Races, Right,
                         testing::Values("none", "compute", "h2d", "d2h",
                                         "host"));

} // namespace
} // namespace offload::rt

int main(int count, char **arguments) {
  using namespace offload::rt;
  if (count == 4 && std::string(arguments[1]) == "--run") {
    try {
      return runSteps(arguments[2], arguments[3]);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  }
  programPath = arguments[0];
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
