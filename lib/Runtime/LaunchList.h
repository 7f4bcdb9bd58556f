// What the executor issues: operations, what each waits for, where a run ends.
//
// Made from a program and proved by the same checker as the graph; tests may
// edit one before it runs.

#ifndef OFFLOAD_LIB_RUNTIME_LAUNCHLIST_H
#define OFFLOAD_LIB_RUNTIME_LAUNCHLIST_H

#include "offload/OffFormat/HappensBefore.h"
#include "offload/Runtime/Program.h"

#include <vector>

namespace offload::rt {

struct LaunchList {
  /// Operations in issue order and the waits that are really issued. Value `i`
  /// of the timeline is value `i` of the program; after these, one for the
  /// scratch of each operation that has some.
  Timeline timeline;
  std::vector<uint32_t> nodes; // the program's node of each operation
  /// Operations whose ends make a run return: the last on each queue that
  /// reads a feed, or that reads or writes what belongs to the caller.
  std::vector<uint32_t> returnOps;
  unsigned waits = 0;        // that are issued
  unsigned droppedWaits = 0; // that others imply

  /// Counts waits and finds returnOps again, after an edit of the timeline.
  void refresh();
};

/// Builds the list and drops redundant waits. Proves nothing.
LaunchList makeLaunchList(const Program &program);

/// Throws Error with the first violation, where there is one.
void proveLaunchList(const LaunchList &list, const Program &program);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_LAUNCHLIST_H
