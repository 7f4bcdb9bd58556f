// Joins constants that are always read together into weights.
//
// In:  every constant with its readings on compute.
// Out: weights of one to four parts, each with the stretches in which it is
//      read.
// Not: kinds of nodes (classify); what streams (Planner).
// How: each reading proposes a constant to ride with: a bias proposes its
//      product's weight, a scale its quantized tensor. A constant whose
//      readings all propose the same other one rides; a small one that is read
//      in any other way stays on the device.

#include "WeightGroups.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace offload {
namespace {

using Reading = ConstantReads::Reading;

constexpr unsigned kMaxParts = 4; // overloads of Stage

class Grouper {
public:
  Grouper(const ConstantReadsMap &constants, const Graph &graph,
          const NodePositions &positions)
      : constants(constants), graph(graph), positions(positions) {}

  std::vector<StepModel::Weight> run() {
    for (const auto &[constant, reads] : constants)
      if (const Value *host = rideOf(constant, reads))
        ridersOf[host].push_back(constant);
    dropNestedRides();
    for (const auto &[constant, reads] : constants)
      if (!riding.contains(constant))
        addWeight(constant, reads);
    llvm::stable_sort(weights, [](const auto &a, const auto &b) {
      return a.reads.front().first < b.reads.front().first;
    });
    return std::move(weights);
  }

private:
  const Value *constantBehind(const Value *value) const {
    while (value && value->definingNode() &&
           isViewNode(graph, *value->definingNode()))
      value = value->definingNode()->operand(0);
    return value && value->isConstant() ? value : nullptr;
  }

  static bool isOp(const Node &node, llvm::StringRef type) {
    return node.domain.empty() && node.opType == type;
  }

  /// The constant that `value` holds, expanded on the device or not.
  const Value *weightBehind(const Value *value) const {
    if (const Value *constant = constantBehind(value))
      return constant;
    while (value && value->definingNode() &&
           isViewNode(graph, *value->definingNode()))
      value = value->definingNode()->operand(0);
    const Node *maker = value ? value->definingNode() : nullptr;
    return maker && maker->info && maker->info->weight == WeightRule::Quantized
               ? constantBehind(maker->operand(0))
               : nullptr;
  }

  /// The weight of a product or convolution.
  const Value *weightOf(const Node &node) const {
    if (!node.info)
      return nullptr;
    if (node.info->weight == WeightRule::Conv)
      return weightBehind(node.operand(1));
    if (node.info->weight != WeightRule::Linear)
      return nullptr;
    const Value *right = weightBehind(node.operand(1));
    return right ? right : weightBehind(node.operand(0));
  }

  /// The constant with which this reading would have `constant` travel: itself
  /// where it is the weight, nullptr where the reading says nothing.
  const Value *proposal(const Value *constant, const Reading &reading) const {
    const Node &node = *reading.node;
    if (isViewNode(graph, node))
      return nullptr;
    if (node.info->weight == WeightRule::Quantized)
      return constantBehind(node.operand(0));
    if (const Value *weight = weightOf(node)) {
      if (reading.operand == 2)
        return weight;
      return constant;
    }
    // MatMul has no bias: an addition that alone reads its result brings it.
    if (isOp(node, "Add") && reading.operand < 2) {
      const Value *sum = node.operand(1 - reading.operand);
      const Node *maker = sum ? sum->definingNode() : nullptr;
      if (maker && isOp(*maker, "MatMul") && sum->users().size() == 1 &&
          !graph.isOutput(sum))
        return weightOf(*maker);
    }
    return nullptr;
  }

  /// The one other constant that all readings propose, or nullptr.
  const Value *rideOf(const Value *constant, const ConstantReads &reads) const {
    const Value *host = nullptr;
    for (const Reading &reading : reads.readings) {
      if (isViewNode(graph, *reading.node))
        continue;
      const Value *proposed = proposal(constant, reading);
      if (!proposed || proposed == constant || (host && host != proposed))
        return nullptr;
      host = proposed;
    }
    return host && constants.count(host) ? host : nullptr;
  }

