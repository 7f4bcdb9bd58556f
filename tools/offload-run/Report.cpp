// Prints what a session did: as JSON (docs/statistics.md) or as a table.
//
// In:  the session's statistics.
// Out: text. Both forms have the same figures under the same names.

#include "Report.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <sstream>
#include <string_view>

namespace offload::run {

namespace {

using Json = nlohmann::ordered_json;
using Figures = rt::Statistics::Figures;

struct FigureRow {
  std::string_view key;
  int64_t Figures::*figure;
};

constexpr FigureRow kFigures[] = {
    {"h2d_bytes", &Figures::h2dBytes},
    {"d2h_bytes", &Figures::d2hBytes},
    {"peak_device_bytes", &Figures::peakDeviceBytes},
    {"step_ns", &Figures::stepNs},
    {"host_bytes", &Figures::hostBytes},
    {"pinned_bytes", &Figures::pinnedBytes},
    {"scratch_bytes", &Figures::scratchBytes}};

Json figuresJson(const Figures &figures) {
  Json json;
  for (const FigureRow &row : kFigures)
    json[row.key.data()] = figures.*row.figure;
  if (figures.cardBytes >= 0)
    json["card_bytes"] = figures.cardBytes;
  return json;
}

} // namespace

std::string statisticsJson(const rt::Statistics &statistics,
                           uint64_t changedOutputs) {
  Json json;
  json["predicted"] = figuresJson(statistics.predicted);
  json["measured"] = figuresJson(statistics.measured);
  for (unsigned i = 0; i < kNumQueues; ++i) {
    const rt::QueueStatistics &queue = statistics.queues[i];
    json["queues"][std::string(queueName(static_cast<Queue>(i)))] = {
        {"operations", queue.operations},
        {"busy_ns", queue.busyNs},
        {"stall_ns", queue.stallNs}};
  }
  json["load"] = {{"total_ns", statistics.load.totalNs},
                  {"libraries_ns", statistics.load.librariesNs},
                  {"trials_ns", statistics.load.trialsNs},
                  {"weights_ns", statistics.load.weightsNs}};
  json["runs"] = statistics.runs;
  json["changed_outputs"] = changedOutputs;
  json["waits"] = statistics.waits;
  json["dropped_waits"] = statistics.droppedWaits;
  json["nondeterministic_nodes"] = statistics.nondeterministicNodes;
  return json.dump(2) + "\n";
}

std::string statisticsText(const rt::Statistics &statistics,
                           uint64_t changedOutputs) {
  std::ostringstream text;
  text << std::left << std::setw(20) << "" << std::right << std::setw(18)
       << "predicted" << std::setw(18) << "measured" << "\n";
  for (const FigureRow &row : kFigures)
    text << std::left << std::setw(20) << row.key << std::right << std::setw(18)
         << statistics.predicted.*row.figure << std::setw(18)
         << statistics.measured.*row.figure << "\n";
  if (statistics.measured.cardBytes >= 0)
    text << std::left << std::setw(20) << "card_bytes" << std::right
         << std::setw(18) << statistics.predicted.cardBytes << std::setw(18)
         << statistics.measured.cardBytes << "\n";
  text << std::left << std::setw(20) << "queue" << std::right << std::setw(18)
       << "operations" << std::setw(18) << "busy_ns" << std::setw(18)
       << "stall_ns" << "\n";
  for (unsigned i = 0; i < kNumQueues; ++i) {
    const rt::QueueStatistics &queue = statistics.queues[i];
    text << std::left << std::setw(20) << queueName(static_cast<Queue>(i))
         << std::right << std::setw(18) << queue.operations << std::setw(18)
         << queue.busyNs << std::setw(18) << queue.stallNs << "\n";
  }
  text << "load_ns " << statistics.load.totalNs << " (libraries "
       << statistics.load.librariesNs << ", trials of kernels "
       << statistics.load.trialsNs << ", beside them weights "
       << statistics.load.weightsNs << ")\n";
  text << "runs " << statistics.runs << ", changed_outputs " << changedOutputs
       << ", waits " << statistics.waits << ", dropped_waits "
       << statistics.droppedWaits << ", nondeterministic_nodes "
       << statistics.nondeterministicNodes << "\n";
  return text.str();
}

std::string outputLines(const rt::TensorMap &outputs) {
  std::string text;
  for (const auto &[name, tensor] : outputs) {
    text += name + ": " + std::string(dataTypeName(tensor.type)) + "[";
    for (size_t i = 0; i < tensor.dims.size(); ++i)
      text += (i ? "," : "") + std::to_string(tensor.dims[i]);
    text += "]\n";
  }
  return text;
}

} // namespace offload::run
