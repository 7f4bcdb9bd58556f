// Checks where values lie, and what lives from step to step.
//
// In:  form Scheduled.
// Out: one line for each broken rule.
// Not: what nodes read and where they run (ScheduleRules); bytes that meet
//      (GraphTimeline and OffFormat/HappensBefore).
// How: ranges value by value; states pair by pair; then outputs and sums.

#include "PlaceRules.h"

#include "offload/Analysis/GraphTimeline.h"
#include "offload/Analysis/ScheduleRules.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace offload {

/// Sums of an offset and a size must not wrap around.
static bool isRange(const Properties &range) {
  int64_t offset = range.getInt("offset").value_or(-1);
  int64_t bytes = range.getInt("bytes").value_or(-1);
  constexpr int64_t most = INT64_MAX / 2;
  return offset >= 0 && bytes >= 0 && offset <= most && bytes <= most - offset;
}

void PlaceRules::refuse(const Node &node, const llvm::Twine &what) {
  report("[" + node.name() + "] " + what);
}

void PlaceRules::checkWhole() {
  for (const Value *input : graph.inputs()) {
    checkLoaded(*input);
    if (const Value *next = nextOfState(graph, *input))
      checkState(*input, *next);
  }
  for (const Value *constant : graph.initializers())
    checkLoaded(*constant);
  for (const Value *output : graph.outputs())
    if (!stateOfNext(graph, *output))
      checkOutput(*output);
  checkScratchRange();
  checkPeak();
}

std::optional<Properties> PlaceRules::scratchRange() const {
  auto property = graph.modelProperties.find(std::string(kScratchKey));
  return property == graph.modelProperties.end()
             ? std::nullopt
             : Properties::parse(property->second);
}

void PlaceRules::checkScratch(const Node &node) {
  if (!node.properties.has("scratch"))
    return;
  int64_t bytes = node.properties.getInt("scratch").value_or(-1);
  std::optional<Properties> range = scratchRange();
  int64_t all = range ? range->getInt("bytes").value_or(0) : 0;
  if (bytes < 0)
    refuse(node,
           "takes scratch=" + llvm::StringRef(node.properties.get("scratch")) +
               ", which is no number of bytes");
  else if (runsKernel(node) && node.queue() == Queue::Compute && bytes > all)
    refuse(node, "takes " + llvm::Twine(bytes) + " bytes of scratch, and " +
                     kScratchKey + " has " + llvm::Twine(all));
}

void PlaceRules::checkScratchRange() {
  auto property = graph.modelProperties.find(std::string(kScratchKey));
  if (property == graph.modelProperties.end())
    return;
  std::optional<Properties> range = scratchRange();
  if (!range || !isRange(*range))
    report(llvm::Twine(kScratchKey) + " is '" + property->second +
           "', which is no range of two numbers");
  else if (*range->getInt("offset") % kAlignBytes)
    report(llvm::Twine(kScratchKey) + " lies at " +
           llvm::Twine(*range->getInt("offset")) +
           ", which is no multiple of " + llvm::Twine(kAlignBytes));
}

/// Whether the value must have a range of its own.
bool PlaceRules::ownsBytes(const Value &value) const {
  if (homeOf(graph, value) != Home::Device || value.properties.has("inplace") ||
      rootOf(value) != &value)
    return false;
  return !value.definingNode() || !value.users().empty() ||
         graph.isOutput(&value) || isCopy(*value.definingNode());
}

std::string PlaceRules::describe(const Value &value) const {
  const Node *maker = value.definingNode();
  if (!maker)
    return ("'" + value.name() + "'").str();
  return ("[" + maker->name() + "] makes '" + value.name() + "', which").str();
}

/// Inputs and constants: nothing makes them, and only load moves them.
void PlaceRules::checkLoaded(const Value &value) {
  for (const char *key : {"view", "inplace"})
    if (value.properties.has(key))
      report(describe(value) + " is made by no node, and has " + key + "=" +
             std::string(value.properties.get(key)));
  if (isResident(value) && isFeed(graph, value))
    report(describe(value) + " is resident, but fed before each run: stage it");
  checkRange(value);
}

void PlaceRules::checkRange(const Value &value) {
  std::string maker = describe(value);
  if (value.definingNode() && value.properties.get("residency") == "resident")
    report(maker + " is resident, but neither a constant nor a state");
  if (!value.properties.has("offset") && !value.properties.has("bytes")) {
    if (ownsBytes(value))
      report(maker + " has no place on the device");
  } else if (homeOf(graph, value) != Home::Device) {
    report(maker + " has a place on the device, but does not lie there");
  } else if (rootOf(value) != &value || value.properties.has("inplace")) {
    report(maker + " has a place of its own, but only names bytes of another");
  } else if (!isRange(value.properties)) {
    report(maker + " has no range of two numbers: give offset and bytes");
  } else {
    checkBytes(value, maker);
  }
}

