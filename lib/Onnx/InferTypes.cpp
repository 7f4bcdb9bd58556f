// Types and shapes of all results, at the bound of dynamic dimensions.
//
// In:  a graph whose inputs and initializers are typed; what the model
// declares. Out: a type for each result, shape arithmetic folded where it is
// known. Not: sizes while running (Runtime), which dimensions are dynamic
//      (ImportDims).
// How: one walk in order. ONNX's inference function runs with all dimensions at
//      their bound, which gives sizes, and where something is dynamic once more
//      with dimensions by name: a size there is static, a name stays a name,
//      and what has neither is called after its value. Where the two disagree
//      the dimension is left unbound, for the planner to refuse.

#include "InferTypes.h"

#include "InferContext.h"
#include "InferValues.h"
#include "ProtoConvert.h"
#include "TypeConstraints.h"
#include "offload/Onnx/Import.h"

#include "llvm/ADT/STLExtras.h"

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <map>

namespace offload {

static const onnx::OpSchema *findSchema(const Graph &graph, const Node &node) {
  auto opset = graph.opsets.find(node.domain);
  if (opset == graph.opsets.end())
    return nullptr;
  return onnx::OpSchemaRegistry::Schema(
      node.opType, static_cast<int>(opset->second), node.domain);
}

llvm::Error resolveOperator(const Graph &graph, Node &node) {
  if (node.info)
    return llvm::Error::success();
  auto opset = graph.opsets.find(node.domain);
  int64_t version = opset == graph.opsets.end() ? 1 : opset->second;
  if (node.domain == "offload")
    version = 1;
  else if (const onnx::OpSchema *schema = findSchema(graph, node))
    version = schema->since_version();
  node.sinceVersion = static_cast<int>(version);
  node.info = findOperator(node.domain, node.opType, node.sinceVersion);
  if (node.info)
    return llvm::Error::success();
  std::string versions = supportedVersions(node.domain, node.opType);
  return makeError(
      "[" + node.name() + "] uses operator " + node.opType + " of domain " +
      (node.domain.empty() ? "ai.onnx" : node.domain) + " (since version " +
      llvm::Twine(version) + "), which is not supported" +
      (versions.empty() ? "" : "; versions that are: ") + versions);
}

namespace {

class TypeInference {
public:
  TypeInference(Graph &graph, const DeclaredTypes &declared)
      : graph(graph), declared(declared), log(graph) {
    for (const Value *input : graph.inputs())
      for (const Dim &dim : input->type.dims)
        if (!dim.name.empty())
          inputNames[dim.name] = dim.bound;
    bounds = inputNames;
  }

  llvm::Error run() {
    for (Value *input : graph.inputs())
      if (llvm::Error error = checkType(*input))
        return error;
    for (Value *constant : graph.initializers())
      if (llvm::Error error = checkType(*constant))
        return error;
    auto &nodes = graph.nodeList();
    for (auto it = nodes.begin(); it != nodes.end();) {
      Node &node = *it++; // folding erases it, and nodes before it
      if (llvm::Error error = inferNode(node))
        return error;
    }
    log.keepWhatIsData();
    return llvm::Error::success();
  }

private:
  llvm::Error inferNode(Node &node) {
    if (llvm::Error error = resolveOperator(graph, node))
      return error;
    for (Value *operand : node.operands())
      if (operand && operand->type.elem == DataType::Undefined)
        return makeError("[" + node.name() + "] reads '" + operand->name() +
                         "', whose type is not known");
    if (node.domain == "offload")
      return inferOffload(node);
    const onnx::OpSchema *schema = findSchema(graph, node);
    if (!schema)
      return makeError("[" + node.name() + "] uses operator " + node.opType +
                       ", for which ONNX has no schema");
    // Before inference, whose complaints of mixed types are less plain.
    if (llvm::Error error = checkTypeConstraints(node, *schema))
      return error;
    AttributeProtos attributes = attributeProtos(node);
    if (llvm::Error error = inferResults(node, *schema, attributes))
      return error;
    if (llvm::Error error = checkTypeConstraints(node, *schema))
      return error;
    for (Value *result : node.results())
      if (result)
        if (llvm::Error error = checkType(*result))
          return error;
    evaluateNode(node, *schema, attributes, facts);
    if (graph.form == Form::Imported && canFold(node, facts)) {
      log.add(node);
      foldNode(graph, &node, facts, log);
    }
    return llvm::Error::success();
  }

