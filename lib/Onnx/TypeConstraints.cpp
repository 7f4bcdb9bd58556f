// Holds nodes to the type parameters of their schemas.
//
// In:  a node with typed operands, the schema in force.
// Out: nothing, or one error.
// Not: which types the runtime has kernels for (OffFormat/Operators), what the
//      types of results are (InferTypes).
// How: formal parameters of one type parameter ("T") have one element type,
//      that of the first value met; those behind a heterogeneous variadic
//      parameter have one each. A type that only a later version of the
//      operator takes is let through: exporters write bfloat16 convolutions at
//      opset 18, and what they mean is what opset 22 says. Nothing is known
//      here of any operator: the schemas say it all, and ONNX's checker does
//      not compare.

#include "TypeConstraints.h"

#include "ImportModel.h"
#include "ProtoConvert.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace offload {

namespace {

using Formals = std::vector<onnx::OpSchema::FormalParameter>;

bool takes(const onnx::OpSchema::FormalParameter &formal, DataType type) {
  std::string name = "tensor(" + std::string(dataTypeName(type)) + ")";
  return formal.GetTypes().count(onnx::Utils::DataTypeUtils::ToType(name)) != 0;
}

/// "float16, float or double", in the order of the enum.
std::string listTypes(const onnx::OpSchema::FormalParameter &formal) {
  std::vector<std::string> names;
  for (int32_t i = 1; elementBits(static_cast<DataType>(i)) ||
                      static_cast<DataType>(i) == DataType::String;
       ++i)
    if (takes(formal, static_cast<DataType>(i)))
      names.push_back(std::string(dataTypeName(static_cast<DataType>(i))));
  std::string last = names.empty() ? "no tensor" : names.back();
  if (names.size() < 2)
    return last;
  names.pop_back();
  return llvm::join(names, ", ") + " or " + last;
}

/// The parameter that value `index` stands for; null: more values than the
/// schema has.
const onnx::OpSchema::FormalParameter *formalOf(const Formals &formals,
                                                unsigned index) {
  if (index < formals.size())
    return &formals[index];
  bool isVariadic = !formals.empty() &&
                    formals.back().GetOption() == onnx::OpSchema::Variadic;
  return isVariadic ? &formals.back() : nullptr;
}

class Checker {
public:
  Checker(const Node &node, const onnx::OpSchema &schema)
      : node(node), schema(schema) {}

  llvm::Error run() {
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (llvm::Error error = check(node.operand(i), i, /*isResult=*/false))
        return error;
    for (unsigned i = 0; i < node.results().size(); ++i)
      if (llvm::Error error = check(node.result(i), i, /*isResult=*/true))
        return error;
    return llvm::Error::success();
  }

private:
  llvm::Error check(const Value *value, unsigned index, bool isResult) {
    const onnx::OpSchema::FormalParameter *formal =
        formalOf(isResult ? schema.outputs() : schema.inputs(), index);
    if (!value || !formal || value->type.elem == DataType::Undefined)
      return llvm::Error::success();
    if (!takes(*formal, value->type.elem) &&
        !isTakenLater(value->type.elem, index, isResult))
      return wrongType(*value, *formal);
    if (formal->GetOption() == onnx::OpSchema::Variadic &&
        !formal->GetIsHomogeneous())
      return llvm::Error::success();
    auto [first, isNew] = bound.try_emplace(formal->GetTypeStr(), value);
    if (isNew || first->second->type.elem == value->type.elem)
      return llvm::Error::success();
    return mixedTypes(*first->second, *value, formal->GetTypeStr());
  }

  std::string operatorText() const {
    return "[" + node.name().str() + "] uses operator " + node.opType;
  }
  static std::string typed(const Value &value) {
    return "'" + value.name().str() + "' of type " +
           std::string(dataTypeName(value.type.elem));
  }

  llvm::Error mixedTypes(const Value &first, const Value &second,
                         const std::string &parameter) const {
    return makeError(operatorText() + " with " + typed(first) + " and " +
                     typed(second) + ", which must be of one type (" +
                     parameter +
                     "): put a Cast before the node, or export the model "
                     "with both in one type");
  }

  llvm::Error wrongType(const Value &value,
                        const onnx::OpSchema::FormalParameter &formal) const {
    return makeError(operatorText() + " with " + typed(value) +
                     ", and there it takes " + listTypes(formal) +
                     ": put a Cast to one of these before the node");
  }

  bool isTakenLater(DataType type, unsigned index, bool isResult) const {
    for (int opset = schema.SinceVersion() + 1;
         schema.domain().empty() && opset <= kMostOpset; ++opset) {
      const onnx::OpSchema *later =
          onnx::OpSchemaRegistry::Schema(schema.Name(), opset, schema.domain());
      const onnx::OpSchema::FormalParameter *formal =
          later ? formalOf(isResult ? later->outputs() : later->inputs(), index)
                : nullptr;
      if (formal && takes(*formal, type))
        return true;
    }
    return false;
  }

  const Node &node;
  const onnx::OpSchema &schema;
  llvm::StringMap<const Value *> bound; // type parameter -> its first value
};

} // namespace

llvm::Error checkTypeConstraints(const Node &node,
                                 const onnx::OpSchema &schema) {
  return Checker(node, schema).run();
}

} // namespace offload
