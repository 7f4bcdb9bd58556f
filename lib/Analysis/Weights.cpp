// Finds weights: constants, what computes with them, what travels together.
//
// In:  a graph of any form, with operator rows.
// Out: the weights in order of first use; the kind of each node.
// Not: where a weight lives (the plan), writing kinds down (classify).
// How: each constant is followed from the operand that reads it back through
//      views, copies and waits. Each reading then proposes the constant that
//      it would travel with: a scale its packed values, a bias the weight of
//      its product, a weight itself. What is read in one such way only rides.
//      A schedule's Stage nodes join the same constants.

#include "offload/Analysis/Weights.h"

#include "offload/Analysis/LaunchValues.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace offload {
namespace {

/// Overloads of Stage copy up to four values.
constexpr unsigned kMaxParts = 4;

bool isStandard(const Node &node, llvm::StringRef opType) {
  return node.domain.empty() && node.opType == opType;
}

/// Whether result 0 is operand 0 under other strides or another shape.
bool isReshaping(const Node &node) {
  return node.domain.empty() &&
         llvm::StringSwitch<bool>(node.opType)
             .Cases("Identity", "Transpose", "Reshape", "Flatten", "Squeeze",
                    "Unsqueeze", true)
             .Default(false);
}

/// Whether the results are the operands themselves, only elsewhere or later.
bool isMoving(const Node &node) {
  return node.isOffload("Stage") || node.isOffload("Wait");
}

bool isPackedType(DataType type) {
  return type == DataType::Int8 || type == DataType::UInt8 ||
         type == DataType::Int4 || type == DataType::UInt4;
}

/// The operand that `value` is, behind moves alone.
const Value *behindMoves(const Value *value) {
  while (value && value->definingNode() && isMoving(*value->definingNode()))
    value = value->definingNode()->operand(value->resultIndex());
  return value;
}

/// The same, behind moves and views.
const Value *sourceOf(const Value *value) {
  while (value && value->definingNode()) {
    const Node &maker = *value->definingNode();
    if (isMoving(maker))
      value = maker.operand(value->resultIndex());
    else if (isReshaping(maker))
      value = maker.operand(0);
    else
      break;
  }
  return value;
}

/// A constant's place among the operands of a node that computes.
struct Reading {
  const Node *node;
  unsigned operand;
};

class Finder {
public:
  explicit Finder(const Graph &graph) : graph(graph) {}

  llvm::Error run() {
    if (llvm::Error error = findLaunchNodes())
      return error;
    for (const Node &node : graph.nodeList())
      if (computes(node))
        read(node);
    return llvm::Error::success();
  }

  std::vector<Weight> weights() const;
  std::optional<WeightKind> kindOf(const Node &node) const;

private:
  llvm::Error findLaunchNodes() {
    if (graph.form == Form::Scheduled) {
      for (const Node &node : graph.nodeList())
        if (node.queue() == Queue::Launch)
          launch.insert(&node);
      return llvm::Error::success();
    }
    llvm::Expected<LaunchValues> values = LaunchValues::compute(graph);
    if (!values)
      return values.takeError();
    for (const Node &node : graph.nodeList())
      if (values->isLaunch(&node))
        launch.insert(&node);
    return llvm::Error::success();
  }

  /// Standard operators on compute or the host queue, and fused ones; a view
  /// only passes on.
  bool computes(const Node &node) const {
    return (node.domain != "offload" || node.isOffload("Linear")) &&
           !launch.contains(&node) && !isReshaping(node);
  }

  void read(const Node &node) {
    for (unsigned i = 0; i < node.operands().size(); ++i)
      if (const Value *constant = dataAt(node, i))
        readings[constant].push_back({&node, i});
  }

  /// The constant that the node reads at this operand as data, or nullptr.
  const Value *dataAt(const Node &node, unsigned operand) const {
    if (node.isLaunchOperand(operand))
      return nullptr;
    return constantBehind(node.operand(operand));
  }

  const Value *constantBehind(const Value *value) const {
    const Value *source = sourceOf(value);
    if (!source || source->definingNode())
      return nullptr;
    bool isState = graph.states.contains(source->name().str());
    return source->isConstant() || isState ? source : nullptr;
  }

