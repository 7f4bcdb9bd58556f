// What a pass is, and the list of all passes.
//
// A pass is one .cpp in passes/, ending in OFFLOAD_DEFINE_PASS(Name), and one
// row in passes/Passes.def: PASS("flag", Class, FormIn, FormOut, "summary").
// Its opening comment is its entry in docs/passes.md.

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
  /// One `key=value` of the pipeline's text, before run; changes this pass or
  /// `context`, which is this pass's own copy. Error: no such option (always,
  /// unless the pass overrides this), a bad value.
  virtual llvm::Error setOption(llvm::StringRef key, llvm::StringRef value,
                                PassContext &context);
  /// Named counts for `--stats`, e.g. {"staged", 12}.
  llvm::ArrayRef<std::pair<std::string, int64_t>> statistics() const {
    return counts;
  }

protected:
  void count(llvm::StringRef name, int64_t amount = 1);

private:
  std::vector<std::pair<std::string, int64_t>> counts;
};

/// `target`, `device-memory` (bytes or with a unit) and `depth`, for passes
/// whose setOption takes what the tool's flags of these names say.
llvm::Error setPlanOption(PassContext &context, llvm::StringRef key,
                          llvm::StringRef value);

struct PassInfo {
  llvm::StringRef flag;
  std::optional<Form> takes; // nothing: any form
  Form leaves;
  llvm::StringRef summary;
  llvm::StringRef prose; // opening comment of the source, without its slashes
  std::unique_ptr<Pass> (*create)();
};

/// Rows of Passes.def in order.
llvm::ArrayRef<PassInfo> passTable();

/// The row, or an error that names the nearest flag.
llvm::Expected<const PassInfo *> findPass(llvm::StringRef flag);

/// All passes and pipelines in Markdown (docs/passes.md).
std::string passesMarkdown();

#define OFFLOAD_DEFINE_PASS(Class)                                             \
  namespace offload {                                                          \
  std::unique_ptr<Pass> create##Class##Pass() {                                \
    return std::make_unique<Class>();                                          \
  }                                                                            \
  }

} // namespace offload

#endif // OFFLOAD_PASSMANAGER_PASS_H
