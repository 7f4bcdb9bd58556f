// One step of a graph as the planner sees it: plain data, no pointers.
//
// A position is the index of a node among the nodes of the compute queue, in
// node order; it is the clock by which lifetimes are counted. Nodes that run on
// the host or the launching thread have none.

#ifndef OFFLOAD_SCHEDULE_STEPMODEL_H
#define OFFLOAD_SCHEDULE_STEPMODEL_H

#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace offload {

/// A table of at least this many bytes may be looked up on the host.
inline constexpr int64_t kHostTableBytes = 64 * 1024;

struct StepModel {
  struct ComputeNode {
    std::string name;
    std::string result; // its first result
    double flops = 0;
    bool halfPrecision = false;
    int64_t touchedBytes = 0; // operands and results; 0 for a view
    int64_t scratchBytes = 0;
    bool isView = false;
  };

  /// What a compute node makes and owns bytes for.
  struct Temporary {
    std::string name;
    int64_t bytes = 0;
    int32_t first = 0, last = 0; // positions; `last` end() where it is fetched
  };

  struct Part {
    std::string name; // of the constant
    int64_t bytes = 0;
    std::vector<int32_t> readAt; // nodes that name it as operand, views too
  };

  /// Positions from one read to the last read through the same view.
  struct Read {
    int32_t first = 0, last = 0;
  };

  /// One to four constants that travel in one copy and live in one place.
  struct Weight {
    std::vector<Part> parts; // the first names the weight
    std::vector<Read> reads; // ascending by `first`
    std::string kind;        // "linear", ...: as the reading node's property
    bool staysResident = false;
    /// The host looks rows up in it: then its home is there, and other readers
    /// get copies.
    bool staysOnHost = false;
    /// Each part at the next multiple of kAlignBytes.
    int64_t bytes() const;
    const std::string &name() const { return parts.front().name; }
  };

  /// A host value that is copied in at the start of each step.
  struct Staged {
    enum class Source { Feed, Launch, Rows };
    std::string name;
    Source source = Source::Feed;
    int64_t bytes = 0;
    int32_t first = 0, last = 0; // first and last reader
    std::vector<int32_t> readAt; // nodes that name it as operand, views too
  };

  /// A lookup in a constant table by the host queue.
  struct Lookup {
    std::string node, table;
    int64_t tableBytes = 0;
    unsigned staged = 0; // index of its rows, or kNotStaged
    static constexpr unsigned kNotStaged = ~0u;
  };

  /// A device value that is fetched for the caller.
  struct Output {
    std::string name;
    int64_t bytes = 0;
    int32_t madeAt = 0;
  };

  struct View {
    std::string name, source; // source: the operand
    int32_t at = 0;
  };

  /// A result that takes over the bytes of an operand that nobody reads later;
  /// the temporary that owns them lives on for it.
  struct TakeOver {
    std::string name, source;
  };

  std::vector<ComputeNode> nodes;
  std::vector<Temporary> temporaries;
  std::vector<Weight> weights; // by first read
  std::vector<Staged> staged;  // feeds, launch values, rows; each by first read
  std::vector<Lookup> lookups;
  std::vector<Output> outputs; // by madeAt
  std::vector<View> views;
  std::vector<TakeOver> takeOvers;
  int64_t hostOutputBytes = 0; // outputs that never were on the device

  /// One past the last position: the end of the step.
  int32_t end() const { return static_cast<int32_t>(nodes.size()); }
  int64_t scratchBytes() const; // of the node that takes most
};

/// Reads a graph whose launch nodes are marked. `lookupsOnHost`: large tables
/// are looked up by the host queue wherever the ids are known there.
/// Errors, by node: a value without a bound, a state (training is not planned).
llvm::Expected<StepModel> readStep(const Graph &graph, bool lookupsOnHost,
                                   bool onCard = false);

} // namespace offload

#endif // OFFLOAD_SCHEDULE_STEPMODEL_H
