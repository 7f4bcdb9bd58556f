// Binds a program to the shapes of one step's feeds.
//
// In:  feeds' dimensions, and the values of those that the launching thread
//      reads.
// Out: type, dimensions, strides and bytes of every value; launch values; one
//      kernel call and profile for each kernel.
// Not: memory and order.
// How: one walk in node order: launch nodes are evaluated, views computed, and
//      what a kernel makes is learned from its dry run. Steps with the same
//      key share a binding. Launch values that change no shape (rates of
//      updates) are not part of the key and are evaluated anew for each run.

#include "Shapes.h"

#include <algorithm>

namespace offload::rt {

/// One walk over the nodes.
class Binder {
public:
  Binder(Shapes &shapes, const FeedShapes *feeds)
      : shapes(shapes), program(shapes.program), feeds(feeds),
        made(std::make_shared<Binding>()) {}

  std::shared_ptr<const Binding> run() {
    made->values.resize(program.values.size());
    made->launch = shapes.constants;
    made->calls.resize(program.nodes.size());
    made->profiles.resize(program.nodes.size());
    bindSources();
    for (uint32_t i = 0; i < program.nodes.size(); ++i) {
      try {
        bindNode(i);
      } catch (const std::exception &error) {
        throw Error(program.describe(i) + ": " + error.what());
      }
    }
    if (!feeds)
      for (uint32_t i = 0; i < program.values.size(); ++i)
        checkDeclared(i);
    return made;
  }

private:
  void bindSources();
  void bindNode(uint32_t number);
  void bindLaunch(const ProgramNode &node);
  void bindCopy(const ProgramNode &node);
  void bindView(const ProgramNode &node);
  void bindKernel(uint32_t number);
  bool fillCall(const ProgramNode &node, KernelCall &call);
  void readResidents(const ProgramNode &node, KernelCall &trial) const;
  void checkFits(const ProgramNode &node, unsigned output) const;
  void checkDeclared(uint32_t number) const;

  BoundValue &valueAt(uint32_t number) { return made->values[number]; }
  HostValuePointer launchAt(uint32_t number) const {
    return made->launch[number];
  }

  Shapes &shapes;
  const Program &program;
  const FeedShapes *feeds; // null: at the bound
  std::shared_ptr<Binding> made;
};

void Binder::bindSources() {
  for (uint32_t number = 0; number < program.values.size(); ++number) {
    const ProgramValue &value = program.values[number];
    if (value.isConstant())
      valueAt(number) = contiguousValue(value.type, value.contentDims);
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    uint32_t number = program.inputs[i];
    const ProgramValue &value = program.values[number];
    std::vector<int64_t> dims;
    for (const Dimension &dim : value.dims)
      dims.push_back(dim.size);
    if (feeds && value.isFeed())
      dims = feeds->dims[i];
    if (std::find(dims.begin(), dims.end(), -1) == dims.end())
      valueAt(number) = contiguousValue(value.type, std::move(dims));
    if (feeds && shapes.fedIndex[number] != kNone)
      made->launch[number] = feeds->values[i];
  }
}

void Binder::bindNode(uint32_t number) {
  const ProgramNode &node = program.nodes[number];
  if (node.queue == Queue::Launch)
    bindLaunch(node);
  else if (node.isCopy())
    bindCopy(node);
  else if (node.isView || node.is(Op::Offload_Wait))
    bindView(node);
  else if (node.isKernel())
    bindKernel(number);
}

void Binder::bindLaunch(const ProgramNode &node) {
  std::vector<ShapeOperand> operands(node.operands.size());
  bool shapeOnly = node.is(Op::Shape) || node.is(Op::Size);
  for (size_t i = 0; i < operands.size(); ++i) {
    uint32_t operand = node.operands[i];
    if (operand == kNone)
      continue;
    const BoundValue &bound = valueAt(operand);
    operands[i].value = launchAt(operand).get();
    operands[i].type = bound.type;
    operands[i].dims = &bound.dims;
    if (shapeOnly ? !bound.isKnown : !operands[i].value)
      return;
  }
  ShapeResult result = evaluateShapeArithmetic(
      *node.op, node.sinceVersion, node.attributes, operands, node.numParts());
  if (!result.error.empty())
    throw Error(result.error);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    uint32_t output = node.outputs[i];
    if (output == kNone)
      continue;
    valueAt(output) =
        contiguousValue(result.outputs[i].type, result.outputs[i].dims);
    made->launch[output] =
        std::make_shared<HostValue>(std::move(result.outputs[i]));
  }
}

