// Runs a schedule, right or wrong, and compares bytes.

#ifndef OFFLOAD_TEST_MUTATION_RUNS_H
#define OFFLOAD_TEST_MUTATION_RUNS_H

#include "../../lib/Runtime/SessionParts.h"

#include <functional>
#include <string>
#include <vector>

namespace offload::mutation {

/// What a run is tried with: one queue slowed down, freed places filled.
struct Probe {
  Queue queue = Queue::Compute;
  double milliseconds = 0; // before each operation; 0: no delay
  bool poison = false;
  uint64_t seed = 0; // as in rt::QueueDelay
};

/// Each queue delayed in turn, with poison and without.
const std::vector<Probe> &probes();
std::string describe(const Probe &probe);

/// The bytes of all outputs of three steps and of all states at the end, from
/// fixed random feeds and first states. The order of a schedule is not proved:
/// a wrong one gives other bytes. Throws rt::Error where it cannot run.
std::string bytesOf(const std::string &path, const Probe &probe,
                    const rt::EditLaunchList &edit = nullptr);

/// Calls `body` with 0 to count - 1 on several threads: most of a delayed run
/// is sleep.
void inParallel(size_t count, const std::function<void(size_t)> &body);

} // namespace offload::mutation

#endif // OFFLOAD_TEST_MUTATION_RUNS_H