  /// The constant behind an operand, or the packed one that it was expanded
  /// from.
  const Value *weightBehind(const Value *value) const {
    if (const Value *constant = constantBehind(value))
      return constant;
    const Value *source = sourceOf(value);
    const Node *maker = source ? source->definingNode() : nullptr;
    return maker && isStandard(*maker, "DequantizeLinear")
               ? constantBehind(maker->operand(0))
               : nullptr;
  }

  /// The weight of a product, convolution or lookup, or nullptr.
  const Value *weightOf(const Node &node) const {
    switch (node.info ? node.info->weight : WeightRule::None) {
    case WeightRule::Conv:
      return weightBehind(node.operand(1));
    case WeightRule::Linear: {
      const Value *right = weightBehind(node.operand(1));
      return right ? right : weightBehind(node.operand(0));
    }
    case WeightRule::Embedding:
      return intAttribute(node.attributes, "axis", 0) == 0
                 ? weightBehind(node.operand(0))
                 : nullptr;
    default:
      return nullptr;
    }
  }

  bool expandsWeight(const Node &node) const;
  const Value *proposal(const Value *constant, const Reading &reading) const;
  const Value *rideOf(const Value *constant) const;
  llvm::MapVector<const Value *, llvm::SmallVector<const Value *, 3>>
  findRides() const;
  WeightKind kindOf(const Weight &weight) const;
  std::vector<const Node *> readersOf(const Weight &weight) const;

