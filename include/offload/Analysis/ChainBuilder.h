// Adds chains of Reshape and Transpose to a graph.

#ifndef OFFLOAD_ANALYSIS_CHAINBUILDER_H
#define OFFLOAD_ANALYSIS_CHAINBUILDER_H

#include "offload/Analysis/AxisFactors.h"
#include "offload/IR/Graph.h"

#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace offload {

/// Of one graph, which must outlive it.
class ChainBuilder {
public:
  /// Names of what is made; another one where they are taken.
  struct Stems {
    std::string node, value;
  };

  explicit ChainBuilder(Graph &graph);

  /// A value of `type` made of `root` by new nodes before `before`; the root
  /// itself where there are no steps. Error: the model's opset lacks one of the
  /// operators.
  llvm::Expected<Value *> build(Value *root, const AxisFactors::Steps &steps,
                                const TensorType &type, Node *before,
                                Stems stems);

private:
  TensorType typeOf(DataType elem,
                    llvm::ArrayRef<AxisFactors::Term> sizes) const;
  Dim dimOf(const AxisFactors::Term &size) const;
  llvm::Expected<Value *> reshape(Value *value,
                                  const std::vector<int64_t> &target,
                                  const TensorType &type, Node *before);
  llvm::Expected<Value *> transpose(Value *value,
                                    const std::vector<int64_t> &perm,
                                    const TensorType &type, Node *before);
  llvm::Expected<Value *> add(llvm::StringRef op,
                              llvm::ArrayRef<Value *> operands,
                              const TensorType &type, Node *before);
  Value *shapeConstant(const std::vector<int64_t> &target);

  Graph &graph;
  Stems stems;                           // of the chain being built
  std::map<std::string, int64_t> bounds; // of dimensions, by name
  std::map<std::vector<int64_t>, std::string> shapes; // names of constants
};

} // namespace offload

#endif // OFFLOAD_ANALYSIS_CHAINBUILDER_H