void Binder::bindCopy(const ProgramNode &node) {
  for (unsigned i = 0; i < node.numParts(); ++i) {
    const BoundValue &from = valueAt(node.operands[i]);
    if (!from.isKnown)
      continue;
    if (!isContiguous(from))
      throw Error("copies '" + program.values[node.operands[i]].name +
                  "', whose elements do not lie in order");
    valueAt(node.outputs[i]) = contiguousValue(from.type, from.dims);
    checkFits(node, i);
  }
}

void Binder::bindView(const ProgramNode &node) {
  uint32_t output = node.outputs[0];
  if (output == kNone || node.operands[0] == kNone)
    return;
  const BoundValue &operand = valueAt(node.operands[0]);
  HostValuePointer launch;
  bool hasLaunch = node.operands.size() > 1 && node.operands[1] != kNone &&
                   node.isLaunchOperand(1);
  if (hasLaunch)
    launch = launchAt(node.operands[1]);
  if (operand.isKnown && (!hasLaunch || launch))
    valueAt(output) = viewOf(node, operand, launch.get());
}

/// Whether all operands are known.
bool Binder::fillCall(const ProgramNode &node, KernelCall &call) {
  call.op = node.op->id;
  call.sinceVersion = node.sinceVersion;
  call.attributes = &node.attributes;
  call.numOutputs = node.numParts();
  call.deterministic = shapes.deterministic;
  for (unsigned i = 0; i < node.operands.size(); ++i) {
    TensorView &view = call.operands.emplace_back();
    const HostValue *&launch = call.launch.emplace_back(nullptr);
    uint32_t operand = node.operands[i];
    if (operand == kNone)
      continue;
    const BoundValue &bound = valueAt(operand);
    if (!bound.isKnown)
      return false;
    view.type = bound.type;
    view.dims = bound.dims;
    view.strides = bound.strides;
    if (!node.isLaunchOperand(i))
      continue;
    launch = launchAt(operand).get();
    if (!launch && launchValuesMatter(node.op->id))
      return false;
  }
  for (uint32_t output : node.outputs)
    call.wanted.push_back(
        output != kNone &&
        (program.values[output].offset >= 0 || node.queue == Queue::Host));
  return true;
}

/// Points operands that are resident constants to where they lie. States keep
/// zeros: no trial of an update may touch them.
void Binder::readResidents(const ProgramNode &node, KernelCall &trial) const {
  for (unsigned i = 0; i < node.operands.size(); ++i) {
    uint32_t operand = node.operands[i];
    if (operand == kNone || node.isLaunchOperand(i))
      continue;
    const ProgramValue &root = program.values[program.values[operand].root];
    if (root.resident && root.isConstant())
      trial.operands[i].data =
          shapes.arena + root.offset + made->values[operand].offsetBytes;
  }
}

void Binder::bindKernel(uint32_t number) {
  const ProgramNode &node = program.nodes[number];
  KernelCall call;
  if (!fillCall(node, call))
    return;
  // Scalars that are not there yet stand for ones of their type.
  std::vector<HostValue> scalars;
  scalars.reserve(node.operands.size());
  KernelCall trial = call;
  for (unsigned i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] != kNone && node.isLaunchOperand(i) &&
        !call.launch[i]) {
      HostValue one{call.operands[i].type, call.operands[i].dims, {}, {}};
      auto count = static_cast<size_t>(one.numElements());
      one.isReal() ? one.reals.assign(count, 1) : one.ints.assign(count, 1);
      scalars.push_back(std::move(one));
      trial.launch[i] = &scalars.back();
    }
  if (node.queue == Queue::Compute) {
    trial.plannedScratchBytes = call.plannedScratchBytes = node.scratchBytes;
    if (shapes.arena)
      readResidents(node, trial);
  }
  std::shared_ptr<const KernelProfile> profile =
      shapes.dryRun.profile(node.queue, trial);
  if (node.queue == Queue::Host)
    made->hostScratchBytes =
        std::max(made->hostScratchBytes, profile->scratchBytes);
  else if (profile->scratchBytes > node.scratchBytes)
    throw Error("takes " + std::to_string(profile->scratchBytes) +
                " bytes of scratch, and " + std::to_string(node.scratchBytes) +
                " are planned: plan again with scratch=" +
                std::to_string(alignUp(profile->scratchBytes)) +
                " in the property 'offload.node." + node.name + "'");
  for (unsigned i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone)
      continue;
    valueAt(node.outputs[i]) =
        contiguousValue(profile->outputs[i].type, profile->outputs[i].dims);
    checkFits(node, i);
  }
  made->calls[number] = std::move(call);
  made->profiles[number] = std::move(profile);
}