  //===-- standard operators ----------------------------------------------===//

  llvm::Error inferResults(Node &node, const onnx::OpSchema &schema,
                           const AttributeProtos &attributes) {
    bool allTyped = llvm::all_of(node.results(), [](const Value *result) {
      return !result || result->type.elem != DataType::Undefined;
    });
    if (allTyped)
      return llvm::Error::success();
    NodeInference atBound(node, attributes, facts, Dims::AtBound);
    if (llvm::Error error = runRule(node, schema, atBound))
      return error;
    std::optional<NodeInference> byName;
    if (dependsOnDynamic(node)) {
      byName.emplace(node, attributes, facts, Dims::ByName);
      if (llvm::Error error = runRule(node, schema, *byName))
        return error;
    }
    for (unsigned i = 0; i < node.results().size(); ++i) {
      Value *result = node.result(i);
      if (!result || result->type.elem != DataType::Undefined)
        continue;
      llvm::Expected<TensorType> type =
          merge(*result, atBound.output(i),
                byName ? byName->output(i) : atBound.output(i));
      if (!type)
        return type.takeError();
      result->type = std::move(*type);
    }
    return llvm::Error::success();
  }

  /// With ceil_mode a last window that would start in the padding behind the
  /// data is none; ONNX's rules say so only from opset 22 on, and runtimes have
  /// always done so.
  static void dropEmptyWindows(const Node &node,
                               onnx::InferenceContext &context) {
    if (node.info->weight != WeightRule::None ||
        !intAttribute(node.attributes, "ceil_mode", 0) ||
        stringAttribute(node.attributes, "auto_pad", "NOTSET") != "NOTSET")
      return;
    const std::vector<int64_t> *strides =
        intsAttribute(node.attributes, "strides");
    const std::vector<int64_t> *pads = intsAttribute(node.attributes, "pads");
    const auto &data = context.getInputType(0)->tensor_type().shape();
    for (unsigned i = 0; i < context.getNumOutputs(); ++i) {
      auto *shape =
          context.getOutputType(i)->mutable_tensor_type()->mutable_shape();
      for (int axis = 2; axis < shape->dim_size(); ++axis) {
        size_t k = axis - 2;
        int64_t stride = strides && k < strides->size() ? (*strides)[k] : 1;
        int64_t pad = pads && k < pads->size() ? (*pads)[k] : 0;
        auto *dim = shape->mutable_dim(axis);
        if (dim->has_dim_value() && axis < data.dim_size() &&
            data.dim(axis).has_dim_value() &&
            (dim->dim_value() - 1) * stride >= data.dim(axis).dim_value() + pad)
          dim->set_dim_value(dim->dim_value() - 1);
      }
    }
  }

  llvm::Error runRule(const Node &node, const onnx::OpSchema &schema,
                      onnx::InferenceContext &context) {
    try {
      int opset = static_cast<int>(graph.opsets.at(node.domain));
      if (schema.has_type_and_shape_inference_function()) {
        schema.GetTypeAndShapeInferenceFunction()(context);
        dropEmptyWindows(node, context);
      } else if (node.opType == "GroupNormalization" ||
                 node.opType == "MeanVarianceNormalization")
        // ONNX has no rule and no body whose types it could infer.
        onnx::propagateShapeAndTypeFromFirstInput(context);
      else if (const onnx::FunctionProto *body = schema.GetFunction(opset))
        onnx::shape_inference::InferShapeForFunctionNode(
            *body, onnx::OpSchemaRegistry::Instance(), context);
    } catch (const std::exception &error) {
      return makeError("[" + node.name() + "] (" + node.opType +
                       ") does not fit its operands: " + describe(error));
    }
    return llvm::Error::success();
  }

