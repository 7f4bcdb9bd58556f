// A scheduled graph as plain data for the proof of order, and where its values
// live.

#ifndef OFFLOAD_ANALYSIS_GRAPHTIMELINE_H
#define OFFLOAD_ANALYSIS_GRAPHTIMELINE_H

#include "offload/Analysis/ValueLayout.h"
#include "offload/IR/Graph.h"
#include "offload/OffFormat/HappensBefore.h"

#include <optional>

namespace offload {

/// Where a value's bytes lie (docs/format.md, "Where values live").
enum class Home : uint8_t {
  Host,   // inputs, constants, results of d2h and host nodes
  Device, // in the arena
  Launch, // known to the launching thread before the step
  Token   // no bytes: order only
};

Home homeOf(const Graph &graph, const Value &value);

/// Whether a constant or a state is copied to the device once, at load.
bool isResident(const Value &value);

/// The next value of a state's input, or nullptr where it is no state.
Value *nextOfState(const Graph &graph, const Value &input);

/// The input of the state whose next value this output is, or nullptr.
Value *stateOfNext(const Graph &graph, const Value &output);

/// A graph input that the caller writes before each run.
bool isFeed(const Graph &graph, const Value &value);

/// The operand that a Wait or a `view=` gives another name, or nullptr. What
/// the property names is checked (ScheduleRules), not followed.
const Value *sourceOf(const Value &value);

/// The value whose bytes these are: itself, or through Waits and views another.
const Value *rootOf(const Value &value);

/// How the value lies among the root's bytes, or nothing where that cannot be
/// told (a rank that is not known, elements of less than a byte, a view that no
/// strides make).
std::optional<ValueLayout> layoutOf(const Value &value);

/// Whether the value's elements do not lie one behind the other, in order.
bool isStrided(const Value &value);

/// Whether a view on the way to the root leaves elements out.
bool isPart(const Value &value);

/// The operand whose bytes the operator may write result `index` over, or -1.
int inPlaceOperand(const Node &node, unsigned index);

/// The root whose range `inplace=` takes over, or nullptr where there is none
/// or the operator does not allow it. Its maker comes earlier.
const Value *takenOver(const Graph &graph, const Value &value);

/// How many of a copy's operands are copied; the next one is `after`.
unsigned numCopied(const Node &copy);
bool isCopy(const Node &node);

/// Whether a node reads or writes bytes on a queue: no Wait, Release, Join,
/// view or launch node.
bool runsKernel(const Node &node);

/// One operation for each node on a queue, in node order. The graph must keep
/// the rules that checkScheduleRules checks (ranges that are numbers, states
/// that pair values).
Timeline makeGraphTimeline(const Graph &graph);

} // namespace offload

#endif // OFFLOAD_ANALYSIS_GRAPHTIMELINE_H
