// Writes a timeline as a Chrome trace.
//
// In:  a timeline.
// Out: one JSON object with complete events ("X") and names of rows ("M");
//      times in microseconds since the first run began.
// Not: measuring (StepTimes).
// How: rows are threads of one process. What a queue waits for and what it does
//      follow each other in its row; in the launching thread's row a run holds
//      the launches of its operations.

#include "offload/Runtime/Timeline.h"

#include "Npy.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string_view>

namespace offload::rt {

namespace {

constexpr int kLaunchRow = 1;
int rowOf(Queue queue) { return kLaunchRow + 1 + static_cast<int>(queue); }

/// Bytes of the UTF-8 sequence at the front of `text`; 0: it is none.
size_t sequenceBytes(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t bytes = lead < 0x80   ? 1
                 : lead < 0xc2 ? 0
                 : lead < 0xe0 ? 2
                 : lead < 0xf0 ? 3
                 : lead < 0xf5 ? 4
                               : 0;
  if (bytes > text.size())
    return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      return 0;
  return bytes;
}

/// A name as a JSON string. Names come from files, which may hold any bytes.
std::string quoted(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    size_t bytes = sequenceBytes(text);
    auto lead = static_cast<unsigned char>(text[0]);
    if (bytes == 0) {
      json += "\\ufffd";
    } else if (lead < 0x20) {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04x", lead);
      json += code.data();
    } else {
      if (lead == '"' || lead == '\\')
        json += '\\';
      json += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return json + "\"";
}

std::string microseconds(int64_t ns) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%s%lld.%03d", ns < 0 ? "-" : "",
                std::abs(static_cast<long long>(ns / 1000)),
                static_cast<int>(std::abs(ns % 1000)));
  return text.data();
}

class TraceWriter {
public:
  TraceWriter(std::ostream &stream, const MeasuredTimeline &timeline)
      : stream(stream), timeline(timeline),
        origin(timeline.runs.empty() ? 0 : timeline.runs.front().startNs) {}

  void write() {
    stream << "{\"traceEvents\":[\n";
    name("process_name", 0, timeline.model + " on " + timeline.device);
    name("thread_name", kLaunchRow, "launching thread");
    for (unsigned q = 0; q < kNumQueues; ++q)
      name("thread_name", rowOf(static_cast<Queue>(q)),
           queueName(static_cast<Queue>(q)));
    for (const TimedRun &run : timeline.runs) {
      writeLaunches(run);
      for (const TimedOperation &operation : run.operations)
        writeOperation(run, operation);
    }
    stream << "\n],\n\"displayTimeUnit\":\"ms\"}\n";
  }

private:
  void begin() {
    stream << (isFirst ? "" : ",\n");
    isFirst = false;
  }
  /// Names a row; rows stand in the order of their numbers.
  void name(std::string_view what, int row, std::string_view text) {
    begin();
    stream << "{\"ph\":\"M\",\"pid\":1,\"tid\":" << row << ",\"name\":\""
           << what << "\",\"args\":{\"name\":" << quoted(text) << "}}";
    if (row) {
      begin();
      stream << "{\"ph\":\"M\",\"pid\":1,\"tid\":" << row
             << ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":"
             << row << "}}";
    }
  }
  /// `args`: the inside of a JSON object.
  void slice(int row, std::string_view kind, std::string_view text,
             int64_t startNs, int64_t endNs, const std::string &args) {
    begin();
    stream << "{\"ph\":\"X\",\"pid\":1,\"tid\":" << row << ",\"cat\":\"" << kind
           << "\",\"name\":" << quoted(text)
           << ",\"ts\":" << microseconds(startNs - origin)
           << ",\"dur\":" << microseconds(endNs - startNs) << ",\"args\":{"
           << args << "}}";
  }

  void writeLaunches(const TimedRun &run) {
    std::string number = "\"run\":" + std::to_string(run.number);
    int64_t first = run.operations.empty() ? run.launchedNs
                                           : run.operations.front().launchNs;
    slice(kLaunchRow, "run", "run " + std::to_string(run.number), run.startNs,
          run.landedNs, number);
    slice(kLaunchRow, "run", "prepare", run.startNs, first, number);
    for (size_t i = 0; i < run.operations.size(); ++i) {
      const TimedOperation &operation = run.operations[i];
      int64_t end = i + 1 < run.operations.size()
                        ? run.operations[i + 1].launchNs
                        : run.launchedNs;
      slice(kLaunchRow, "launch", operation.node, operation.launchNs, end,
            number);
    }
    slice(kLaunchRow, "run", "wait for outputs", run.launchedNs, run.landedNs,
          number);
  }

  void writeOperation(const TimedRun &run, const TimedOperation &operation) {
    int row = rowOf(operation.queue);
    std::string number = "\"run\":" + std::to_string(run.number);
    for (const TimedPause &pause : operation.pauses) {
      std::string args = number + ",\"before\":" + quoted(operation.node);
      if (pause.node.empty()) {
        slice(row, "pause", "pause", pause.startNs, pause.endNs, args);
        continue;
      }
      args += ",\"waits_for\":" + quoted(pause.node) + ",\"of_run\":" +
              std::to_string(run.number - (pause.ofLastRun ? 1 : 0));
      slice(row, "stall", "wait for " + pause.node, pause.startNs, pause.endNs,
            args);
    }
    if (operation.startNs < 0)
      return;
    std::string args =
        "\"operator\":" + quoted(operation.op) + "," + number +
        ",\"launch\":" + microseconds(operation.launchNs - origin);
    if (operation.bytes)
      args += ",\"bytes\":" + std::to_string(operation.bytes);
    slice(row, queueName(operation.queue), operation.node, operation.startNs,
          operation.endNs, args);
  }

  std::ostream &stream;
  const MeasuredTimeline &timeline;
  int64_t origin;
  bool isFirst = true;
};

} // namespace

void writeChromeTrace(const std::string &path,
                      const MeasuredTimeline &timeline) {
  replaceFile(path, [&](std::ostream &stream) {
    TraceWriter(stream, timeline).write();
  });
}

} // namespace offload::rt
