// What ONNX's inference functions ask about one node, answered from the graph.
// Private to this room.
//
// Inference runs twice where a dimension is dynamic: once with dynamic
// dimensions by name (which results are dynamic too?), once with all of them at
// their bound (how large do they become?).

#ifndef OFFLOAD_LIB_ONNX_INFERCONTEXT_H
#define OFFLOAD_LIB_ONNX_INFERCONTEXT_H

#include "offload/IR/Graph.h"

#include "llvm/ADT/DenseMap.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace offload {

enum class Dims { ByName, AtBound };

/// Values larger than this are never looked into or computed.
inline constexpr int64_t kMostKnownBytes = 64 << 10;

/// What is known of one value beside its type.
struct ValueFacts {
  /// Contents with all dimensions at their bound.
  std::optional<HostValue> contents;
  /// Whether these contents depend on no feed and on no dynamic dimension.
  bool isFixed = false;
  /// Integer contents, element by element, as sizes or names of dimensions.
  std::optional<onnx::TensorShapeProto> symbols;

  // As ONNX asks for them; made when first asked for.
  std::unique_ptr<onnx::TypeProto> types[2];
  std::unique_ptr<onnx::TensorProto> tensor;
};

/// Facts of all values that were asked about. Types must be final before they
/// are asked for.
class FactTable {
public:
  ValueFacts &of(const Value *value);
  void erase(const Value *value) { facts.erase(value); }
  /// Null where nothing is known of the type.
  const onnx::TypeProto *type(const Value *value, Dims dims);
  /// Contents that hold for all sizes (ByName), or at the bound; else null.
  const HostValue *contents(const Value *value, Dims dims);
  const onnx::TensorProto *tensor(const Value *value, Dims dims);

private:
  llvm::DenseMap<const Value *, std::unique_ptr<ValueFacts>> facts;
};

/// Whether shape arithmetic holds elements of that type.
bool isHostType(DataType type);

/// Attributes of one node as messages.
using AttributeProtos = std::map<std::string, onnx::AttributeProto>;
AttributeProtos attributeProtos(const Node &node);

class NodeInference final : public onnx::InferenceContext {
public:
  NodeInference(const Node &node, const AttributeProtos &attributes,
                FactTable &facts, Dims dims)
      : node(node), attributes(attributes), facts(facts), dims(dims),
        outputs(node.results().size()) {}

  const onnx::TypeProto &output(unsigned i) const { return outputs[i]; }

  const onnx::AttributeProto *
  getAttribute(const std::string &name) const override;
  size_t getNumInputs() const override { return node.operands().size(); }
  const onnx::TypeProto *getInputType(size_t index) const override;
  bool hasInput(size_t index) const override {
    return node.operand(index) != nullptr;
  }
  const onnx::TensorProto *getInputData(size_t index) const override;
  size_t getNumOutputs() const override { return outputs.size(); }
  onnx::TypeProto *getOutputType(size_t index) override;
  bool hasOutput(size_t index) override {
    return node.result(index) != nullptr;
  }
  onnx::GraphInferencer *
  getGraphAttributeInferencer(const std::string &) override {
    return nullptr; // no operator here holds a graph
  }
  const onnx::SparseTensorProto *getInputSparseData(size_t) const override {
    return nullptr;
  }
  const onnx::TensorShapeProto *getSymbolicInput(size_t index) const override;
  std::string getDisplayName() const override {
    return "[" + node.name().str() + "]";
  }

private:
  const Node &node;
  const AttributeProtos &attributes;
  FactTable &facts;
  Dims dims;
  std::vector<onnx::TypeProto> outputs;
};

/// Follows sizes and names of dimensions through shape arithmetic.
class NodePropagation final : public onnx::DataPropagationContext {
public:
  NodePropagation(const Node &node, const AttributeProtos &attributes,
                  FactTable &facts)
      : node(node), attributes(attributes), facts(facts) {}

  /// Of result 0, where the operator has such a rule.
  std::optional<onnx::TensorShapeProto> result;

  const onnx::AttributeProto *
  getAttribute(const std::string &name) const override;
  size_t getNumInputs() const override { return node.operands().size(); }
  const onnx::TypeProto *getInputType(size_t index) const override;
  size_t getNumOutputs() const override { return node.results().size(); }
  const onnx::TypeProto *getOutputType(size_t index) const override;
  const onnx::TensorShapeProto *getInputData(size_t index) override;
  void addOutputData(size_t index, onnx::TensorShapeProto &&data) override;

private:
  const Node &node;
  const AttributeProtos &attributes;
  FactTable &facts;
  std::vector<std::unique_ptr<onnx::TensorShapeProto>> made;
};

} // namespace offload

#endif // OFFLOAD_LIB_ONNX_INFERCONTEXT_H
