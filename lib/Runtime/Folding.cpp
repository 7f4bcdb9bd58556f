// Constants that the compiler made from others, made anew.
//
// In:  the nodes that it ran, and contents of what they read.
// Out: contents of what they made.
// Not: when, and where they go (Weights).
// How: the evaluator that the compiler folded with runs the same nodes in the
//      same order. Names are the function's own; a constant's name stands for
//      it until a node makes a value of that name.

#include "Folding.h"

namespace offload::rt {

std::set<uint32_t> foldedFrom(const Program &program, uint32_t constant) {
  std::set<std::string> reached = {program.values[constant].name};
  for (const FoldedNode &node : program.folded)
    for (const std::string &operand : node.operands)
      if (!operand.empty() && reached.contains(operand))
        reached.insert(node.outputs.begin(), node.outputs.end());
  std::set<uint32_t> folded;
  for (uint32_t made : program.foldedTo)
    if (made != constant && reached.contains(program.values[made].name))
      folded.insert(made);
  return folded;
}

static void runNode(const FoldedNode &node,
                    std::map<std::string, HostValue> &known) {
  std::vector<ShapeOperand> operands(node.operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    if (auto value = known.find(node.operands[i]); value != known.end())
      operands[i] = {&value->second, &value->second.dims, value->second.type};
  ShapeResult result = evaluateShapeArithmetic(
      *node.op, node.sinceVersion, node.attributes, operands,
      static_cast<unsigned>(node.outputs.size()));
  if (!result.error.empty())
    throw Error("[" + node.name + "] " + std::string(node.op->name) +
                ", which was folded: " + result.error);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty())
      known[node.outputs[i]] = std::move(result.outputs[i]);
}

std::map<uint32_t, HostValue>
foldAnew(const Program &program, const std::set<uint32_t> &wanted,
         const std::function<HostValue(uint32_t)> &contentsOf) {
  std::map<std::string, HostValue> known;
  for (uint32_t source : program.foldedFrom)
    known[program.values[source].name] = contentsOf(source);
  for (const FoldedNode &node : program.folded)
    runNode(node, known);
  std::map<uint32_t, HostValue> made;
  for (uint32_t constant : wanted) {
    const ProgramValue &value = program.values[constant];
    HostValue &result = known.at(value.name);
    if (result.type != value.type || result.dims != value.contentDims)
      throw Error("'" + value.name +
                  "', which was folded, would be of another size");
    made[constant] = std::move(result);
  }
  return made;
}

} // namespace offload::rt
