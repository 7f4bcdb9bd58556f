// The table of operators and the questions asked of it.
//
// In:  the rows of Operators.def.
// Out: look-ups by name and version, what a row covers, the markdown table.
// Not: running anything (Runtime/Kernels), or the shapes of results.
// How: one constexpr array in the order of the rows; a look-up walks it, since
//      it is asked once a node at import and at load.

#include "offload/OffFormat/Operators.h"

#include <charconv>

namespace offload {

namespace {

#define SCRATCH(InputPercent, OutputPercent, ConstantBytes)                    \
  ScratchFormula { InputPercent, OutputPercent, ConstantBytes }
constexpr OperatorInfo kTable[] = {
#define OPERATOR(Id, Domain, Name, Since, Types, Where, View, Weight, InPlace, \
                 TakesStrides, Launch, Scratch, ShapeArithmetic)               \
  {Op::Id,         Domain,       Name,           Since,                        \
   Types,          Queue::Where, ViewRule::View, WeightRule::Weight,           \
   InPlace,        TakesStrides, Launch,         Scratch,                      \
   ShapeArithmetic},
#include "offload/OffFormat/Operators.def"
};
#undef SCRATCH

std::string_view canonicalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

bool hasName(const OperatorInfo &row, std::string_view domain,
             std::string_view name) {
  return row.name == name && row.domain == canonicalDomain(domain);
}

std::vector<int> versionsOf(const OperatorInfo &row) {
  std::vector<int> versions;
  const char *at = row.since.data();
  const char *end = at + row.since.size();
  while (at < end) {
    int version = 0;
    at = std::from_chars(at, end, version).ptr;
    versions.push_back(version);
    while (at < end && *at == ' ')
      ++at;
  }
  return versions;
}

bool letterHolds(char letter, DataType type) {
  switch (type) {
  case DataType::Float:
  case DataType::Double:
  case DataType::Float16:
  case DataType::BFloat16:
    return letter == 'f' || letter == '*';
  case DataType::Int8:
  case DataType::UInt8:
    return letter == 'i' || letter == '*' || letter == 'q';
  case DataType::Int16:
  case DataType::Int32:
  case DataType::Int64:
    return letter == 'i' || letter == '*';
  case DataType::UInt16:
    return letter == '*' || letter == 'q';
  case DataType::UInt32:
  case DataType::UInt64:
    return letter == '*';
  case DataType::Bool:
    return letter == 'b' || letter == '*';
  case DataType::Int4:
  case DataType::UInt4:
    return letter == 'q';
  default:
    return false;
  }
}

std::string typesInWords(std::string_view letters) {
  std::string words;
  for (char letter : letters) {
    if (!words.empty())
      words += ", ";
    words += letter == 'f'   ? "float"
             : letter == 'i' ? "integer"
             : letter == 'b' ? "bool"
             : letter == 'q' ? "quantized"
                             : "all";
  }
  return words;
}

std::string operandList(uint32_t mask) {
  std::string list;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1)
      list += (list.empty() ? "" : ", ") + std::to_string(i);
  return list;
}

std::string_view viewInWords(ViewRule view) {
  switch (view) {
  case ViewRule::None:
    return "";
  case ViewRule::Always:
    return "yes";
  case ViewRule::Strided:
    return "strided";
  case ViewRule::Part:
    return "part";
  }
  return "";
}

std::string_view weightInWords(WeightRule weight) {
  constexpr std::string_view words[] = {"", "linear", "conv", "embedding",
                                        "quantized"};
  return words[static_cast<unsigned>(weight)];
}

std::string markdownRow(const OperatorInfo &row) {
  std::string line = "| ";
  auto cell = [&line](std::string_view text) {
    line += text;
    line += text.empty() ? "| " : " | ";
  };
  cell(row.domain.empty()
           ? std::string(row.name)
           : std::string(row.domain) + "." + std::string(row.name));
  cell(row.since);
  cell(typesInWords(row.types));
  cell(queueName(row.queue));
  cell(viewInWords(row.view));
  cell(weightInWords(row.weight));
  cell(row.inPlaceOperand < 0 ? "" : std::to_string(row.inPlaceOperand));
  cell(operandList(row.launchOperands));
  cell(row.shapeArithmetic ? "yes" : "");
  line.pop_back();
  return line + "\n";
}

} // namespace

bool OperatorInfo::covers(int sinceVersion) const {
  for (int version : versionsOf(*this))
    if (version == sinceVersion)
      return true;
  return false;
}

bool OperatorInfo::supportsType(DataType type) const {
  for (char letter : types)
    if (letterHolds(letter, type))
      return true;
  return false;
}

bool isLaunchConstant(Op op, unsigned index, int64_t elements) {
  return op == Op::Gather && index == 1 && elements == 1;
}

ScratchFormula deviceScratch(Op op, DataType type) {
  if (op == Op::MatMul && !isFloating(type)) // both operands in double
    return {800, 800, 8192};
  switch (op) {
#define DEVICE_SCRATCH_OF(Id, Operands, Input, Output, Constant)               \
  case Op::Id:                                                                 \
    return {Input, Output, Constant, Operands};
#define DEVICE_SCRATCH(Id, Input, Output, Constant)                            \
  DEVICE_SCRATCH_OF(Id, ~0u, Input, Output, Constant)
#include "offload/OffFormat/DeviceScratch.def"
  default:
    return operatorInfo(op).scratch;
  }
}

std::span<const OperatorInfo> operatorTable() { return kTable; }

const OperatorInfo *findOperator(std::string_view domain, std::string_view name,
                                 int sinceVersion) {
  for (const OperatorInfo &row : kTable)
    if (hasName(row, domain, name) && row.covers(sinceVersion))
      return &row;
  return nullptr;
}

const OperatorInfo *findOperatorAtOpset(std::string_view domain,
                                        std::string_view name, int opset,
                                        int *since) {
  const OperatorInfo *found = nullptr;
  int best = 0;
  for (const OperatorInfo &row : kTable) {
    if (!hasName(row, domain, name))
      continue;
    for (int version : versionsOf(row)) {
      if (version > opset || version <= best)
        continue;
      best = version;
      found = &row;
    }
  }
  if (found && since)
    *since = best;
  return found;
}

std::string supportedVersions(std::string_view domain, std::string_view name) {
  std::string versions;
  for (const OperatorInfo &row : kTable)
    if (hasName(row, domain, name))
      versions += (versions.empty() ? "" : " ") + std::string(row.since);
  return versions;
}

std::string operatorTableMarkdown() {
  std::string text =
      "# Operators\n\n"
      "Generated by `offload-opt --list-operators=markdown` from\n"
      "`include/offload/OffFormat/Operators.def`; do not edit.\n\n"
      "*Versions*: the since-versions of the operator's schema that are "
      "covered.\n"
      "*Types*: of the first operand. *View*: the output is a second name for\n"
      "the first operand's bytes (strided: only where every reader takes\n"
      "strides; part: for some of them, where the index is a constant of one\n"
      "element, which is a launch operand then). *In place*: the operand "
      "whose\n"
      "bytes the output may take over. *Launch*: operands that must be known\n"
      "before a step starts. *Shape arithmetic*: evaluated on the host where "
      "its\noperands are known there.\n"
      "\n"
      "| Operator | Versions | Types | Queue | View | Weight | In place | "
      "Launch | Shape arithmetic |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const OperatorInfo &row : kTable)
    text += markdownRow(row);
  return text;
}

} // namespace offload