void Binder::checkFits(const ProgramNode &node, unsigned output) const {
  uint32_t number = node.outputs[output];
  const ProgramValue &value = program.values[number];
  const BoundValue &bound = made->values[number];
  if (value.offset < 0)
    return;
  bool fits = value.inPlaceOf == kNone
                  ? bound.bytes <= value.plannedBytes
                  : bound.bytes == made->values[value.inPlaceOf].bytes;
  if (!fits)
    throw Error("makes '" + value.name + "' of " + std::to_string(bound.bytes) +
                " bytes, " + printShape(bound.type, bound.dims) +
                ", and its place has " + std::to_string(value.plannedBytes));
}

/// What the file says of a result, against what its node makes. A token has no
/// bytes, and is a bool to other runtimes.
void Binder::checkDeclared(uint32_t number) const {
  const ProgramValue &value = program.values[number];
  if (value.maker == kNone || value.type == DataType::Undefined)
    return;
  bool isToken = value.home == Home::Token;
  const BoundValue &bound =
      isToken ? contiguousValue(DataType::Bool, {}) : made->values[number];
  if (!bound.isKnown)
    return;
  bool agrees =
      value.type == bound.type && value.dims.size() == bound.dims.size();
  std::string declared;
  for (size_t axis = 0; axis < value.dims.size(); ++axis) {
    const Dimension &dim = value.dims[axis];
    declared += (axis ? "," : "") +
                (dim.size < 0 ? dim.name : std::to_string(dim.size));
    agrees &= dim.size < 0 || axis >= bound.dims.size() ||
              dim.size == bound.dims[axis];
  }
  if (!agrees)
    throw Error(program.describe(value.maker) + " makes '" + value.name +
                "' of " + printShape(bound.type, bound.dims) +
                ", and the file declares it " +
                std::string(dataTypeName(value.type)) + "[" + declared +
                "]: compile the model again");
}

Shapes::Shapes(const Program &program, Device &device, bool deterministic)
    : program(program), deterministic(deterministic), dryRun(device) {
  constants.resize(program.values.size());
  for (uint32_t i = 0; i < program.values.size(); ++i) {
    const ProgramValue &value = program.values[i];
    if (!value.isConstant())
      continue;
    bool isRead = std::any_of(
        value.readers.begin(), value.readers.end(), [&](uint32_t reader) {
          const ProgramNode &node = program.nodes[reader];
          for (unsigned k = 0; k < node.operands.size(); ++k)
            if (node.operands[k] == i &&
                (node.queue == Queue::Launch || node.isLaunchOperand(k)))
              return true;
          return false;
        });
    if (isRead)
      constants[i] = std::make_shared<HostValue>(HostValue::fromBytes(
          value.type, value.contentDims,
          {reinterpret_cast<const uint8_t *>(value.contents.data()),
           value.contents.size()}));
  }
  findFedValues();
}

void Shapes::findFedValues() {
  fedIndex.assign(program.values.size(), kNone);
  for (const ProgramNode &node : program.nodes)
    for (unsigned k = 0; k < node.operands.size(); ++k) {
      uint32_t operand = node.operands[k];
      bool byValue = node.queue == Queue::Launch
                         ? !node.is(Op::Shape) && !node.is(Op::Size)
                         : node.isLaunchOperand(k);
      if (operand != kNone && byValue && program.values[operand].isInput &&
          fedIndex[operand] == kNone)
        fedIndex[operand] = numFed++;
    }
  for (uint32_t input : program.inputs)
    if (program.values[input].home == Home::Launch && fedIndex[input] == kNone)
      fedIndex[input] = numFed++;
  for (const ProgramNode &node : program.nodes) {
    if (node.queue != Queue::Launch || node.is(Op::Shape) || node.is(Op::Size))
      continue;
    bool isFed = std::any_of(
        node.operands.begin(), node.operands.end(), [&](uint32_t operand) {
          return operand != kNone && fedIndex[operand] != kNone;
        });
    for (uint32_t output : node.outputs)
      if (isFed && output != kNone)
        fedIndex[output] = numFed++;
  }
  shaping.assign(program.values.size(), false);
  for (uint32_t number = static_cast<uint32_t>(program.values.size());
       number-- > 0;)
    shaping[number] = fedIndex[number] != kNone && decidesShapes(number);
}

