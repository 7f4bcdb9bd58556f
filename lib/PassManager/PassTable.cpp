// The table of passes, made from Passes.def, and what all passes share.
//
// The opening comment of each pass's source is read when this is built, so that
// `--passes-doc` says what the sources say.

#include "offload/PassManager/ByteCount.h"
#include "offload/PassManager/Pass.h"
#include "offload/PassManager/Pipeline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace offload {

#define PASS(Flag, Class, In, Out, Summary)                                    \
  std::unique_ptr<Pass> create##Class##Pass();
#include "Passes.def"
#undef PASS

namespace {

struct Prose {
  llvm::StringLiteral className, text;
};

constexpr Prose kProse[] = {
#include <PassProse.inc>
};

llvm::StringRef proseOf(llvm::StringRef className) {
  for (const Prose &prose : kProse)
    if (prose.className == className)
      return prose.text;
  return "";
}

// The words that Passes.def uses for forms.
constexpr Form Imported = Form::Imported, Planned = Form::Planned,
               Scheduled = Form::Scheduled;
constexpr std::nullopt_t Any = std::nullopt;

} // namespace

llvm::ArrayRef<PassInfo> passTable() {
  static const PassInfo table[] = {
#define PASS(Flag, Class, In, Out, Summary)                                    \
  {Flag, In, Out, Summary, proseOf(#Class), create##Class##Pass},
#include "Passes.def"
#undef PASS
  };
  return table;
}

llvm::Expected<const PassInfo *> findPass(llvm::StringRef flag) {
  llvm::SmallVector<llvm::StringRef, 8> flags;
  for (const PassInfo &info : passTable()) {
    if (info.flag == flag)
      return &info;
    flags.push_back(info.flag);
  }
  for (const PipelineInfo &pipeline : pipelineTable())
    if (pipeline.name == flag)
      return makeError("'" + flag +
                       "' is a pipeline, no pass: give --pipeline=" + flag);
  std::string nearest = nearestName(flag, flags);
  return makeError("no pass is called '" + flag + "'" +
                   (nearest.empty() ? ": --passes-doc lists them all"
                                    : "; do you mean '" + nearest + "'?"));
}

void Pass::count(llvm::StringRef name, int64_t amount) {
  for (auto &[known, total] : counts)
    if (known == name) {
      total += amount;
      return;
    }
  counts.emplace_back(name.str(), amount);
}

llvm::Error Pass::setOption(llvm::StringRef key, llvm::StringRef,
                            PassContext &) {
  return makeError("it has no option '" + key + "'");
}

llvm::Error setPlanOption(PassContext &context, llvm::StringRef key,
                          llvm::StringRef value) {
  if (key == "target") {
    llvm::Expected<Target> target = Target::load(value);
    if (!target)
      return target.takeError();
    context.target = *target;
    return llvm::Error::success();
  }
  if (key == "device-memory") {
    context.deviceMemoryBytes = parseByteCount(value);
    if (!context.deviceMemoryBytes)
      return makeError("device-memory=" + value + " is no size: give " +
                       kByteCountSyntax);
    return llvm::Error::success();
  }
  if (key == "depth") {
    if (value.getAsInteger(10, context.depth) || context.depth < 2)
      return makeError("depth=" + value +
                       " is no depth: give a whole number from 2 on");
    return llvm::Error::success();
  }
  return makeError("it has no option '" + key +
                   "'; its options are target, device-memory and depth");
}

} // namespace offload
