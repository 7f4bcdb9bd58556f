// Turns a model file into a flat program.
//
// In:  RawModel: names, types, attributes, properties.
// Out: Program: numbered values with homes and planned ranges, nodes with
//      operator rows and queues, in issue order.
// Not: rules about homes, ranges and states (ProgramRules), order between
//      queues (LaunchList), sizes of intermediate values (Shapes).
// How: one walk in node order; a name must be made before it is read, so
//      everything that a node needs is known when it is reached.

#include "offload/Runtime/Program.h"

#include "FoldedReader.h"
#include "ProgramFunctions.h"
#include "ProgramReader.h"
#include "ProgramRules.h"

#include "offload/OffFormat/Properties.h"

#include <algorithm>
#include <charconv>

namespace offload::rt {

namespace {

class ProgramBuilder {
public:
  ProgramBuilder(RawModel model, Program &program)
      : model(std::move(model)), program(program) {}

  void run() {
    checkForm();
    checkFunctions(model);
    readDims();
    addInputsAndConstants();
    readStates();
    for (const RawNode &node : model.nodes)
      addNode(node);
    addOutputs();
    declareResults();
    pairStates();
    readModelProperties();
    readFolded(model, program);
    checkNames(kValuePrefix, "value", valueNumbers);
    checkNames(kNodePrefix, "node", nodeNumbers);
  }

private:
  using Numbers = std::map<std::string, uint32_t, std::less<>>;

  void checkForm();
  void readDims();
  void applyDims(RawType &type, bool isInput);
  void addInputsAndConstants();
  void readStates();
  void addNode(const RawNode &raw);
  void addOutputs();
  void declareResults();
  void pairStates();
  void readModelProperties();
  void checkNames(std::string_view prefix, const char *kind,
                  const Numbers &numbers);

  const OperatorInfo *findRow(const RawNode &raw, int &since);
  void readOperands(const RawNode &raw, ProgramNode &node);
  void addResult(const std::string &name, ProgramNode &node, unsigned index);
  uint32_t launchOperandsOf(const ProgramNode &node) const;
  Home homeOfResult(const ProgramNode &node) const;

  Properties propertiesOf(std::string_view prefix, const std::string &name) {
    auto found = model.properties.find(std::string(prefix) + name);
    return found == model.properties.end() ? Properties()
                                           : parse(found->first, found->second);
  }
  static Properties parse(const std::string &key, const std::string &text) {
    std::string why;
    std::optional<Properties> parsed = Properties::parse(text, &why);
    if (!parsed)
      throw Error("property '" + key + "': " + why);
    return *parsed;
  }
  int64_t wholeNumber(std::string_view key) const {
    auto found = model.properties.find(key);
    if (found == model.properties.end())
      return -1;
    const std::string &text = found->second;
    int64_t number = -1;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
      throw Error("property '" + found->first + "' is '" + text +
                  "', which is no count");
    return number;
  }

  uint32_t addValue(const std::string &name);
  void declareType(ProgramValue &value, const RawType &type) {
    value.type = type.type;
    value.dims = type.dims;
  }
  void readRange(ProgramValue &value, const Properties &properties);