  /// Whether sizes of results may differ from one run to another.
  bool dependsOnDynamic(const Node &node) {
    return llvm::any_of(node.operands(), [&](const Value *operand) {
      if (!operand)
        return false;
      bool isStatic = operand->type.hasRank &&
                      llvm::all_of(operand->type.dims, [](const Dim &dim) {
                        return dim.isStatic();
                      });
      return !isStatic || (facts.contents(operand, Dims::AtBound) &&
                           !facts.of(operand).isFixed);
    });
  }

  /// One type from the two runs of the rule.
  llvm::Expected<TensorType> merge(const Value &result,
                                   const onnx::TypeProto &atBound,
                                   const onnx::TypeProto &byName) {
    std::string label = "[" + result.definingNode()->name().str() +
                        "] result '" + result.name().str() + "'";
    bool isTensor = atBound.value_case() == onnx::TypeProto::kTensorType;
    if (atBound.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
        (isTensor && atBound.tensor_type().elem_type() == 0)) {
      auto known = declared.find(result.name());
      if (known != declared.end())
        return known->second;
      return makeError(label + " has a type that ONNX cannot infer, and the "
                               "model declares none");
    }
    llvm::Expected<TensorType> sizes = typeFromProto(atBound, label);
    if (!sizes)
      return sizes.takeError();
    llvm::Expected<TensorType> names = typeFromProto(byName, label);
    if (!names)
      return names.takeError();
    if (!sizes->hasRank && names->hasRank)
      sizes->dims.assign(names->dims.size(), Dim());
    TensorType type;
    type.elem = sizes->elem;
    type.hasRank = sizes->hasRank || names->hasRank;
    for (unsigned axis = 0; axis < sizes->dims.size(); ++axis) {
      bool sameRank = names->hasRank && names->dims.size() > axis &&
                      names->dims.size() == sizes->dims.size();
      Dim name = sameRank ? names->dims[axis] : Dim();
      type.dims.push_back(mergeDim(result, axis, sizes->dims[axis], name));
    }
    return type;
  }

  Dim mergeDim(const Value &result, unsigned axis, const Dim &size,
               const Dim &name) {
    if (name.isStatic())
      return size.isStatic() && size.bound != name.bound ? Dim() : name;
    if (!size.isStatic()) // no bound; the name is all there is
      return Dim{Dim::kUnbound, name.name};
    std::string text = name.name;
    if (!text.empty()) {
      auto known = bounds.find(text);
      if (known == bounds.end() || known->second != size.bound)
        text.clear();
    }
    return text.empty() ? generatedDim(result, axis, size.bound)
                        : Dim{size.bound, text};
  }

  /// A dynamic dimension that no name of the model's stands for.
  Dim generatedDim(const Value &result, unsigned axis, int64_t bound) {
    // The model's own name, if it declares one that means no other size.
    auto known = declared.find(result.name());
    if (known != declared.end() && axis < known->second.dims.size()) {
      const std::string &own = known->second.dims[axis].name;
      if (!own.empty() && claimName(own, bound))
        return Dim{bound, own};
    }
    std::string name = result.name().str() + "_axis" + std::to_string(axis);
    while (!claimName(name, bound))
      name += "_";
    return Dim{bound, name};
  }

  bool claimName(const std::string &name, int64_t bound) {
    return bounds.try_emplace(name, bound).first->second == bound;
  }

  //===-- operators of domain offload -------------------------------------===//

