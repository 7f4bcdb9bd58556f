// Compares what a plan takes with what this machine has.
//
// Not: refusing. Another machine may run the file, and weights may stay in
//      mapped files: only what a run must hold counts.

#include "ScarceMemory.h"

#include "DeviceMemory.h"

#include "offload/PassManager/ByteCount.h"

#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

namespace offload::tool {
namespace {

/// What a caller feeds and gets, at the bound of every dimension. Their sum
/// does not overflow: inference refuses a step of so many bytes.
int64_t fedAndFetchedBytes(const Graph &graph) {
  int64_t bytes = 0;
  for (const Value *input : graph.inputs())
    bytes += input->type.isBounded() ? input->type.bytesAtBound() : 0;
  for (const Value *output : graph.outputs())
    bytes += output->type.isBounded() ? output->type.bytesAtBound() : 0;
  return bytes;
}

void remarkCard(int64_t peakBytes) {
  llvm::Expected<Card> card = findCard();
  if (!card) {
    llvm::consumeError(card.takeError()); // nothing to compare with
    return;
  }
  if (peakBytes > card->freeBytes)
    llvm::errs() << "remark: the plan takes " << formatByteCount(peakBytes)
                 << " of a card, and " << card->name << " has "
                 << formatByteCount(card->freeBytes)
                 << " free: give --device-memory to plan for less\n";
}

} // namespace

void remarkScarceMemory(const Graph &graph, const PassContext &context,
                        int64_t peakBytes) {
  if (context.target.isCard() && !context.deviceMemoryBytes)
    remarkCard(peakBytes);
  const int64_t held =
      fedAndFetchedBytes(graph) + (context.target.isCard() ? 0 : peakBytes);
  const int64_t here =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (here > 0 && held > here)
    llvm::errs() << "remark: "
                 << (context.target.isCard() ? "inputs and outputs"
                                             : "inputs, outputs and the arena")
                 << " take " << formatByteCount(held)
                 << " of host memory, and this machine has "
                 << formatByteCount(here) << ": give smaller sizes by --dim\n";
}

} // namespace offload::tool