  /// What rides carries nobody, and nobody carries more than three.
  void dropNestedRides() {
    llvm::DenseSet<const Value *> wanting;
    for (const auto &[host, riders] : ridersOf)
      wanting.insert(riders.begin(), riders.end());
    for (auto &[host, riders] : ridersOf) {
      if (wanting.contains(host))
        riders.clear();
      if (riders.size() > kMaxParts - 1)
        riders.resize(kMaxParts - 1);
      riding.insert(riders.begin(), riders.end());
    }
  }

  StepModel::Part makePart(const Value *constant) const {
    StepModel::Part part;
    part.name = constant->name().str();
    part.bytes = constant->type.bytesAtBound();
    for (const Reading &reading : constants.find(constant)->second.readings) {
      const int32_t at = positions.lookup(reading.node);
      if (reading.direct && (part.readAt.empty() || part.readAt.back() != at))
        part.readAt.push_back(at);
    }
    return part;
  }

  void addWeight(const Value *constant, const ConstantReads &reads) {
    StepModel::Weight weight;
    weight.parts.push_back(makePart(constant));
    for (auto [first, last] : reads.spans)
      weight.reads.push_back({first, last});
    auto riders = ridersOf.find(constant);
    if (riders != ridersOf.end())
      for (const Value *rider : riders->second) {
        weight.parts.push_back(makePart(rider));
        for (auto [first, last] : constants.find(rider)->second.spans)
          cover(weight.reads, first, last);
      }
    joinOverlaps(weight.reads);
    setKind(weight, constant, reads);
    weights.push_back(std::move(weight));
  }

  /// A rider's read belongs to the last stretch that begins before it.
  static void cover(std::vector<StepModel::Read> &reads, int32_t first,
                    int32_t last) {
    StepModel::Read *stretch = &reads.front();
    for (StepModel::Read &read : reads)
      if (read.first <= first)
        stretch = &read;
    stretch->first = std::min(stretch->first, first);
    stretch->last = std::max(stretch->last, last);
  }

  static void joinOverlaps(std::vector<StepModel::Read> &reads) {
    llvm::sort(reads, [](const auto &a, const auto &b) {
      return a.first != b.first ? a.first < b.first : a.last < b.last;
    });
    size_t kept = 0;
    for (size_t i = 1; i < reads.size(); ++i) {
      if (reads[i].first <= reads[kept].last)
        reads[kept].last = std::max(reads[kept].last, reads[i].last);
      else
        reads[++kept] = reads[i];
    }
    reads.resize(kept + 1);
  }

  void setKind(StepModel::Weight &weight, const Value *constant,
               const ConstantReads &reads) const {
    bool isWeight = false;
    for (const Reading &reading : reads.readings) {
      if (proposal(constant, reading) != constant)
        continue;
      isWeight = true;
      if (weight.kind.empty())
        weight.kind = reading.node->properties.get("kind");
    }
    for (const Reading &reading : reads.readings)
      if (weight.kind.empty())
        weight.kind = reading.node->properties.get("kind");
    weight.staysResident = !isWeight && weight.bytes() < kLargeConstantBytes;
    if (weight.kind.empty())
      weight.kind = weight.staysResident ? "small" : "other";
  }

  const ConstantReadsMap &constants;
  const Graph &graph;
  const NodePositions &positions;
  llvm::MapVector<const Value *, llvm::SmallVector<const Value *, 3>> ridersOf;
  llvm::DenseSet<const Value *> riding;
  std::vector<StepModel::Weight> weights;
};

} // namespace

std::vector<StepModel::Weight> groupWeights(const ConstantReadsMap &constants,
                                            const Graph &graph,
                                            const NodePositions &positions) {
  return Grouper(constants, graph, positions).run();
}

} // namespace offload
