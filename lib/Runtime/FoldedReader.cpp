// Reads how a file's constants were folded.
//
// In:  the function `offload.Folded` as the file has it.
// Out: its nodes with their rows, and the constants that it reads and made.
// Not: running them (Folding).

#include "FoldedReader.h"

#include <set>

namespace offload::rt {

namespace {

constexpr const char *kWhere = "function 'offload.Folded': ";

uint32_t constantOf(const Program &program, const std::string &name) {
  uint32_t number = program.findValue(name);
  if (number == kNone || !program.values[number].isConstant())
    throw Error(kWhere + ("'" + name) + "' is no constant of the graph");
  return number;
}

FoldedNode nodeOf(const RawNode &raw, int opset) {
  FoldedNode node;
  node.name = raw.name;
  node.attributes = raw.attributes;
  node.operands = raw.operands;
  node.outputs = raw.outputs;
  node.op = findOperatorAtOpset(raw.domain, raw.op, opset, &node.sinceVersion);
  if (!raw.domain.empty() || !node.op || !node.op->shapeArithmetic)
    throw Error(kWhere + ("[" + raw.name) + "] " + raw.op +
                " is no shape arithmetic");
  return node;
}

} // namespace

void readFolded(const RawModel &model, Program &program) {
  if (!model.folded)
    return;
  const FoldedFunction &function = *model.folded;
  auto standard = model.opsets.find("");
  if (standard == model.opsets.end() ||
      function.opsets != std::map<std::string, int>{*standard})
    throw Error(std::string(kWhere) + "imports other opsets than the model");
  std::set<std::string> known = {""};
  for (const std::string &input : function.inputs) {
    program.foldedFrom.push_back(constantOf(program, input));
    known.insert(input);
  }
  for (const RawNode &raw : function.nodes) {
    program.folded.push_back(nodeOf(raw, standard->second));
    for (const std::string &operand : raw.operands)
      if (!known.contains(operand))
        throw Error(kWhere + ("[" + raw.name) + "] reads '" + operand +
                    "', which nothing in it makes");
    known.insert(raw.outputs.begin(), raw.outputs.end());
  }
  for (const std::string &output : function.outputs) {
    program.foldedTo.push_back(constantOf(program, output));
    if (!known.contains(output))
      throw Error(kWhere + ("'" + output) + "' is made by nothing in it");
  }
}

} // namespace offload::rt