  RawModel model;
  Program &program;
  Numbers valueNumbers, nodeNumbers;
  std::map<std::string, int64_t> bounds;     // by dimension name
  std::map<std::string, int64_t> axisBounds; // by "input:axis"
  std::map<std::string, bool> tokenResults;  // results of Release and Join
};

void ProgramBuilder::checkForm() {
  auto form = model.properties.find(kFormKey);
  std::string found = form == model.properties.end() ? "none" : form->second;
  if (found != "Scheduled")
    throw Error("holds no schedule (form: " + found +
                "): compile it first: offload-opt " + program.path +
                " -o model.off");
  for (const auto &[key, text] : model.properties) {
    if (!key.starts_with(kPropertyPrefix))
      continue;
    bool isKnown = key.starts_with(kNodePrefix) ||
                   key.starts_with(kValuePrefix) ||
                   key.starts_with(kStatePrefix) ||
                   std::find(kModelKeys.begin(), kModelKeys.end(), key) !=
                       kModelKeys.end();
    if (!isKnown)
      throw Error("has the property '" + key +
                  "', which no scheduled file has");
  }
}

/// "batch<=4 seq=128 x:1<=48"; %20 and %25 stand for a blank and '%'.
void ProgramBuilder::readDims() {
  auto found = model.properties.find(kDimsKey);
  if (found == model.properties.end())
    return;
  const std::string &text = found->second;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string part = text.substr(at, end - at);
    at = end + 1;
    for (size_t i = 0; (i = part.find('%', i)) != std::string::npos; ++i)
      part.replace(i, 3, part.substr(i, 3) == "%20" ? " " : "%");
    size_t equals = part.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Error("property 'offload.dims' is '" + text + "'");
    bool isBound = part[equals - 1] == '<';
    int64_t size = 0;
    const char *last = part.data() + part.size();
    if (std::from_chars(part.data() + equals + 1, last, size).ptr != last)
      throw Error("property 'offload.dims' is '" + text + "'");
    std::string target = part.substr(0, equals - isBound);
    bounds[target] = axisBounds[target] = size;
  }
}

/// Gives dynamic dimensions their bounds. One that is bounded by input and axis
/// passes its bound on to all of its name.
void ProgramBuilder::applyDims(RawType &type, bool isInput) {
  for (size_t axis = 0; axis < type.dims.size(); ++axis) {
    Dimension &dim = type.dims[axis];
    if (dim.size >= 0)
      continue;
    auto byAxis = axisBounds.find(type.name + ":" + std::to_string(axis));
    auto byName = bounds.find(dim.name);
    if (isInput && byAxis != axisBounds.end())
      bounds[dim.name] = dim.size = byAxis->second;
    else if (!dim.name.empty() && byName != bounds.end())
      dim.size = byName->second;
    if (dim.name.empty() && dim.size >= 0)
      dim.name = type.name + ":" + std::to_string(axis);
  }
}

uint32_t ProgramBuilder::addValue(const std::string &name) {
  auto number = static_cast<uint32_t>(program.values.size());
  if (!valueNumbers.emplace(name, number).second)
    throw Error("value '" + name + "' is made twice");
  ProgramValue &value = program.values.emplace_back();
  value.name = name;
  value.root = number;
  return number;
}

void ProgramBuilder::readRange(ProgramValue &value,
                               const Properties &properties) {
  std::string_view residency = properties.get("residency");
  value.resident = residency == "resident";
  if (properties.has("offset")) {
    std::optional<int64_t> offset = properties.getInt("offset");
    std::optional<int64_t> bytes = properties.getInt("bytes");
    if (!offset || !bytes || *offset < 0 || *bytes < 0 ||
        *offset % kAlignBytes || *offset > INT64_MAX - *bytes)
      throw Error("value '" + value.name + "' has no valid range: offset=" +
                  std::string(properties.get("offset")) +
                  " bytes=" + std::string(properties.get("bytes")));
    value.offset = *offset;
    value.plannedBytes = *bytes;
  }
}

void ProgramBuilder::addInputsAndConstants() {
  for (RawType &type : model.inputs) {
    applyDims(type, true);
    uint32_t number = addValue(type.name);
    ProgramValue &value = program.values[number];
    declareType(value, type);
    value.isInput = true;
    readRange(value, propertiesOf(kValuePrefix, type.name));
    program.inputs.push_back(number);
  }
  for (const RawConstant &constant : model.constants) {
    auto known = valueNumbers.find(constant.type.name);
    uint32_t number = known == valueNumbers.end() ? addValue(constant.type.name)
                                                  : known->second;
    ProgramValue &value = program.values[number];
    if (value.hasContents)
      throw Error("tensor '" + value.name + "' is there twice");
    if (value.isInput && value.type != constant.type.type)
      throw Error("input '" + value.name + "' has a default of another type");
    if (!value.isInput)
      readRange(value, propertiesOf(kValuePrefix, value.name));
    declareType(value, value.isInput
                           ? RawType{value.name, value.type, value.dims}
                           : constant.type);
    for (size_t axis = 0; value.isInput && axis < value.dims.size(); ++axis)
      if (value.dims.size() != constant.type.dims.size() ||
          (value.dims[axis].size >= 0 &&
           value.dims[axis].size < constant.type.dims[axis].size))
        throw Error("input '" + value.name +
                    "' has a default of another shape");
    value.hasContents = true;
    value.contents = constant.contents;
    value.contentDims.clear();
    for (const Dimension &dim : constant.type.dims)
      value.contentDims.push_back(dim.size);
  }
}

/// A state whose next value is a token has no bytes; nodes that read it need to
/// know that before its maker is reached.
void ProgramBuilder::readStates() {
  for (const RawNode &node : model.nodes)
    if (node.domain == "offload" && (node.op == "Release" || node.op == "Join"))
      for (const std::string &name : node.outputs)
        tokenResults[name] = true;
  for (uint32_t input : program.inputs) {
    ProgramValue &value = program.values[input];
    auto next = model.properties.find(std::string(kStatePrefix) + value.name);
    if (next == model.properties.end())
      continue;
    value.next = input; // the output's number is set once it is known
    if (tokenResults.contains(next->second))
      value.home = Home::Token;
  }
}

const OperatorInfo *ProgramBuilder::findRow(const RawNode &raw, int &since) {
  auto opset = model.opsets.find(raw.domain);
  if (opset == model.opsets.end())
    throw Error("[" + raw.name + "]: the model imports no version of domain '" +
                (raw.domain.empty() ? "ai.onnx" : raw.domain) + "'");
  const OperatorInfo *row =
      findOperatorAtOpset(raw.domain, raw.op, opset->second, &since);
  if (!row)
    throw Error("[" + raw.name + "]: there is no operator " +
                (raw.domain.empty() ? "" : raw.domain + ".") + raw.op +
                " of version " + std::to_string(opset->second));
  return row;
}

void ProgramBuilder::readOperands(const RawNode &raw, ProgramNode &node) {
  auto number = static_cast<uint32_t>(program.nodes.size());
  for (const std::string &name : raw.operands) {
    if (name.empty()) {
      node.operands.push_back(kNone);
      continue;
    }
    auto found = valueNumbers.find(name);
    if (found == valueNumbers.end())
      throw Error("[" + raw.name + "] reads '" + name +
                  "', which no node before it makes");
    node.operands.push_back(found->second);
    std::vector<uint32_t> &readers = program.values[found->second].readers;
    if (readers.empty() || readers.back() != number)
      readers.push_back(number);
  }
}

uint32_t ProgramBuilder::launchOperandsOf(const ProgramNode &node) const {
  uint32_t operands = node.op->launchOperands;
  for (unsigned i = 0; i < node.operands.size() && i < 32; ++i) {
    if (node.operands[i] == kNone)
      continue;
    const ProgramValue &value = program.values[node.operands[i]];
    int64_t elements = 1;
    for (int64_t dim : value.contentDims)
      elements *= dim;
    if (value.isConstant() && isLaunchConstant(node.op->id, i, elements))
      operands |= 1u << i;
  }
  return operands;
}

Home ProgramBuilder::homeOfResult(const ProgramNode &node) const {
  if (node.queue == Queue::Launch)
    return Home::Launch;
  if (node.is(Op::Offload_Release) || node.is(Op::Offload_Join))
    return Home::Token;
  if (node.is(Op::Offload_Wait))
    return node.operands.empty() || node.operands[0] == kNone
               ? Home::Token
               : program.values[node.operands[0]].home;
  return node.queue == Queue::Compute || node.queue == Queue::H2D ? Home::Device
                                                                  : Home::Host;
}

void ProgramBuilder::addResult(const std::string &name, ProgramNode &node,
                               unsigned index) {
  uint32_t number = addValue(name);
  node.outputs.push_back(number);
  ProgramValue &value = program.values[number];
  value.maker = static_cast<uint32_t>(program.nodes.size());
  value.home = homeOfResult(node);
  Properties properties = propertiesOf(kValuePrefix, name);
  readRange(value, properties);
  if (value.resident)
    throw Error("value '" + name + "' is made by [" + node.name +
                "]: only constants and states are resident");
  auto valueNamed = [&](std::string_view key) {
    auto found = valueNumbers.find(properties.get(key));
    if (found == valueNumbers.end() || found->second == number)
      throw Error("value '" + name + "' has " + std::string(key) + "=" +
                  std::string(properties.get(key)) +
                  ", and no such value is made before it");
    return found->second;
  };
  bool isWait = node.is(Op::Offload_Wait);
  node.isView |= properties.has("view");
  if ((properties.has("view") || isWait) && index == 0 &&
      !node.operands.empty() && node.operands[0] != kNone) {
    value.root = program.values[node.operands[0]].root;
    if (properties.has("view") &&
        program.values[valueNamed("view")].root != value.root)
      throw Error("value '" + name + "' is a view of '" +
                  std::string(properties.get("view")) + "', but [" + node.name +
                  "] reads other bytes");
  } else if (properties.has("view")) {
    throw Error("value '" + name + "' is a view, but [" + node.name +
                "] has no operand for it");
  }
  if (properties.has("inplace")) {
    value.inPlaceOf = program.values[valueNamed("inplace")].root;
    value.offset = program.values[value.inPlaceOf].offset;
    value.plannedBytes = program.values[value.inPlaceOf].plannedBytes;
  }
}

void ProgramBuilder::addNode(const RawNode &raw) {
  if (raw.name.empty())
    throw Error("a node of operator " + raw.op + " has no name");
  auto number = static_cast<uint32_t>(program.nodes.size());
  if (!nodeNumbers.emplace(raw.name, number).second)
    throw Error("two nodes are named '" + raw.name + "'");
  ProgramNode node;
  node.name = raw.name;
  node.op = findRow(raw, node.sinceVersion);
  node.attributes = raw.attributes;
  node.queue = node.op->queue;
  Properties properties = propertiesOf(kNodePrefix, raw.name);
  if (properties.has("queue")) {
    std::optional<Queue> queue = parseQueue(properties.get("queue"));
    if (!queue)
      throw Error("[" + raw.name + "] is on queue '" +
                  std::string(properties.get("queue")) + "', which is none");
    node.queue = *queue;
  }
  node.scratchBytes = properties.getInt("scratch").value_or(0);
  readOperands(raw, node);
  node.launchOperands = launchOperandsOf(node);
  for (unsigned i = 0; i < raw.outputs.size(); ++i)
    if (raw.outputs[i].empty())
      node.outputs.push_back(kNone);
    else
      addResult(raw.outputs[i], node, i);
  checkArity(node, raw.overload);
  program.nodes.push_back(std::move(node));
}

void ProgramBuilder::addOutputs() {
  for (RawType &type : model.outputs) {
    applyDims(type, false);
    auto found = valueNumbers.find(type.name);
    if (found == valueNumbers.end())
      throw Error("output '" + type.name + "' is made by no node");
    ProgramValue &value = program.values[found->second];
    if (value.isOutput)
      throw Error("output '" + type.name + "' is there twice");
    value.isOutput = true;
    if (!value.isInput && !value.hasContents)
      declareType(value, type);
    program.outputs.push_back(found->second);
  }
}

/// Types of results that are no outputs; the dry run compares.
void ProgramBuilder::declareResults() {
  for (RawType &type : model.declared) {
    auto found = valueNumbers.find(type.name);
    if (found == valueNumbers.end())
      continue;
    ProgramValue &value = program.values[found->second];
    if (value.maker == kNone || value.type != DataType::Undefined)
      continue;
    applyDims(type, false);
    declareType(value, type);
  }
}

void ProgramBuilder::pairStates() {
  for (const auto &[key, name] : model.properties) {
    if (!key.starts_with(kStatePrefix))
      continue;
    std::string input = key.substr(kStatePrefix.size());
    auto before = valueNumbers.find(input), after = valueNumbers.find(name);
    if (before == valueNumbers.end() || after == valueNumbers.end() ||
        !program.values[before->second].isInput ||
        !program.values[after->second].isOutput)
      throw Error("state '" + input + "' pairs no input with an output: '" +
                  name + "'");
    ProgramValue &output = program.values[after->second];
    if (output.stateOf != kNone)
      throw Error("output '" + name + "' is the next value of two states");
    output.stateOf = before->second;
    program.values[before->second].next = after->second;
    if (output.home == Home::Launch)
      program.values[before->second].home = Home::Launch;
  }
}

void ProgramBuilder::readModelProperties() {
  auto scratch = model.properties.find(kScratchKey);
  if (scratch != model.properties.end()) {
    Properties range = parse(scratch->first, scratch->second);
    program.scratchOffset = range.getInt("offset").value_or(-1);
    program.scratchBytes = range.getInt("bytes").value_or(-1);
    if (program.scratchOffset < 0 || program.scratchBytes < 0 ||
        program.scratchOffset % kAlignBytes ||
        program.scratchOffset > INT64_MAX - program.scratchBytes)
      throw Error("property 'offload.scratch' is '" + scratch->second + "'");
    program.peakBytes = program.scratchOffset + program.scratchBytes;
  }
  for (const ProgramValue &value : program.values)
    if (value.offset >= 0)
      program.peakBytes =
          std::max(program.peakBytes, value.offset + value.plannedBytes);
  program.predictedStepNs = std::max<int64_t>(0, wholeNumber(kStepNsKey));
  program.plannedPeakBytes = wholeNumber(kPeakBytesKey);
  program.deviceMemoryBytes = wholeNumber(kDeviceMemoryKey);
}

void ProgramBuilder::checkNames(std::string_view prefix, const char *kind,
                                const Numbers &numbers) {
  for (const auto &[key, text] : model.properties)
    if (key.starts_with(prefix) &&
        !numbers.contains(std::string_view(key).substr(prefix.size())))
      throw Error("property '" + key + "' is of no " + kind + " there is");
}

} // namespace

Program Program::read(const std::string &path,
                      const std::vector<std::string> &dataFolders) {
  Program program;
  program.path = path;
  try {
    program.files = std::make_shared<DataFiles>(path, dataFolders);
    ProgramBuilder(readModel(path, *program.files), program).run();
    checkRules(program);
  } catch (const CannotRead &) {
    throw; // names the file
  } catch (const Error &error) {
    throw Error("'" + path + "': " + error.what());
  }
  return program;
}

std::string Program::describe(uint32_t node) const {
  const ProgramNode &found = nodes[node];
  std::string domain(found.op->domain);
  return "[" + found.name + "] " + (domain.empty() ? "" : domain + ".") +
         std::string(found.op->name) + " on " +
         std::string(queueName(found.queue));
}

uint32_t Program::findValue(std::string_view name) const {
  for (uint32_t i = 0; i < values.size(); ++i)
    if (values[i].name == name)
      return i;
  return kNone;
}

} // namespace offload::rt
