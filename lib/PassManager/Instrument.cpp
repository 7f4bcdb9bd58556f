// Verification, printing, timing and counts around passes.

#include "offload/PassManager/Instrument.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

namespace offload {

llvm::Error Instrument::checkOptions() const {
  for (const std::string &name : options.printIrAfter)
    if (name != "all")
      if (llvm::Expected<const PassInfo *> pass = findPass(name); !pass)
        return makeError("--print-ir-after: " +
                         llvm::toString(pass.takeError()));
  return llvm::Error::success();
}

bool Instrument::printsAfter(const PassInfo &info) const {
  return llvm::any_of(options.printIrAfter, [&](const std::string &name) {
    return name == "all" || name == info.flag;
  });
}

void Instrument::beforePass(const PassInfo &, const Graph &graph) {
  if (options.printIrAfterChange)
    textBefore = options.printGraph(graph);
  start = std::chrono::steady_clock::now();
}

llvm::Error Instrument::afterPass(const PassInfo &info, const Pass &pass,
                                  Graph &graph, const PassContext &context) {
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  records.push_back({info.flag, took.count(), pass.statistics().vec()});
  print(info, graph);
  return options.verifyEach ? verify(info, graph, context)
                            : llvm::Error::success();
}

void Instrument::print(const PassInfo &info, const Graph &graph) {
  const bool always = printsAfter(info);
  if (!always && !options.printIrAfterChange)
    return;
  const std::string text = options.printGraph(graph);
  if (!always && text == textBefore)
    *options.out << "# " << info.flag << " changed nothing\n";
  else
    *options.out << "# graph after " << info.flag << "\n" << text;
}

llvm::Error Instrument::verify(const PassInfo &info, Graph &graph,
                               const PassContext &context) const {
  auto blame = [&](llvm::Error error) {
    return makeError("after pass '" + info.flag +
                     "': " + llvm::toString(std::move(error)));
  };
  if (llvm::Error error = graph.verify())
    return blame(std::move(error));
  constexpr llvm::StringLiteral proof = "verify-schedule";
  if (graph.form != Form::Scheduled || info.flag == proof)
    return llvm::Error::success();
  PassContext quiet = context;
  quiet.remarks = &llvm::nulls();
  llvm::Expected<const PassInfo *> pass = findPass(proof);
  if (!pass)
    return pass.takeError();
  if (llvm::Error error = (*pass)->create()->run(graph, quiet))
    return blame(std::move(error));
  return llvm::Error::success();
}

void Instrument::finish() {
  if (options.timePasses) {
    double total = 0;
    for (const Record &record : records)
      total += record.seconds;
    *options.out << "time by pass:\n";
    for (const Record &record : records)
      *options.out << llvm::format("%10.3f ms  ", record.seconds * 1e3)
                   << record.flag << "\n";
    *options.out << llvm::format("%10.3f ms  all passes\n", total * 1e3);
  }
  if (!options.stats)
    return;
  *options.out << "counts by pass:\n";
  for (const Record &record : records)
    for (const auto &[name, amount] : record.counts)
      *options.out << llvm::format("%10lld  ", static_cast<long long>(amount))
                   << record.flag << ": " << name << "\n";
}

} // namespace offload