/// Readers come after what they read, so their results are judged already.
bool Shapes::decidesShapes(uint32_t value) const {
  for (uint32_t reader : program.values[value].readers) {
    const ProgramNode &node = program.nodes[reader];
    if (node.queue == Queue::Launch) {
      for (uint32_t output : node.outputs)
        if (output != kNone && shaping[output])
          return true;
      continue;
    }
    if (node.isCopy() && program.values[value].home == Home::Launch)
      return true;
    for (unsigned k = 0; k < node.operands.size(); ++k)
      if (node.operands[k] == value && node.isLaunchOperand(k) &&
          launchValuesMatter(node.op->id))
        return true;
  }
  return false;
}

/// Throws for the first value in node order whose size differs.
static void checkSameSizes(const Program &program, const Binding &before,
                           const Binding &after) {
  for (uint32_t number = 0; number < program.values.size(); ++number) {
    const BoundValue &old = before.values[number], &made = after.values[number];
    if (old.isKnown == made.isKnown && old.dims == made.dims)
      continue;
    const ProgramValue &value = program.values[number];
    throw Error(program.describe(value.maker) + " would make '" + value.name +
                "' of " + printShape(made.type, made.dims) + ", not of " +
                printShape(old.type, old.dims) +
                " as planned: change the model and compile again");
  }
}

void Shapes::setConstants(const std::map<uint32_t, HostValuePointer> &changes,
                          const Binding &bound) {
  std::vector<HostValuePointer> before = constants;
  try {
    for (const auto &[number, value] : changes)
      constants[number] = value;
    checkSameSizes(program, bound, *bindAtBound());
  } catch (...) {
    constants = std::move(before);
    throw;
  }
  recent.clear();
}

std::shared_ptr<const Binding> Shapes::bindAtBound() {
  return Binder(*this, nullptr).run();
}

std::shared_ptr<const Binding> Shapes::bind(const FeedShapes &feeds) {
  std::string key;
  auto add = [&key](const void *data, size_t bytes) {
    key.append(static_cast<const char *>(data), bytes);
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    uint32_t number = program.inputs[i];
    if (program.values[number].isFeed())
      add(feeds.dims[i].data(), feeds.dims[i].size() * sizeof(int64_t));
    if (!shaping[number])
      continue;
    std::vector<uint8_t> bytes = feeds.values[i]->toBytes();
    add(bytes.data(), bytes.size());
  }
  for (auto at = recent.begin(); at != recent.end(); ++at)
    if (at->first == key) {
      recent.splice(recent.begin(), recent, at);
      return at->second;
    }
  std::shared_ptr<const Binding> made = Binder(*this, &feeds).run();
  recent.emplace_front(std::move(key), made);
  if (recent.size() > kMostBindings)
    recent.pop_back();
  return made;
}

FedValues Shapes::evaluateFed(const Binding &binding,
                              const FeedShapes &feeds) const {
  FedValues fed(numFed);
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (fedIndex[program.inputs[i]] != kNone)
      fed[fedIndex[program.inputs[i]]] = feeds.values[i];
  for (uint32_t number = 0; number < program.nodes.size(); ++number) {
    const ProgramNode &node = program.nodes[number];
    bool isFed =
        node.queue == Queue::Launch &&
        std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](uint32_t output) {
                      return output != kNone && fedIndex[output] != kNone;
                    });
    if (!isFed)
      continue;
    std::vector<ShapeOperand> operands(node.operands.size());
    for (size_t k = 0; k < operands.size(); ++k)
      if (node.operands[k] != kNone) {
        const BoundValue &bound = binding.values[node.operands[k]];
        operands[k] = {launchValue(binding, fed, node.operands[k]), &bound.dims,
                       bound.type};
      }
    ShapeResult result =
        evaluateShapeArithmetic(*node.op, node.sinceVersion, node.attributes,
                                operands, node.numParts());
    if (!result.error.empty())
      throw Error(program.describe(number) + ": " + result.error);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone)
        fed[fedIndex[node.outputs[k]]] =
            std::make_shared<HostValue>(std::move(result.outputs[k]));
  }
  return fed;
}

} // namespace offload::rt
