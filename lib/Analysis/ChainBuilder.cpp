// Adds chains of Reshape and Transpose to a graph.
//
// In:  where a chain starts, its steps (AxisSteps), the type at its end.
// Out: the nodes, with types; one constant for all Reshapes to the same shape.
// Not: which chains to add, and names of what they replace
//      (passes/SimplifyLayout).

#include "offload/Analysis/ChainBuilder.h"

#include "offload/IR/StandardNode.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <utility>

namespace offload {

using Term = AxisFactors::Term;

ChainBuilder::ChainBuilder(Graph &graph) : graph(graph) {
  auto learn = [&](const Value *value) {
    if (!value)
      return;
    for (const Dim &dim : value->type.dims)
      if (!dim.name.empty() && dim.bound != Dim::kUnbound)
        bounds.insert({dim.name, dim.bound});
  };
  llvm::for_each(graph.inputs(), learn);
  for (const Node &node : graph.nodeList())
    llvm::for_each(node.results(), learn);
}

llvm::Expected<Value *> ChainBuilder::build(Value *root,
                                            const AxisFactors::Steps &steps,
                                            const TensorType &type,
                                            Node *before, Stems chainStems) {
  stems = std::move(chainStems);
  llvm::Expected<Value *> value = root;
  if (!steps.split.empty())
    value = reshape(*value, steps.split, typeOf(type.elem, steps.splitSizes),
                    before);
  if (value && !steps.perm.empty())
    value = transpose(*value, steps.perm,
                      steps.merge.empty() ? type
                                          : typeOf(type.elem, steps.permSizes),
                      before);
  if (value && !steps.merge.empty())
    value = reshape(*value, steps.merge, type, before);
  return value;
}

TensorType ChainBuilder::typeOf(DataType elem,
                                llvm::ArrayRef<Term> sizes) const {
  TensorType type{elem, true, {}};
  for (const Term &size : sizes)
    type.dims.push_back(dimOf(size));
  return type;
}

/// A product of names is called after its factors.
Dim ChainBuilder::dimOf(const Term &size) const {
  Dim dim{size.factor, ""};
  if (!size.names.empty() && size.factor != 1)
    dim.name = std::to_string(size.factor);
  for (const std::string &name : size.names) {
    auto known = bounds.find(name);
    dim.bound = known == bounds.end() || dim.bound == Dim::kUnbound
                    ? Dim::kUnbound
                    : dim.bound * known->second;
    dim.name += (dim.name.empty() ? "" : "*") + name;
  }
  return dim;
}

llvm::Expected<Value *> ChainBuilder::add(llvm::StringRef op,
                                          llvm::ArrayRef<Value *> operands,
                                          const TensorType &type,
                                          Node *before) {
  llvm::Expected<Node *> node =
      addStandardNode(graph, op, graph.uniqueNodeName(stems.node), operands,
                      graph.uniqueValueName(stems.value), type, before);
  if (!node)
    return node.takeError();
  return (*node)->result();
}

llvm::Expected<Value *>
ChainBuilder::reshape(Value *value, const std::vector<int64_t> &target,
                      const TensorType &type, Node *before) {
  return add("Reshape", {value, shapeConstant(target)}, type, before);
}

llvm::Expected<Value *>
ChainBuilder::transpose(Value *value, const std::vector<int64_t> &perm,
                        const TensorType &type, Node *before) {
  llvm::Expected<Value *> made = add("Transpose", {value}, type, before);
  if (made)
    (*made)->definingNode()->attributes["perm"] = perm;
  return made;
}

Value *ChainBuilder::shapeConstant(const std::vector<int64_t> &target) {
  std::vector<uint8_t> bytes(target.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), target.data(), bytes.size());
  auto known = shapes.find(target);
  Value *value =
      known == shapes.end() ? nullptr : graph.findValue(known->second);
  // It may have gone with its last reader, and its name to another value.
  if (value && value->isConstant() &&
      value->data.bytes() == llvm::ArrayRef(bytes))
    return value;
  TensorType type{DataType::Int64, true, {}};
  type.dims.push_back(Dim{static_cast<int64_t>(target.size()), ""});
  Value *made =
      graph.addInitializer(graph.uniqueValueName(stems.value + "_shape"), type,
                           TensorData::owned(std::move(bytes)));
  shapes[target] = made->name().str();
  return made;
}

} // namespace offload