  const Graph &graph;
  llvm::DenseSet<const Node *> launch;
  /// By first reading.
  llvm::MapVector<const Value *, llvm::SmallVector<Reading, 2>> readings;
};

/// Readers of a value behind views and moves; a Release only tells the time.
void collectReaders(const Value *value,
                    llvm::SmallVectorImpl<const Node *> &readers) {
  for (const Node *user : value->users()) {
    if (user->isOffload("Release") || user->isOffload("Join"))
      continue;
    if (!isReshaping(*user) && !isMoving(*user)) {
      readers.push_back(user);
      continue;
    }
    for (unsigned i = 0; i < user->results().size(); ++i)
      if (user->operand(i) == value && user->result(i))
        collectReaders(user->result(i), readers);
  }
}

/// Whether the node is a DequantizeLinear for the weight of some node.
bool Finder::expandsWeight(const Node &node) const {
  if (!isStandard(node, "DequantizeLinear") || !node.result())
    return false;
  const Value *packed = constantBehind(node.operand(0));
  if (!packed || !isPackedType(packed->type.elem))
    return false;
  llvm::SmallVector<const Node *, 2> readers;
  collectReaders(node.result(), readers);
  return llvm::any_of(
      readers, [&](const Node *reader) { return weightOf(*reader) == packed; });
}

/// The constant that this reading would have `constant` travel with: itself
/// where it is the weight, nullptr where the reading says nothing.
const Value *Finder::proposal(const Value *constant,
                              const Reading &reading) const {
  const Node &node = *reading.node;
  if (isStandard(node, "DequantizeLinear"))
    return constantBehind(node.operand(0));
  const WeightRule rule = node.info ? node.info->weight : WeightRule::None;
  if (rule == WeightRule::Linear || rule == WeightRule::Conv)
    if (const Value *weight = weightOf(node))
      return reading.operand == 2 ? weight : constant;
  // MatMul has no bias: an addition that alone reads its result brings it.
  if (!isStandard(node, "Add") || reading.operand > 1)
    return nullptr;
  const Value *sum = behindMoves(node.operand(1 - reading.operand));
  const Node *maker = sum ? sum->definingNode() : nullptr;
  if (!maker || !isStandard(*maker, "MatMul") || graph.isOutput(sum))
    return nullptr;
  llvm::SmallVector<const Node *, 2> readers;
  collectReaders(sum, readers);
  return readers.size() == 1 ? weightOf(*maker) : nullptr;
}

/// The one other constant that all readings propose, or nullptr.
const Value *Finder::rideOf(const Value *constant) const {
  const Value *host = nullptr;
  for (const Reading &reading : readings.find(constant)->second) {
    const Value *proposed = proposal(constant, reading);
    if (!proposed || proposed == constant || (host && host != proposed))
      return nullptr;
    host = proposed;
  }
  return host;
}

llvm::MapVector<const Value *, llvm::SmallVector<const Value *, 3>>
Finder::findRides() const {
  llvm::MapVector<const Value *, llvm::SmallVector<const Value *, 3>> rides;
  llvm::DenseSet<const Value *> wanting;
  for (const auto &[constant, reads] : readings)
    if (const Value *host = rideOf(constant)) {
      rides[host].push_back(constant);
      wanting.insert(constant);
    }
  // What rides carries nobody, and nobody carries more than three.
  for (auto &[host, riders] : rides) {
    if (wanting.contains(host))
      riders.clear();
    if (riders.size() > kMaxParts - 1)
      riders.resize(kMaxParts - 1);
  }
  return rides;
}

std::vector<Weight> Finder::weights() const {
  const auto rides = findRides();
  llvm::DenseSet<const Value *> riding;
  for (const auto &[host, riders] : rides)
    riding.insert(riders.begin(), riders.end());
  std::vector<Weight> found;
  for (const auto &[constant, reads] : readings) {
    if (riding.contains(constant))
      continue;
    Weight weight;
    weight.parts.push_back(constant);
    if (auto riders = rides.find(constant); riders != rides.end())
      weight.parts.append(riders->second.begin(), riders->second.end());
    for (const Value *part : weight.parts)
      if (part->type.isBounded())
        weight.bytes += part->type.bytesAtBound();
    weight.kind = kindOf(weight);
    weight.readers = readersOf(weight);
    found.push_back(std::move(weight));
  }
  return found;
}

WeightKind bearingKind(const Node &node) {
  switch (node.info->weight) {
  case WeightRule::Conv:
    return node.opType == "ConvTranspose" ? WeightKind::ConvTranspose
                                          : WeightKind::Conv;
  case WeightRule::Embedding:
    return WeightKind::Embedding;
  default:
    return WeightKind::Linear;
  }
}

WeightKind Finder::kindOf(const Weight &weight) const {
  const Value *constant = weight.parts.front();
  for (const Reading &reading : readings.find(constant)->second) {
    if (weightOf(*reading.node) == constant)
      return bearingKind(*reading.node);
    if (reading.operand == 0 && expandsWeight(*reading.node))
      return WeightKind::Quantized;
  }
  return weight.bytes < kSmallWeightBytes ? WeightKind::Small
                                          : WeightKind::Other;
}

std::vector<const Node *> Finder::readersOf(const Weight &weight) const {
  llvm::DenseSet<const Node *> reads;
  for (const Value *part : weight.parts)
    for (const Reading &reading : readings.find(part)->second) {
      if (!expandsWeight(*reading.node)) {
        reads.insert(reading.node);
        continue;
      }
      llvm::SmallVector<const Node *, 2> behind;
      collectReaders(reading.node->result(), behind);
      reads.insert(behind.begin(), behind.end());
    }
  std::vector<const Node *> ordered;
  for (const Node &node : graph.nodeList())
    if (reads.contains(&node))
      ordered.push_back(&node);
  return ordered;
}

std::optional<WeightKind> Finder::kindOf(const Node &node) const {
  if (!computes(node))
    return std::nullopt;
  if (weightOf(node))
    return bearingKind(node);
  if (expandsWeight(node))
    return WeightKind::Quantized;
  std::optional<WeightKind> kind;
  for (unsigned i = 0; i < node.operands().size(); ++i) {
    const Value *constant = dataAt(node, i);
    // A bias belongs to the kind of its product.
    if (!constant || rideOf(constant))
      continue;
    bool isLarge = constant->type.isBounded() &&
                   constant->type.bytesAtBound() >= kSmallWeightBytes;
    if (isLarge || !kind)
      kind = isLarge ? WeightKind::Other : WeightKind::Small;
  }
  return kind;
}

} // namespace

llvm::StringRef weightKindName(WeightKind kind) {
  static constexpr llvm::StringLiteral names[] = {
      "linear",    "conv",  "conv-transpose", "embedding",
      "quantized", "small", "other"};
  return names[static_cast<unsigned>(kind)];
}

llvm::Expected<std::vector<Weight>> findWeights(const Graph &graph) {
  Finder finder(graph);
  if (llvm::Error error = finder.run())
    return error;
  return finder.weights();
}

llvm::Expected<llvm::DenseMap<const Node *, WeightKind>>
classifyNodes(const Graph &graph) {
  Finder finder(graph);
  if (llvm::Error error = finder.run())
    return error;
  llvm::DenseMap<const Node *, WeightKind> kinds;
  for (const Node &node : graph.nodeList())
    if (std::optional<WeightKind> kind = finder.kindOf(node))
      kinds[&node] = *kind;
  return kinds;
}

} // namespace offload
