// Computes shape arithmetic and folds what is known of it.
//
// In:  a typed node, facts of its operands.
// Out: facts of its results; initializers instead of nodes.
// Not: types (InferTypes), the arithmetic itself (OffFormat/ShapeArithmetic).
// How: contents are computed at the bound of dynamic dimensions. They are fixed
//      if all they were made of is; else ONNX's propagation may still show that
//      each element is a size and no name (a static dimension taken out of a
//      dynamic shape).

#include "InferValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace offload {

/// Float results of more elements are data and no shapes or scales; but for
/// positions, which a device would count anew in each step.
static constexpr int64_t kMostFoldedFloats = 64;

/// Operators that read an operand's shape and not its contents.
static bool readsShapeOnly(const Node &node) {
  return node.domain.empty() &&
         (node.opType == "Shape" || node.opType == "Size");
}

static bool hasStaticShape(const Value &value) {
  return value.type.hasRank &&
         llvm::all_of(value.type.dims,
                      [](const Dim &dim) { return dim.isStatic(); });
}

static bool isSmall(const TensorType &type) {
  if (!type.isBounded() || !isHostType(type.elem))
    return false;
  int64_t elements = 1;
  for (const Dim &dim : type.dims)
    if (__builtin_mul_overflow(elements, dim.bound, &elements))
      return false;
  return elements <= kMostKnownBytes / 8;
}

/// Contents of all results, or nothing where an operand is not known.
static std::vector<HostValue> computeAtBound(const Node &node, FactTable &facts,
                                             bool &isFixed) {
  isFixed = true;
  std::vector<std::vector<int64_t>> dims(node.operands().size());
  std::vector<ShapeOperand> operands(node.operands().size());
  for (unsigned i = 0; i < operands.size(); ++i) {
    const Value *value = node.operand(i);
    if (!value)
      continue;
    operands[i].type = value->type.elem;
    operands[i].value = facts.contents(value, Dims::AtBound);
    if (value->type.isBounded()) {
      dims[i] = value->type.dimsAtBound();
      operands[i].dims = &dims[i];
    }
    if (readsShapeOnly(node)) {
      isFixed &= hasStaticShape(*value);
      if (!operands[i].dims)
        return {};
      continue;
    }
    if (!operands[i].value)
      return {};
    isFixed &= facts.of(value).isFixed;
  }
  return evaluateShapeArithmetic(*node.info, node.sinceVersion, node.attributes,
                                 operands, node.results().size())
      .outputs;
}

/// Symbols that are sizes throughout, as contents of `type`.
static std::optional<HostValue>
fromSymbols(const onnx::TensorShapeProto &symbols, const TensorType &type) {
  bool isInteger = type.elem == DataType::Int64 || type.elem == DataType::Int32;
  if (!isInteger || !type.isBounded() || type.dims.size() > 1)
    return std::nullopt;
  int64_t elements = type.dims.empty() ? 1 : type.dims[0].bound;
  if (symbols.dim_size() != elements)
    return std::nullopt;
  HostValue contents;
  contents.type = type.elem;
  contents.dims = type.dimsAtBound();
  for (const auto &symbol : symbols.dim()) {
    if (!symbol.has_dim_value())
      return std::nullopt;
    contents.ints.push_back(symbol.dim_value());
  }
  return contents;
}

/// ONNX's rule for result 0; nothing where it has none or is not content.
static std::optional<onnx::TensorShapeProto>
propagate(const Node &node, const onnx::OpSchema &schema,
          const AttributeProtos &attributes, FactTable &facts) {
  if (!schema.has_data_propagation_function())
    return std::nullopt;
  NodePropagation context(node, attributes, facts);
  try {
    schema.GetDataPropagationFunction()(context);
  } catch (const std::exception &) {
    return std::nullopt; // the rule does not fit; contents stay unknown
  }
  return std::move(context.result);
}

