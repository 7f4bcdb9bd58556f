// The compiler's parts as this test calls them: errors are thrown.

#ifndef OFFLOAD_TEST_MUTATION_COMPILER_H
#define OFFLOAD_TEST_MUTATION_COMPILER_H

#include "offload/PassManager/PassManager.h"
#include "offload/Runtime/Tensor.h"

#include <string>

namespace offload::mutation {

template <typename T> T must(llvm::Expected<T> expected) {
  if (!expected)
    throw rt::Error(llvm::toString(expected.takeError()));
  return std::move(*expected);
}
inline void must(llvm::Error error) {
  if (error)
    throw rt::Error(llvm::toString(std::move(error)));
}

/// A pipeline in text, silently.
void runPasses(Graph &graph, const std::string &passes, PassContext context);

struct Verdict {
  std::string refusal;       // what verify-schedule says; empty: accepted
  bool isAboutOrder = false; // not refused by a rule about single nodes
};
Verdict verdictOn(Graph &graph);

} // namespace offload::mutation

#endif // OFFLOAD_TEST_MUTATION_COMPILER_H
