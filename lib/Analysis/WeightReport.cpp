// Reads from a schedule where each weight lives.
//
// In:  form Scheduled, a compiler's or written by hand.
// Out: one row a weight, as text or JSON.
// Not: deciding (Schedule/Planner): a row says what the schedule does.
// How: a resident says so itself; what a Stage copies streams; what is left is
//      read on the host.

#include "offload/Analysis/WeightReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace offload {
namespace {

unsigned countCopies(const Value &value) {
  unsigned copies = 0;
  for (const Node &node : llvm::make_pointee_range(value.users())) {
    if (!node.isOffload("Stage"))
      continue;
    for (unsigned i = 0; i < node.results().size(); ++i)
      copies += node.operand(i) == &value;
  }
  return copies;
}

const Node *findHostReader(const Weight &weight) {
  for (const Node *reader : weight.readers)
    if (reader->queue() == Queue::Host)
      return reader;
  return nullptr;
}

std::string inTimes(unsigned copies) {
  return copies == 1 ? "once" : std::to_string(copies) + " times";
}

WeightRow place(Weight weight) {
  WeightRow row;
  const Value &first = *weight.parts.front();
  row.copies = countCopies(first);
  if (first.properties.get("residency") == "resident")
    row.place = WeightPlace::Resident;
  else if (row.copies)
    row.place = WeightPlace::Streamed;
  row.weight = std::move(weight);
  return row;
}

std::string reasonFor(const WeightRow &row, bool allFits) {
  const Node *hostReader = findHostReader(row.weight);
  switch (row.place) {
  case WeightPlace::Resident:
    if (allFits)
      return "all weights fit on the device";
    if (row.weight.kind == WeightKind::Small)
      return "small: stays on the device";
    return "fits the budget: a copy a run is spared";
  case WeightPlace::Streamed: {
    std::string reason = "does not fit beside the residents: copied " +
                         inTimes(row.copies) + " a run";
    if (hostReader)
      reason += "; rows for [" + hostReader->name().str() +
                "] are looked up on the host";
    return reason;
  }
  case WeightPlace::Host:
    return hostReader ? "a large table: only the rows that [" +
                            hostReader->name().str() + "] looks up are copied"
                      : "read on the host alone";
  }
  llvm_unreachable("all places are handled");
}

std::string nodeOf(const Weight &weight) {
  return weight.readers.empty() ? "" : weight.readers.front()->name().str();
}

using Columns = std::array<std::string, 6>;

Columns columnsOf(const WeightRow &row) {
  return {row.weight.name().str(),
          nodeOf(row.weight),
          weightKindName(row.weight.kind).str(),
          std::to_string(row.weight.bytes),
          row.decision().str(),
          row.reason};
}

constexpr unsigned kBytesColumn = 3;

} // namespace

llvm::StringRef WeightRow::decision() const {
  static constexpr llvm::StringLiteral names[] = {"resident", "streamed",
                                                  "host"};
  return names[static_cast<unsigned>(place)];
}

llvm::Expected<std::vector<WeightRow>> reportWeights(const Graph &graph) {
  assert(graph.form == Form::Scheduled && "only a schedule has copies");
  llvm::Expected<std::vector<Weight>> weights = findWeights(graph);
  if (!weights)
    return weights.takeError();
  std::vector<WeightRow> rows;
  for (Weight &weight : *weights)
    rows.push_back(place(std::move(weight)));
  const bool allFits = llvm::all_of(rows, [](const WeightRow &row) {
    return row.place == WeightPlace::Resident;
  });
  for (WeightRow &row : rows)
    row.reason = reasonFor(row, allFits);
  return rows;
}

void printWeights(llvm::ArrayRef<WeightRow> rows, llvm::raw_ostream &out) {
  std::vector<Columns> lines = {
      {"name", "node", "kind", "bytes", "decision", "reason"}};
  for (const WeightRow &row : rows)
    lines.push_back(columnsOf(row));
  std::array<size_t, 6> widths = {};
  for (const Columns &line : lines)
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  for (const Columns &line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      const auto padding = static_cast<unsigned>(widths[i] - line[i].size());
      out.indent(i == kBytesColumn ? padding : 0) << line[i];
      out.indent((i == kBytesColumn ? 0 : padding) + 2);
    }
    out << line.back() << "\n";
  }
}

void printWeightsJson(llvm::ArrayRef<WeightRow> rows, llvm::raw_ostream &out) {
  llvm::json::OStream json(out, /*IndentSize=*/2);
  // Names are bytes to ONNX, but JSON is UTF-8.
  auto text = [&](llvm::StringRef key, llvm::StringRef value) {
    json.attribute(key, llvm::json::isUTF8(value) ? value.str()
                                                  : llvm::json::fixUTF8(value));
  };
  json.array([&] {
    for (const WeightRow &row : rows)
      json.object([&] {
        text("name", row.weight.name());
        text("node", nodeOf(row.weight));
        text("kind", weightKindName(row.weight.kind));
        json.attribute("bytes", row.weight.bytes);
        text("decision", row.decision());
        text("reason", row.reason);
      });
  });
  out << "\n";
}

} // namespace offload
