// The table of budgets.
//
// In:  a model, a target, perhaps a budget.
// Out: one row a budget, printed as text or JSON.
// Not: the choice for each budget (Planner); what the card has free (the tool).
// How: budgets lie at even distances between the smallest that works and the
//      one that holds everything; each is planned for itself.

#include "offload/Schedule/PlanTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace offload {
namespace {

constexpr unsigned kSteps = 4; // three budgets between the ends

PlanRow makeRow(const PlanModel &model, const Plan &plan, int64_t budget) {
  const StepModel &step = plan.step(model);
  const Schedule &schedule = plan.schedule;
  PlanRow row;
  row.deviceMemoryBytes = budget;
  row.peakDeviceBytes = schedule.peakBytes;
  row.h2dBytes = h2dBytes(step, schedule);
  row.d2hBytes = d2hBytes(step);
  row.hostBytes = hostBytes(step, schedule);
  row.pinnedBytes = pinnedBytes(step, schedule);
  row.stepNs = plan.simulation.stepNs;
  row.depth = schedule.streams() ? schedule.depth : 0;
  return row;
}

bool isSamePlan(const PlanRow &a, const PlanRow &b) {
  return a.peakDeviceBytes == b.peakDeviceBytes && a.h2dBytes == b.h2dBytes &&
         a.hostBytes == b.hostBytes && a.stepNs == b.stepNs;
}

/// "12.3 GiB" with three digits that count.
std::string readable(int64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    amount /= 1024;
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f" : "%.2f", amount) << ' '
      << kUnits[unit];
  return text;
}

} // namespace

llvm::Expected<PlanTable> makePlanTable(const PlanModel &model,
                                        const PlanRequest &request) {
  PlanTable table;
  table.smallest = smallestBudget(model, request.target, request.depth);
  PlanRequest whole = request;
  whole.deviceMemoryBytes = std::nullopt;
  llvm::Expected<Plan> resident = makePlan(model, whole);
  if (!resident)
    return resident.takeError();
  const int64_t least = table.smallest.deviceMemoryBytes;
  const int64_t most = std::max(resident->deviceMemoryBytes, least);

  auto add = [&](int64_t budget, bool isGiven) -> llvm::Error {
    PlanRequest at = request;
    at.deviceMemoryBytes = budget;
    llvm::Expected<Plan> plan = makePlan(model, at);
    if (!plan)
      return plan.takeError();
    PlanRow row = makeRow(model, *plan, budget);
    row.isGiven = isGiven;
    if (isGiven || llvm::none_of(table.rows, [&](const PlanRow &other) {
          return isSamePlan(row, other);
        }))
      table.rows.push_back(row);
    return llvm::Error::success();
  };
  for (unsigned i = 0; i <= kSteps; ++i)
    if (llvm::Error error = add(least + (most - least) / kSteps * i +
                                    (i == kSteps ? (most - least) % kSteps : 0),
                                false))
      return error;
  if (request.deviceMemoryBytes)
    if (llvm::Error error = add(*request.deviceMemoryBytes, true))
      return error;
  llvm::stable_sort(table.rows, [](const PlanRow &a, const PlanRow &b) {
    return a.deviceMemoryBytes < b.deviceMemoryBytes;
  });
  return table;
}

std::string printPlanTable(const PlanTable &table,
                           std::optional<int64_t> freeBytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "smallest device memory: " << table.smallest.deviceMemoryBytes
     << " bytes";
  if (!table.smallest.node.empty())
    os << ", set by [" << table.smallest.node << "]";
  os << "\n"
     << "  device memory    peak of arena    in a step    out a step          "
        "host        pinned     step ms  depth\n";
  for (const PlanRow &row : table.rows) {
    os << llvm::right_justify(readable(row.deviceMemoryBytes), 15)
       << llvm::right_justify(readable(row.peakDeviceBytes), 17)
       << llvm::right_justify(readable(row.h2dBytes), 13)
       << llvm::right_justify(readable(row.d2hBytes), 14)
       << llvm::right_justify(readable(row.hostBytes), 14)
       << llvm::right_justify(readable(row.pinnedBytes), 14)
       << llvm::format("%12.3f", static_cast<double>(row.stepNs) / 1e6)
       << llvm::right_justify(row.depth ? std::to_string(row.depth) : "-", 7);
    if (freeBytes)
      os << (row.deviceMemoryBytes <= *freeBytes ? "  fits here"
                                                 : "  too large here");
    if (row.isGiven)
      os << "  <- --device-memory";
    os << "\n";
  }
  if (freeBytes)
    os << "the card here has " << *freeBytes << " bytes free\n";
  return text;
}

std::string planTableJson(const PlanTable &table,
                          std::optional<int64_t> freeBytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, 2);
  json.object([&] {
    json.attribute("smallest_device_memory_bytes",
                   table.smallest.deviceMemoryBytes);
    json.attribute("smallest_set_by", table.smallest.node);
    if (freeBytes)
      json.attribute("free_device_bytes", *freeBytes);
    json.attributeArray("rows", [&] {
      for (const PlanRow &row : table.rows)
        json.object([&] {
          json.attribute("device_memory_bytes", row.deviceMemoryBytes);
          json.attribute("peak_device_bytes", row.peakDeviceBytes);
          json.attribute("h2d_bytes", row.h2dBytes);
          json.attribute("d2h_bytes", row.d2hBytes);
          json.attribute("host_bytes", row.hostBytes);
          json.attribute("pinned_bytes", row.pinnedBytes);
          json.attribute("step_ns", row.stepNs);
          json.attribute("depth", row.depth);
          json.attribute("given", row.isGiven);
          if (freeBytes)
            json.attribute("fits_here", row.deviceMemoryBytes <= *freeBytes);
        });
    });
  });
  os << "\n";
  return text;
}

} // namespace offload
