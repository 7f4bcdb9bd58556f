// What a pass is, and the list of all passes.
//
// A pass is one .cpp in passes/, ending in OFFLOAD_DEFINE_PASS(Name), and one row
// in passes/Passes.def: PASS("flag", Class, FormIn, FormOut, "summary").

#ifndef OFFLOAD_PASSMANAGER_PASS_H
#define OFFLOAD_PASSMANAGER_PASS_H

#include "offload/IR/Graph.h"
#include "offload/Schedule/Target.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace offload {

/// What the user asked for; the same for every pass of a run.
struct PassContext {
  Target target;
  /// Everything the process may take from the device; nothing: all resident.
  std::optional<int64_t> deviceMemoryBytes;
  /// Staged uses in flight or in use at once; 0: the plan chooses.
  unsigned depth = 0;
  /// Remarks for the user ("nothing streams: ..."); never null.
  llvm::raw_ostream *remarks = &llvm::errs();
};

class Pass {
public:
  virtual ~Pass() = default;
  /// Works on one graph; called at most once. An error leaves the graph in an
  /// unspecified state: the tool then writes nothing.
  virtual llvm::Error run(Graph &graph, PassContext &context) = 0;
  /// Named counts for `--stats`, e.g. {"staged", 12}.
  llvm::ArrayRef<std::pair<std::string, int64_t>> statistics() const {
    return counts;
  }

protected:
  void count(llvm::StringRef name, int64_t amount = 1);

private:
  std::vector<std::pair<std::string, int64_t>> counts;
};

struct PassInfo {
  llvm::StringRef flag;
  Form takes, leaves;
  llvm::StringRef summary;
  std::unique_ptr<Pass> (*create)();
};

/// Rows of Passes.def in order.
llvm::ArrayRef<PassInfo> passTable();

#define OFFLOAD_DEFINE_PASS(Class)                                             \
  namespace offload {                                                          \
  std::unique_ptr<Pass> create##Class##Pass() {                                \
    return std::make_unique<Class>();                                          \
  }                                                                            \
  }

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_PASS_H
