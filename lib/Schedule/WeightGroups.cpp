// Counts when the weights of a step are read.
//
// In:  the weights of the graph, every constant with its reads on compute.
// Out: weights of one to four parts, each with the stretches in which it is
//      read.
// Not: which constants travel together (Analysis/Weights); what streams
//      (Planner).
// How: the reads of the first part give the stretches; what rides with it
//      belongs to the stretch that begins before it, so that a bias added
//      later never makes its weight travel twice.

#include "WeightGroups.h"

#include "offload/Analysis/Weights.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace offload {
namespace {

/// A rider's read belongs to the last stretch that begins before it.
void cover(std::vector<StepModel::Read> &reads, int32_t first, int32_t last) {
  if (reads.empty()) {
    reads.push_back({first, last});
    return;
  }
  StepModel::Read *stretch = &reads.front();
  for (StepModel::Read &read : reads)
    if (read.first <= first)
      stretch = &read;
  stretch->first = std::min(stretch->first, first);
  stretch->last = std::max(stretch->last, last);
}

void joinOverlaps(std::vector<StepModel::Read> &reads) {
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

/// A weight of those parts that compute reads; no parts where it reads none.
StepModel::Weight makeWeight(llvm::ArrayRef<const Value *> parts,
                             const ConstantReadsMap &constants) {
  StepModel::Weight weight;
  for (const Value *constant : parts) {
    auto found = constants.find(constant);
    if (found == constants.end())
      continue;
    const ConstantReads &reads = found->second;
    for (auto [first, last] : reads.spans) {
      if (weight.parts.empty())
        weight.reads.push_back({first, last});
      else
        cover(weight.reads, first, last);
    }
    weight.parts.push_back(
        {constant->name().str(), constant->type.bytesAtBound(), reads.namedAt});
  }
  if (!weight.parts.empty())
    joinOverlaps(weight.reads);
  return weight;
}

} // namespace

llvm::Expected<std::vector<StepModel::Weight>>
groupWeights(const Graph &graph, const ConstantReadsMap &constants) {
  llvm::Expected<std::vector<Weight>> found = findWeights(graph);
  if (!found)
    return found.takeError();
  std::vector<StepModel::Weight> weights;
  llvm::DenseSet<const Value *> grouped;
  auto add = [&](llvm::ArrayRef<const Value *> parts, WeightKind kind) {
    grouped.insert(parts.begin(), parts.end());
    StepModel::Weight weight = makeWeight(parts, constants);
    if (weight.parts.empty())
      return;
    weight.kind = weightKindName(kind).str();
    weight.staysResident = kind == WeightKind::Small;
    weights.push_back(std::move(weight));
  };
  for (const Weight &weight : *found)
    add(weight.parts, weight.kind);
  for (const auto &[constant, reads] : constants)
    if (!grouped.contains(constant))
      add({constant}, constant->type.bytesAtBound() < kSmallWeightBytes
                          ? WeightKind::Small
                          : WeightKind::Other);
  llvm::stable_sort(weights, [](const auto &a, const auto &b) {
    return a.reads.front().first < b.reads.front().first;
  });
  return weights;
}

} // namespace offload
