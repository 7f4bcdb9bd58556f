// Every way in which a right schedule is made wrong, by the shape of the race.

#ifndef OFFLOAD_TEST_MUTATION_MUTANTS_H
#define OFFLOAD_TEST_MUTATION_MUTANTS_H

#include "Schedules.h"

#include "../../lib/Runtime/LaunchList.h"

#include "offload/IR/Graph.h"

#include <functional>
#include <string>
#include <vector>

namespace offload::mutation {

enum class Shape {
  // Of the graph.
  DropAfter,    // a Stage no longer waits for its place, or for the border
  MoveStageUp,  // a Stage is issued before another one, with an older token
  ReleaseEarly, // a Release before the last reader; an older token than needed
  RangesMeet,   // a value is put onto the bytes of another
  SwapNodes,    // two nodes of a queue change places
  FreeEarly, // a gradient's or a spill's place is reused before its copy ends
  // Of the launch list.
  DropWait,     // compute, or a copy in, starts too early
  ReadLanding,  // the host or a copy back reads before a copy out has landed
  CopyOutEarly, // a copy out starts before its producer has ended
  SwapLaunches  // two operations of a queue change places
};
inline constexpr Shape kShapes[] = {Shape::DropAfter,    Shape::MoveStageUp,
                                    Shape::ReleaseEarly, Shape::RangesMeet,
                                    Shape::SwapNodes,    Shape::FreeEarly,
                                    Shape::DropWait,     Shape::ReadLanding,
                                    Shape::CopyOutEarly, Shape::SwapLaunches};

const char *nameOf(Shape shape);
bool isOfGraph(Shape shape);

/// One edit. Exactly one of the two functions is set; both may be called any
/// number of times, on the schedule that the mutant was made from.
struct Mutant {
  std::string what; // "[stage_w3] without its after"
  std::function<void(Graph &)> editGraph;
  std::function<void(rt::LaunchList &)> editList;
};

/// All mutants of one shape, a sample of them where there are very many. None
/// breaks the topological order of nodes or leaves the arena.
std::vector<Mutant> graphMutants(Shape shape, const Graph &graph,
                                 Random &random);
std::vector<Mutant> launchMutants(Shape shape, const rt::LaunchList &list);

} // namespace offload::mutation

#endif // OFFLOAD_TEST_MUTATION_MUTANTS_H