void evaluateNode(const Node &node, const onnx::OpSchema &schema,
                  const AttributeProtos &attributes, FactTable &facts) {
  if (!node.info->shapeArithmetic ||
      !llvm::all_of(node.results(), [](const Value *result) {
        return !result || isSmall(result->type);
      }))
    return;
  bool isFixed = false;
  std::vector<HostValue> contents = computeAtBound(node, facts, isFixed);
  for (unsigned i = 0; i < contents.size(); ++i)
    if (const Value *result = node.result(i)) {
      ValueFacts &known = facts.of(result);
      known.contents = std::move(contents[i]);
      known.isFixed = isFixed;
    }
  const Value *first = node.result(0);
  if (!first || (!contents.empty() && isFixed))
    return;

  std::optional<onnx::TensorShapeProto> symbols =
      propagate(node, schema, attributes, facts);
  if (!symbols)
    return;
  ValueFacts &known = facts.of(first);
  std::optional<HostValue> sizes = fromSymbols(*symbols, first->type);
  // Where the two disagree, the rule took something for granted.
  if (sizes && known.contents && *known.contents != *sizes)
    return;
  if (sizes && node.results().size() == 1) {
    known.contents = std::move(sizes);
    known.isFixed = true;
  }
  known.symbols = std::move(symbols);
}

bool canFold(const Node &node, FactTable &facts) {
  if (node.domain == "offload" || !node.info->shapeArithmetic)
    return false;
  bool any = false;
  for (const Value *result : node.results()) {
    if (!result)
      continue;
    // A second name for a weight must stay one: a copy would be counted, staged
    // and trained apart.
    bool isShape = result->type.elem == DataType::Int64 ||
                   result->type.elem == DataType::Int32 ||
                   result->type.elem == DataType::Bool;
    if (!isShape && node.info->view != ViewRule::None &&
        node.info->view != ViewRule::Part)
      return false;
    const HostValue *contents = facts.contents(result, Dims::ByName);
    if (!contents || !hasStaticShape(*result) ||
        (contents->isReal() && node.opType != "Range" &&
         contents->numElements() > kMostFoldedFloats))
      return false;
    any = true;
  }
  return any;
}

/// Erases values, and the shape arithmetic that made them, while unused.
static void eraseUnused(Graph &graph, llvm::SmallVector<Value *> candidates,
                        FactTable &facts, const FoldLog &log) {
  while (!candidates.empty()) {
    Value *value = candidates.pop_back_val();
    if (!value->users().empty() || graph.isOutput(value))
      continue;
    Node *maker = value->definingNode();
    if (!maker) {
      if (value->isConstant() && !log.reads(value->name())) {
        facts.erase(value);
        graph.eraseValue(value);
      }
      continue;
    }
    bool isUsed = llvm::any_of(maker->results(), [&](Value *result) {
      return result && (!result->users().empty() || graph.isOutput(result));
    });
    if (isUsed || !maker->info || !maker->info->shapeArithmetic)
      continue;
    for (Value *operand : maker->operands())
      if (operand && !llvm::is_contained(candidates, operand))
        candidates.push_back(operand);
    for (Value *result : maker->results())
      if (result) {
        facts.erase(result);
        llvm::erase(candidates, result);
      }
    graph.eraseNode(maker);
  }
}

void foldNode(Graph &graph, Node *node, FactTable &facts, const FoldLog &log) {
  for (Value *result : node->results()) {
    if (!result)
      continue;
    std::vector<uint8_t> bytes =
        facts.contents(result, Dims::ByName)->toBytes();
    std::string name = result->name().str();
    graph.renameValue(result, graph.uniqueValueName(name));
    Value *constant = graph.addInitializer(name, result->type,
                                           TensorData::owned(std::move(bytes)));
    constant->properties = result->properties;
    graph.replaceAllUses(result, constant);
    facts.erase(result);
  }
  llvm::SmallVector<Value *> operands;
  for (Value *operand : node->operands())
    if (operand && !llvm::is_contained(operands, operand))
      operands.push_back(operand);
  graph.eraseNode(node);
  eraseUnused(graph, std::move(operands), facts, log);
}

} // namespace offload
