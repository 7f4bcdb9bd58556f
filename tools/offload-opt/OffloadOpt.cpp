// offload-opt: reads an ONNX model, plans it for a device's memory, proves the
// schedule and writes it as a `.off`.

#include "CommandLine.h"
#include "Job.h"

#include "offload/OffFormat/Operators.h"
#include "offload/PassManager/Pass.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace {

llvm::Error run(int argc, char **argv) {
  auto line = offload::tool::parseCommandLine(argc, argv);
  if (!line)
    return line.takeError();
  if (line->listOperators)
    llvm::outs() << offload::operatorTableMarkdown();
  if (line->passesDoc)
    llvm::outs() << offload::passesMarkdown();
  if (line->listOperators || line->passesDoc)
    return llvm::Error::success();
  return offload::tool::Job(*line).run();
}

} // namespace

int main(int argc, char **argv) {
  llvm::Error error = run(argc, argv);
  llvm::outs().flush();
  if (llvm::outs().has_error() && !error)
    error = offload::makeError("cannot write to standard output");
  llvm::outs().clear_error();
  if (!error)
    return 0;
  llvm::handleAllErrors(std::move(error), [](const llvm::ErrorInfoBase &one) {
    llvm::errs() << "offload-opt: error: " << one.message() << "\n";
  });
  return 1;
}
