// docs/passes.md: the pipelines and, for each pass, its forms and the opening
// comment of its source.
//
// How: the comment's first lines stay a paragraph; its In, Out, Not and How
//      become a list.

#include "offload/PassManager/Pipeline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace offload {
namespace {

bool isHeading(llvm::StringRef line) {
  return llvm::any_of(
      llvm::ArrayRef<llvm::StringRef>{"In:", "Out:", "Not:", "How:"},
      [&](llvm::StringRef heading) { return line.starts_with(heading); });
}

void printProse(llvm::StringRef prose, llvm::raw_ostream &out) {
  llvm::SmallVector<llvm::StringRef, 16> lines;
  prose.rtrim().split(lines, '\n');
  bool inList = false;
  for (llvm::StringRef line : lines) {
    if (isHeading(line)) {
      auto [heading, text] = line.split(':');
      out << "- **" << heading << "**: " << text.ltrim() << "\n";
      inList = true;
    } else if (!inList || line.trim().empty()) {
      out << line.rtrim() << "\n";
      inList = false;
    } else {
      out << "  " << line.trim() << "\n";
    }
  }
}

} // namespace

std::string passesMarkdown() {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "# Passes\n\n"
         "Written by `offload-opt --passes-doc` from the opening comment of "
         "each source in\n`passes/`.\n\n"
         "| pass | takes | leaves | what |\n|---|---|---|---|\n";
  for (const PassInfo &info : passTable())
    out << "| [`" << info.flag << "`](#" << info.flag << ") | "
        << (info.takes ? formName(*info.takes) : "any form") << " | "
        << formName(info.leaves) << " | " << info.summary << " |\n";
  out << "\n| pipeline | passes | what |\n|---|---|---|\n";
  for (const PipelineInfo &pipeline : pipelineTable())
    out << "| `--pipeline=" << pipeline.name << "` | `" << pipeline.passes
        << "` | " << pipeline.summary << " |\n";
  for (const PassInfo &info : passTable()) {
    out << "\n## " << info.flag << "\n\n";
    printProse(info.prose, out);
  }
  return text;
}

} // namespace offload
