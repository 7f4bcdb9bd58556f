// The verifier against schedules that are wrong, and against right ones.
//
// In:  right schedules (Schedules), mutants of them (Mutants).
// Out: for each shape of race a case: enough mutants whose runs give other
//      bytes, all of them refused. For right schedules: none refused, and
//      delays change no byte. A table of the counts at the end.
// How: a mutant counts only where a run of it, with a queue delayed or freed
//      places filled, gives other bytes than the right schedule. One that
//      verify-schedule (graph) or checkTimeline (launch list) accepts and that
//      does so is a fault of the verifier. Mutants are tried in a random order
//      of fixed seed, until enough of a shape have counted.

#include "Compiler.h"
#include "Mutants.h"
#include "Runs.h"
#include "Schedules.h"

#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

namespace offload::mutation {
namespace {

constexpr unsigned kLeastOfShape = 50, kEnoughOfShape = 60, kLeastInAll = 500;
constexpr unsigned kRightInAll = 500;

struct Counts {
  unsigned tried = 0;    // mutants that were judged and run
  unsigned notRun = 0;   // of these, the runtime cannot run
  unsigned counted = 0;  // a delayed or poisoned run gives other bytes
  unsigned training = 0; // of the counted, made from training schedules
  unsigned byOrder = 0;  // of the counted, refused by the proof of order
  unsigned byRule = 0;   // of the counted, refused by a rule about one node
  unsigned accepted = 0; // of the counted; must be none
};
std::map<Shape, Counts> countsOfShapes;
unsigned rightInference = 0, rightTraining = 0;

struct Base {
  RightSchedule schedule;
  bool trains = false;
  std::string bytes; // of a run without delays
};

/// The schedules that mutants are made of, made once.
class BaseSet {
public:
  static const BaseSet &get() {
    static const BaseSet bases;
    return bases;
  }
  std::vector<Base> all;
  Folder folder;

private:
  BaseSet() {
    constexpr unsigned kOfEachKind = 40;
    for (unsigned i = 0; i < kOfEachKind; ++i) {
      all.push_back({compiledSchedule(folder, i, 0), false, {}});
      all.push_back({trainingSchedule(folder, i), true, {}});
    }
    inParallel(all.size(), [&](size_t i) {
      all[i].bytes = bytesOf(all[i].schedule.path, {});
    });
  }
};

struct Candidate {
  const Base *base;
  Mutant mutant;
};

std::vector<Candidate> candidatesOf(Shape shape) {
  Random random(kSeed + static_cast<uint32_t>(shape));
  std::vector<Candidate> candidates;
  for (const Base &base : BaseSet::get().all) {
    std::vector<Mutant> mutants;
    if (isOfGraph(shape)) {
      auto graph = must(importModel(base.schedule.path, {}));
      mutants = graphMutants(shape, *graph, random);
    } else {
      mutants = launchMutants(
          shape, rt::makeLaunchList(rt::Program::read(base.schedule.path, {})));
    }
    for (Mutant &mutant : mutants)
      candidates.push_back({&base, std::move(mutant)});
  }
  std::shuffle(candidates.begin(), candidates.end(), random.engine);
  return candidates;
}

/// A mutant with what the verifier says of it, ready to run.
struct Trial {
  const Candidate *candidate = nullptr;
  std::string path;
  Verdict verdict;
  /// The runtime, which proves its own list of launches, refuses it too.
  bool refusedAtLoad = false;
  bool changes = false;
  std::string change; // by which probe
  std::string error;  // it cannot run
};

/// What the runtime's proof says of a file and an edit of its launch list.
std::string launchRefusal(const std::string &path,
                          const std::function<void(rt::LaunchList &)> &edit) {
  try {
    rt::LaunchList list = rt::makeLaunchList(rt::Program::read(path, {}));
    if (edit) {
      edit(list);
      list.refresh();
    }
    for (const Violation &violation : checkTimeline(list.timeline, 1))
      return violation.message;
  } catch (const rt::Error &error) {
    return error.what();
  }
  return "";
}

Trial judge(const Candidate &candidate, unsigned number) {
  Trial trial;
  trial.candidate = &candidate;
  trial.path = candidate.base->schedule.path;
  if (candidate.mutant.editGraph) {
    auto graph = must(importModel(trial.path, {}));
    candidate.mutant.editGraph(*graph);
    trial.verdict = verdictOn(*graph);
    trial.path =
        BaseSet::get().folder / ("mutant-" + std::to_string(number) + ".off");
    must(exportModel(*graph, trial.path, {}));
    trial.refusedAtLoad = !launchRefusal(trial.path, nullptr).empty();
  } else {
    trial.verdict = {launchRefusal(trial.path, candidate.mutant.editList),
                     true};
    trial.refusedAtLoad = !trial.verdict.refusal.empty();
  }
  return trial;
}

/// Looks for a probe by which the mutant's bytes differ.
void run(Trial &trial) {
  rt::EditLaunchList edit;
  if (trial.candidate->mutant.editList)
    edit = [&](rt::LaunchList &list, const rt::Program &) {
      trial.candidate->mutant.editList(list);
    };
  try {
    for (const Probe &probe : probes())
      if (bytesOf(trial.path, probe, edit) != trial.candidate->base->bytes) {
        trial.changes = true;
        trial.change = describe(probe);
        return;
      }
  } catch (const std::exception &error) {
    trial.error = error.what();
  }
}

void add(const Trial &trial, Counts &counts) {
  ++counts.tried;
  counts.notRun += !trial.error.empty();
  if (!trial.changes)
    return;
  ++counts.counted;
  counts.training += trial.candidate->base->trains;
  const Verdict &verdict = trial.verdict;
  bool isAccepted = verdict.refusal.empty() || !trial.refusedAtLoad;
  ++(isAccepted             ? counts.accepted
     : verdict.isAboutOrder ? counts.byOrder
                            : counts.byRule);
  EXPECT_FALSE(isAccepted) << "bytes change (" << trial.change << "), and "
                           << (verdict.refusal.empty() ? "the verifier"
                                                       : "the runtime")
                           << " accepts: "
                           << trial.candidate->base->schedule.name << ", "
                           << trial.candidate->mutant.what;
}

class Mutants : public testing::TestWithParam<Shape> {};

TEST_P(Mutants, AreAllRefused) {
  constexpr size_t kBatch = 20;
  std::vector<Candidate> candidates = candidatesOf(GetParam());
  Counts &counts = countsOfShapes[GetParam()];
  for (size_t at = 0; at < candidates.size() && counts.counted < kEnoughOfShape;
       at += kBatch) {
    std::vector<Trial> trials;
    for (size_t i = at; i < std::min(at + kBatch, candidates.size()); ++i)
      trials.push_back(judge(candidates[i], static_cast<unsigned>(i - at)));
    inParallel(trials.size(), [&](size_t i) { run(trials[i]); });
    for (const Trial &trial : trials)
      add(trial, counts);
  }
  EXPECT_GE(counts.counted, kLeastOfShape)
      << "of " << candidates.size() << " candidates";
}

std::string caseName(const testing::TestParamInfo<Shape> &info) {
  static constexpr const char *kNames[] = {
      "DropAfter",    "MoveStageUp", "ReleaseEarly", "RangesMeet",
      "SwapNodes",    "FreeEarly",   "DropWait",     "ReadLanding",
      "CopyOutEarly", "SwapLaunches"};
  return kNames[static_cast<unsigned>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Shapes, Mutants, testing::ValuesIn(kShapes), caseName);

//===-- Right schedules ---------------------------------------------------===//

constexpr unsigned kInGroup = 50;

class RightSchedules : public testing::TestWithParam<unsigned> {};

/// Verdicts of the graph and of the launch list.
void expectAccepted(const RightSchedule &schedule) {
  auto graph = must(importModel(schedule.path, {}));
  EXPECT_EQ(verdictOn(*graph).refusal, "") << schedule.name;
  EXPECT_EQ(launchRefusal(schedule.path, nullptr), "") << schedule.name;
}

TEST_P(RightSchedules, AreAcceptedAndDelaysChangeNothing) {
  Folder folder;
  std::vector<RightSchedule> schedules;
  for (unsigned i = 0; i < kInGroup; ++i) {
    unsigned number = 1000 + GetParam() * kInGroup + i;
    // Five plans for each graph.
    bool trains = GetParam() % 2;
    schedules.push_back(trains ? trainingSchedule(folder, number)
                               : compiledSchedule(folder, number / 5, number));
    expectAccepted(schedules.back());
    ++(trains ? rightTraining : rightInference);
  }
  std::vector<char> same(schedules.size(), false);
  inParallel(schedules.size(), [&](size_t i) {
    const std::string &path = schedules[i].path;
    Probe probe = {static_cast<Queue>(i % kNumQueues), 0.5, true, i + 1};
    same[i] = bytesOf(path, {}) == bytesOf(path, probe);
  });
  for (size_t i = 0; i < schedules.size(); ++i)
    EXPECT_TRUE(same[i]) << schedules[i].name;
}
/// Bytes that cannot change, or that hide a change, would show nothing.
void expectNumbers(const Base &base) {
  ASSERT_GT(base.bytes.size(), 0u) << base.schedule.name;
  std::vector<float> numbers(base.bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), base.bytes.data(),
              numbers.size() * sizeof(float));
  EXPECT_TRUE(std::all_of(numbers.begin(), numbers.end(), [](float number) {
    return std::isfinite(number);
  })) << base.schedule.name;
}

TEST(Bases, AreAcceptedAndNoProbeChangesThem) {
  const std::vector<Base> &bases = BaseSet::get().all;
  for (const Base &base : bases) {
    expectAccepted(base.schedule);
    expectNumbers(base);
  }
  size_t count = probes().size();
  std::vector<char> same(bases.size() * count, false);
  inParallel(same.size(), [&](size_t i) {
    const Base &base = bases[i / count];
    same[i] = bytesOf(base.schedule.path, probes()[i % count]) == base.bytes;
  });
  for (size_t i = 0; i < same.size(); ++i)
    EXPECT_TRUE(same[i]) << bases[i / count].schedule.name << ", "
                         << describe(probes()[i % count]);
}

INSTANTIATE_TEST_SUITE_P(Groups, RightSchedules,
                         testing::Range(0u, kRightInAll / kInGroup));

//===-- The table ---------------------------------------------------------===//

class Table : public testing::Environment {
public:
  void TearDown() override {
    std::printf("\n%-30s %-6s %6s %8s %8s %9s %8s %8s %8s\n", "mutants",
                "level", "tried", "cannot", "counted", "of which", "refused",
                "refused", "accepted");
    std::printf("%-30s %-6s %6s %8s %8s %9s %8s %8s\n", "", "", "", "run", "",
                "training", "by order", "by rule");
    Counts all;
    for (const auto &[shape, counts] : countsOfShapes) {
      print(nameOf(shape), isOfGraph(shape) ? "graph" : "launch", counts);
      all.tried += counts.tried;
      all.notRun += counts.notRun;
      all.counted += counts.counted;
      all.training += counts.training;
      all.byOrder += counts.byOrder;
      all.byRule += counts.byRule;
      all.accepted += counts.accepted;
    }
    print("all", "", all);
    std::printf("right schedules: %u inference, %u training\n", rightInference,
                rightTraining);
    // Some cases may have been left out on the command line.
    bool isWhole = countsOfShapes.size() == std::size(kShapes);
    EXPECT_TRUE(!isWhole || all.counted >= kLeastInAll) << all.counted;
  }

private:
  static void print(const char *name, const char *level, const Counts &counts) {
    std::printf("%-30s %-6s %6u %8u %8u %9u %8u %8u %8u\n", name, level,
                counts.tried, counts.notRun, counts.counted, counts.training,
                counts.byOrder, counts.byRule, counts.accepted);
  }
};
testing::Environment *const table =
    testing::AddGlobalTestEnvironment(new Table);

} // namespace
} // namespace offload::mutation