  llvm::Error inferOffload(Node &node) {
    for (unsigned i = 0; i < node.results().size(); ++i) {
      Value *result = node.result(i);
      if (!result)
        continue;
      if (result->type.elem == DataType::Undefined)
        if (llvm::Error error = typeOffloadResult(node, i, *result))
          return error;
      if (llvm::Error error = checkType(*result))
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error typeOffloadResult(const Node &node, unsigned index,
                                Value &result) {
    if (node.isOffload("Release") || node.isOffload("Join")) {
      result.type = TensorType{DataType::Bool, true, {}};
      return llvm::Error::success();
    }
    if (node.isOffload("Linear"))
      return typeLinear(node, result);
    // An update gives w, then its state, from (w, g, state...): the gradient
    // is passed over. Everything else gives its operands in their order.
    bool isUpdate = node.isOffload("SGD") || node.isOffload("AdamW");
    const Value *source =
        node.operand(isUpdate && index > 0 ? index + 1 : index);
    if (!source)
      return makeError("[" + node.name() + "] (" + node.opType +
                       ") has no operand for its result '" + result.name() +
                       "'");
    result.type = source->type;
    return llvm::Error::success();
  }

  llvm::Error typeLinear(const Node &node, Value &result) {
    const Value *x = node.operand(0), *w = node.operand(1);
    if (!x || !w || !x->type.hasRank || x->type.dims.empty() ||
        w->type.dims.size() != 2)
      return makeError("[" + node.name() + "] (Linear) needs an operand with " +
                       "dimensions and a matrix");
    result.type = x->type;
    result.type.dims.back() = w->type.dims.back();
    return llvm::Error::success();
  }

  //===-- what the model declares -----------------------------------------===//

  /// Fills what is open in the value's type, and refuses a contradiction, or
  /// more bytes than there can be.
  llvm::Error checkType(Value &value) {
    if (llvm::Error error = checkDeclared(value))
      return error;
    if (!value.type.isBounded())
      return llvm::Error::success();
    const Node *maker = value.definingNode();
    std::string label =
        (maker ? "[" + maker->name().str() + "] result '" : std::string("'")) +
        value.name().str() + "'";
    llvm::Expected<TensorSize> size =
        checkedSize(value.type.elem, value.type.dimsAtBound(), label);
    if (!size)
      return size.takeError();
    totalBytes += size->bytes;
    if (totalBytes <= kMostTotalBytes)
      return llvm::Error::success();
    return makeError(label + " makes the values of a step more than " +
                     llvm::Twine(kMostTotalBytes) +
                     " bytes together, which cannot be planned");
  }

  llvm::Error checkDeclared(Value &value) {
    auto known = declared.find(value.name());
    if (known == declared.end())
      return llvm::Error::success();
    const TensorType &other = known->second;
    TensorType &type = value.type;
    bool agrees = type.elem == other.elem;
    if (agrees && other.hasRank && !type.hasRank) {
      type.hasRank = true;
      type.dims = other.dims;
    }
    if (agrees && other.hasRank) {
      agrees = type.dims.size() == other.dims.size();
      for (unsigned axis = 0; agrees && axis < type.dims.size(); ++axis)
        agrees = agreeDim(type.dims[axis], other.dims[axis]);
    }
    if (agrees)
      return llvm::Error::success();
    return makeError(
        "'" + value.name() + "' is declared " + typeText(other) + ", and " +
        (value.definingNode()
             ? "[" + value.definingNode()->name().str() + "] makes "
             : std::string("is ")) +
        typeText(type));
  }

  bool agreeDim(Dim &dim, const Dim &other) {
    if (dim.isStatic())
      return !other.isStatic() || other.bound == dim.bound;
    if (dim.bound < 0 && dim.name.empty()) {
      dim = other;
      return true;
    }
    // A name of the inputs is what it says; a name made here may turn out to
    // stand for one size only.
    if (!other.isStatic() || inputNames.contains(dim.name))
      return true;
    if (dim.bound >= 0 && dim.bound != other.bound)
      return false;
    dim = other;
    return true;
  }

  Graph &graph;
  const DeclaredTypes &declared;
  FactTable facts;
  FoldLog log;
  /// Many plans' sums of such a total fit 63 bits.
  static constexpr int64_t kMostTotalBytes = int64_t(1) << 58;
  int64_t totalBytes = 0;
  std::map<std::string, int64_t> inputNames; // with their bounds
  std::map<std::string, int64_t> bounds;     // of all names
};

} // namespace

llvm::Error inferTypes(Graph &graph, const DeclaredTypes &declared) {
  return TypeInference(graph, declared).run();
}

llvm::Error inferTypes(Graph &graph) { return inferTypes(graph, {}); }

} // namespace offload