void PlaceRules::checkBytes(const Value &value, const std::string &maker) {
  int64_t offset = *value.properties.getInt("offset");
  int64_t bytes = *value.properties.getInt("bytes");
  if (offset % kAlignBytes)
    report(maker + " lies at " + llvm::Twine(offset) +
           ", which is no multiple of " + llvm::Twine(kAlignBytes));
  if (!value.type.isBounded())
    report(maker + " has a size without a bound, so no place can hold it");
  else if (bytes < value.type.bytesAtBound())
    report(maker + " takes " + llvm::Twine(value.type.bytesAtBound()) +
           " bytes, and its place has " + llvm::Twine(bytes));
}

void PlaceRules::checkState(const Value &input, const Value &next) {
  std::string where = ("state '" + input.name() + "'").str();
  const Node *maker = next.definingNode();
  if (!maker) {
    report(where + " gets its next value '" + next.name() + "' from no node");
    return;
  }
  if (input.type.elem != next.type.elem ||
      (input.type.hasRank && next.type.hasRank &&
       input.type.dims != next.type.dims))
    report(where + " and its next value '" + next.name() +
           "' are of different types");
  Home home = homeOf(graph, input);
  if (home == Home::Token)
    return;
  if (!llvm::all_of(input.type.dims, [](Dim dim) { return dim.isStatic(); }))
    report(where + " has a size that is not fixed");
  if (home == Home::Device) {
    const Value *taken = rootOf(next);
    while (taken && taken != &input)
      taken = takenOver(graph, *taken);
    if (!taken || isStrided(next) || isPart(next))
      report(where + " is resident, so [" + maker->name() + "] must make '" +
             next.name() + "' in its place: inplace=" + input.name());
  } else if (rootOf(next) != &next) {
    report(where + " gets its next value '" + next.name() + "' from [" +
           maker->name() + "], which only names bytes of '" +
           rootOf(next)->name() + "'");
  } else if (home == Home::Host && homeOf(graph, next) != Home::Host) {
    report(where + " is on the host, and its next value '" + next.name() +
           "' is not: fetch it");
  }
}

void PlaceRules::checkOutput(const Value &output) {
  Home home = homeOf(graph, output);
  const Node *maker = output.definingNode();
  // A resident constant has its source on the host, which is what is given.
  if (home == Home::Device && !output.isConstant())
    report("output '" + output.name() + "'" +
           (maker ? " of [" + maker->name() + "]" : llvm::Twine()) +
           " is left on the device: a Fetch is missing");
  else if (home == Home::Token)
    report("output '" + output.name() +
           "' is a token, and no state's next value");
  else if (rootOf(output) != &output)
    report("output '" + output.name() + "' only names bytes of '" +
           rootOf(output)->name() + "'");
  else if (nextOfState(graph, output))
    report("output '" + output.name() +
           "' is a state, which the step overwrites: copy it");
}

int64_t PlaceRules::number(std::string_view key) {
  auto property = graph.modelProperties.find(std::string(key));
  if (property == graph.modelProperties.end())
    return -1;
  int64_t value = -1;
  if (!llvm::StringRef(property->second).getAsInteger(10, value) && value >= 0)
    return value;
  report(llvm::Twine(key) + " is '" + property->second +
         "', which is no number of bytes");
  return -1;
}

void PlaceRules::checkPeak() {
  int64_t end = alignUp(largestEnd(graph));
  int64_t peak = number(kPeakBytesKey), budget = number(kDeviceMemoryKey);
  if (peak >= 0 && peak != end)
    report("ranges end at " + llvm::Twine(end) + " bytes, and " +
           kPeakBytesKey + " is " + llvm::Twine(peak));
  if (budget >= 0 && end + reservedBytes > budget)
    report("ranges end at " + llvm::Twine(end) + " bytes" +
           (reservedBytes ? " beside " + std::to_string(reservedBytes) +
                                " that the target reserves"
                          : std::string()) +
           ", over the device memory of " + llvm::Twine(budget));
}

int64_t largestEnd(const Graph &graph) {
  int64_t end = 0;
  auto extend = [&end](const Properties &range) {
    if (isRange(range))
      end = std::max(end, *range.getInt("offset") + *range.getInt("bytes"));
  };
  for (const Value *input : graph.inputs())
    extend(input->properties);
  for (const Value *constant : graph.initializers())
    extend(constant->properties);
  for (const Node &node : graph.nodeList())
    for (const Value *result : node.results())
      if (result)
        extend(result->properties);
  auto scratch = graph.modelProperties.find(std::string(kScratchKey));
  if (scratch != graph.modelProperties.end())
    if (std::optional<Properties> range = Properties::parse(scratch->second))
      extend(*range);
  return end;
}

} // namespace offload
