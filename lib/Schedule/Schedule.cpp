// Lays one step out in the arena and counts what it takes.
//
// In:  a step, which weights are resident, the depth.
// Out: a Schedule: uses, offsets, peak; sums over it.
// Not: the choice of residents and depth (Planner).
// How: residents lie at the bottom in order of first read, as they live for
//      ever; above them everything with a lifetime is packed at once; scratch
//      lies on top.

#include "offload/Schedule/Schedule.h"

#include "offload/Schedule/Packing.h"

#include "llvm/ADT/Twine.h"

#include <algorithm>

namespace offload {
namespace {

int64_t residentBytes(const StepModel &step,
                      const std::vector<bool> &resident) {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (resident[i])
      bytes += step.weights[i].bytes();
  return bytes;
}

/// Uses, then staged values, then temporaries. What lives to the end of the
/// step is in use one position past the last node.
std::vector<PackItem> packItems(const StepModel &step,
                                const std::vector<StagedUse> &uses) {
  std::vector<PackItem> items;
  for (const StagedUse &use : uses)
    items.push_back(
        {step.weights[use.weight].bytes(), use.after + 1, use.last});
  for (const StepModel::Staged &staged : step.staged)
    items.push_back({staged.bytes, 0, staged.last});
  for (const StepModel::Temporary &value : step.temporaries)
    items.push_back({value.bytes, value.first, value.last});
  return items;
}

int64_t partBytes(const StepModel::Weight &weight) {
  int64_t bytes = 0;
  for (const StepModel::Part &part : weight.parts)
    bytes += part.bytes;
  return bytes;
}

} // namespace

Schedule layOut(const StepModel &step, std::vector<bool> resident,
                unsigned depth, int64_t enoughBytes) {
  Schedule schedule;
  schedule.depth = depth;
  schedule.uses = planUses(step, resident, depth);
  schedule.residentOffsets.assign(step.weights.size(), 0);
  int64_t base = 0;
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (resident[i]) {
      schedule.residentOffsets[i] = base;
      base += step.weights[i].bytes();
    }
  schedule.resident = std::move(resident);
  schedule.scratchBytes = step.scratchBytes();

  const std::vector<PackItem> items = packItems(step, schedule.uses);
  const Packing packing = pack(
      items, std::max<int64_t>(0, enoughBytes - base - schedule.scratchBytes));
  size_t next = 0;
  for (StagedUse &use : schedule.uses)
    use.offset = base + packing.offsets[next++];
  for (size_t i = 0; i < step.staged.size(); ++i)
    schedule.stagedOffsets.push_back(base + packing.offsets[next++]);
  for (size_t i = 0; i < step.temporaries.size(); ++i)
    schedule.temporaryOffsets.push_back(base + packing.offsets[next++]);
  schedule.scratchOffset = base + packing.peakBytes;
  schedule.peakBytes = schedule.scratchOffset + schedule.scratchBytes;
  return schedule;
}

int64_t peakBound(const StepModel &step, const std::vector<bool> &resident,
                  unsigned depth) {
  return residentBytes(step, resident) + step.scratchBytes() +
         liveBytesBound(packItems(step, planUses(step, resident, depth)));
}

std::vector<int64_t> liveBytes(const StepModel &step,
                               const Schedule &schedule) {
  std::vector<int64_t> change(step.nodes.size() + 1, 0);
  for (const PackItem &item : packItems(step, schedule.uses)) {
    change[item.first] += alignUp(item.bytes);
    if (item.last + 1 < step.end())
      change[item.last + 1] -= alignUp(item.bytes);
  }
  std::vector<int64_t> live;
  int64_t now = residentBytes(step, schedule.resident);
  for (size_t at = 0; at < step.nodes.size(); ++at)
    live.push_back(now += change[at]);
  return live;
}

std::string peakNode(const StepModel &step, const Schedule &schedule) {
  std::vector<int64_t> live = liveBytes(step, schedule);
  if (live.empty())
    return "";
  size_t at = std::max_element(live.begin(), live.end()) - live.begin();
  return step.nodes[at].name;
}

int64_t h2dBytes(const StepModel &step, const Schedule &schedule) {
  int64_t bytes = 0;
  for (const StagedUse &use : schedule.uses)
    bytes += partBytes(step.weights[use.weight]);
  for (const StepModel::Staged &staged : step.staged)
    bytes += staged.bytes;
  return bytes;
}

int64_t d2hBytes(const StepModel &step) {
  int64_t bytes = 0;
  for (const StepModel::Output &output : step.outputs)
    bytes += output.bytes;
  return bytes;
}

int64_t pinnedBytes(const StepModel &step, const Schedule &schedule) {
  int64_t bytes = d2hBytes(step);
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (!schedule.resident[i])
      bytes += step.weights[i].bytes();
  for (const StepModel::Staged &staged : step.staged)
    bytes += staged.bytes;
  return bytes;
}

int64_t hostBytes(const StepModel &step, const Schedule &schedule) {
  int64_t bytes = pinnedBytes(step, schedule) + step.hostOutputBytes;
  std::vector<std::string> counted;
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (!schedule.resident[i])
      for (const StepModel::Part &part : step.weights[i].parts)
        counted.push_back(part.name);
  for (const StepModel::Lookup &lookup : step.lookups) {
    if (std::find(counted.begin(), counted.end(), lookup.table) !=
        counted.end())
      continue;
    counted.push_back(lookup.table);
    bytes += lookup.tableBytes;
  }
  return bytes;
}

std::string Schedule::dump(const StepModel &step) const {
  std::string text =
      ("depth " + llvm::Twine(depth) + ", peak " + llvm::Twine(peakBytes) +
       ", scratch " + llvm::Twine(scratchBytes) + " at " +
       llvm::Twine(scratchOffset) + "\n")
          .str();
  auto line = [&](const llvm::Twine &entry) { text += (entry + "\n").str(); };
  for (size_t i = 0; i < step.weights.size(); ++i)
    if (resident[i])
      line("resident " + step.weights[i].name() + " at " +
           llvm::Twine(residentOffsets[i]));
  for (size_t i = 0; i < step.staged.size(); ++i)
    line("staged " + step.staged[i].name + " at " +
         llvm::Twine(stagedOffsets[i]));
  for (const StagedUse &use : uses)
    line("use " + step.weights[use.weight].name() + " " +
         llvm::Twine(use.first) + ".." + llvm::Twine(use.last) + " after " +
         llvm::Twine(use.after) + " at " + llvm::Twine(use.offset));
  for (size_t i = 0; i < step.temporaries.size(); ++i)
    line("value " + step.temporaries[i].name + " " +
         llvm::Twine(step.temporaries[i].first) + ".." +
         llvm::Twine(step.temporaries[i].last) + " at " +
         llvm::Twine(temporaryOffsets[i]));
  return text;
}

} // namespace offload
