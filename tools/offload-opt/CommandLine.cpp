// Reads the flags of offload-opt.
//
// In:  argv.
// Out: a CommandLine, or one error that names the flag and what it takes.
// Not: what needs the model or the tables of passes and targets.
// How: flags are LLVM's; what they may hold is checked here, so that all
//      messages look alike.

#include "CommandLine.h"

#include "offload/IR/Graph.h"
#include "offload/PassManager/ByteCount.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"

#include <cassert>

#ifdef OFFLOAD_VERIFY_EACH
constexpr bool kVerifyEach = true;
#else
constexpr bool kVerifyEach = false;
#endif

namespace cl = llvm::cl;

namespace offload::tool {
namespace {

cl::OptionCategory files("Files");
cl::OptionCategory planning("Planning");
cl::OptionCategory reports("Reports");
cl::OptionCategory compiler("Work on the compiler");

cl::opt<std::string> input(cl::Positional, cl::cat(files), cl::desc("MODEL"));
cl::opt<std::string>
    output("o", cl::value_desc("FILE|-"), cl::cat(files),
           cl::desc("Write the result here; - is standard output"));
cl::opt<std::string>
    emit("emit", cl::value_desc("text|proto"), cl::cat(files),
         cl::desc("ONNX's text syntax, or the binary form (default);\n"
                  "without -o, text goes to standard output"));
cl::opt<bool> strip("strip", cl::cat(files),
                    cl::desc("Give the plain model back"));
cl::opt<bool>
    noCopy("no-copy", cl::cat(files),
           cl::desc("Leave external data where it is, also where the\n"
                    "output goes to another folder"));
cl::list<std::string>
    dataFolders("data-folder", cl::value_desc("DIR"), cl::cat(files),
                cl::desc("Trust external data in this folder too; may be\n"
                         "given several times"));
cl::opt<std::string>
    memory("device-memory", cl::value_desc("SIZE|auto"), cl::cat(planning),
           cl::desc("All that may be taken from the device: 8GiB,\n"
                    "500MB, 107000; auto: what the card here has free,\n"
                    "less a margin. Without it all is resident"));
cl::opt<std::string> target("target", cl::value_desc("cuda|host|FILE"),
                            cl::cat(planning),
                            cl::desc("Machine to plan for (default: cuda)"));
cl::opt<std::string>
    depth("depth", cl::value_desc("N"), cl::cat(planning),
          cl::desc("Weights in flight or in use at once, 2 or more\n"
                   "(default: the plan chooses)"));
cl::list<std::string> dims("dim", cl::value_desc("NAME=N"), cl::cat(planning),
                           cl::desc("Size (batch=4) or bound (batch<=4) of a\n"
                                    "dimension, by name or as INPUT:AXIS"));
cl::opt<std::string>
    listWeights("list-weights", cl::ValueOptional, cl::value_desc("text|json"),
                cl::cat(reports),
                cl::desc("Print each weight, where it lives and why"));
cl::opt<std::string> plan("plan", cl::ValueOptional,
                          cl::value_desc("text|json"), cl::cat(reports),
                          cl::desc("Print what each budget would give"));
cl::opt<std::string>
    listOperators("list-operators", cl::ValueOptional,
                  cl::value_desc("markdown"), cl::cat(reports),
                  cl::desc("Print the operators that models may use"));
cl::opt<bool> verifyOnly("verify-only", cl::cat(reports),
                         cl::desc("Prove the schedule and write nothing"));
cl::opt<std::string> passes("passes", cl::value_desc("a,b{k=v}"),
                            cl::cat(compiler),
                            cl::desc("Run these passes alone"));
cl::opt<std::string> pipeline("pipeline", cl::value_desc("NAME"),
                              cl::cat(compiler),
                              cl::desc("Run this pipeline (default: infer)"));
cl::list<std::string>
    printIrAfter("print-ir-after", cl::CommaSeparated,
                 cl::value_desc("PASS|all"), cl::cat(compiler),
                 cl::desc("Print the graph after these passes"));
cl::opt<bool> printIrAfterChange(
    "print-ir-after-change", cl::cat(compiler),
    cl::desc("Print the graph after each pass that changed it"));
cl::opt<bool> verifyEach("verify-each", cl::init(kVerifyEach),
                         cl::cat(compiler),
                         cl::desc("Verify the graph after each pass"));
cl::opt<bool> timePasses("time-passes", cl::cat(compiler),
                         cl::desc("Print the time of each pass"));
cl::opt<std::string>
    reproducer("reproducer", cl::value_desc("FILE"), cl::cat(compiler),
               cl::desc("Write the graph as it was before the passes, with\n"
                        "the passes in its first line"));
cl::opt<bool>
    runReproducer("run-reproducer", cl::cat(compiler),
                  cl::desc("Run the passes in the first line of MODEL"));
cl::opt<bool> passesDoc("passes-doc", cl::cat(compiler),
                        cl::desc("Print all passes in Markdown"));

bool isGiven(const cl::Option &option) {
  return option.getNumOccurrences() != 0;
}

/// LLVM's own messages in one line, without the tool's path.
std::string oneLine(llvm::StringRef message) {
  llvm::SmallVector<llvm::StringRef, 4> lines;
  message.split(lines, '\n', -1, /*KeepEmpty=*/false);
  if (lines.empty())
    return "the command line is wrong";
  llvm::StringRef first = lines.front();
  first.consume_front("offload-opt: ");
  if (first.starts_with("Too many positional"))
    return "give one model at a time";
  std::string text = first.take_front(first.find(".  Try:")).str();
  text.front() = llvm::toLower(text.front());
  if (lines.size() < 2)
    return text;
  lines[1].consume_front("offload-opt: ");
  if (lines[1].consume_front("Did you mean"))
    text.append("; do you mean").append(lines[1]);
  return text;
}

llvm::Expected<Report> readReport(const cl::opt<std::string> &flag) {
  if (!isGiven(flag))
    return Report::None;
  if (flag.empty() || flag == "text")
    return Report::Text;
  if (flag == "json")
    return Report::Json;
  return makeError("--" + flag.ArgStr + "=" + flag + ": give text or json");
}

llvm::Error readEmission(CommandLine &line) {
  line.emitGiven = isGiven(emit);
  line.emitText = emit == "text";
  if (line.emitGiven && emit != "text" && emit != "proto")
    return makeError("--emit=" + emit + ": give text or proto");
  if (isGiven(output) && output.empty())
    return makeError("-o: give the name of a file, or - for standard output");
  return llvm::Error::success();
}

llvm::Error readPlanning(CommandLine &line) {
  if (isGiven(target))
    line.target = target;
  line.memoryGiven = isGiven(memory);
  if (line.memoryGiven && memory != "auto") {
    line.deviceMemoryBytes = parseByteCount(memory);
    if (!line.deviceMemoryBytes)
      return makeError("--device-memory=" + memory + " is no size: give " +
                       kByteCountSyntax + ", or auto");
  }
  if (isGiven(depth) &&
      (llvm::StringRef(depth).getAsInteger(10, line.depth) || line.depth < 2))
    return makeError("--depth=" + depth + ": give a whole number from 2 on");
  line.dims = dims;
  return llvm::Error::success();
}

llvm::Error readWork(CommandLine &line) {
  llvm::SmallVector<llvm::StringRef, 5> given;
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &passes, &pipeline, &strip, &verifyOnly, &runReproducer})
    if (isGiven(*option))
      given.push_back(option->ArgStr);
  if (given.size() > 1)
    return makeError("--" + given[0] + " and --" + given[1] +
                     " exclude each other");
  if (isGiven(passes))
    line.passes = passes;
  if (isGiven(pipeline))
    line.pipeline = pipeline;
  line.strip = strip;
  line.verifyOnly = verifyOnly;
  line.runReproducer = runReproducer;
  return llvm::Error::success();
}

llvm::Error readReports(CommandLine &line) {
  for (auto [report, flag] : {std::pair(&line.listWeights, &listWeights),
                              std::pair(&line.plan, &plan)}) {
    llvm::Expected<Report> read = readReport(*flag);
    if (!read)
      return read.takeError();
    *report = *read;
  }
  line.listOperators = isGiven(listOperators);
  if (line.listOperators && !listOperators.empty() &&
      listOperators != "markdown")
    return makeError("--list-operators=" + listOperators +
                     ": give markdown or nothing");
  line.passesDoc = passesDoc;
  return llvm::Error::success();
}

/// What contradicts itself, whatever the model is.
llvm::Error checkTogether(const CommandLine &line) {
  if ((line.listOperators || line.passesDoc) && !line.input.empty())
    return makeError(llvm::Twine("--") +
                     (line.listOperators ? "list-operators" : "passes-doc") +
                     " reads no model: leave out '" + line.input + "'");
  if (line.listOperators || line.passesDoc)
    return llvm::Error::success();
  if (line.input.empty())
    return makeError("give the model to read (offload-opt --help lists the "
                     "flags)");
  if (line.verifyOnly && (!line.output.empty() || line.emitGiven))
    return makeError("--verify-only writes nothing: leave out -o and --emit");
  if (line.runReproducer && line.hasPlanFlags())
    return makeError("--run-reproducer plans as the file says: leave out "
                     "--target, --device-memory and --depth");
  const bool emitsToStdout =
      line.output == "-" || (line.output.empty() && line.emitText);
  if (line.printsToStdout() && emitsToStdout)
    return makeError("the model and a report cannot both go to standard "
                     "output: give -o FILE");
  if (line.listWeights != Report::None && line.plan != Report::None)
    return makeError("--list-weights and --plan both print to standard "
                     "output: give one of them");
  if (line.output.empty() && line.emitGiven && !line.emitText)
    return makeError("--emit=proto needs -o FILE, or -o - for standard "
                     "output");
  const bool makesNoPlan = line.strip || line.verifyOnly;
  if (line.printsToStdout() && makesNoPlan)
    return makeError(
        llvm::Twine(line.plan != Report::None ? "--plan" : "--list-weights") +
        " and --" + (line.strip ? "strip" : "verify-only") +
        " exclude each other");
  return llvm::Error::success();
}

/// LLVM's library brings a flag of this name itself, for its own counts, of
/// which this program has none.
cl::Option *takeStatsFlag() {
  cl::Option *stats = cl::getRegisteredOptions().lookup("stats");
  assert(stats && "LLVM registers it");
  stats->addCategory(compiler);
  stats->setHiddenFlag(cl::NotHidden);
  stats->setDescription("Print what passes counted");
  return stats;
}

} // namespace

llvm::Expected<CommandLine> parseCommandLine(int argc, char **argv) {
  const cl::Option *stats = takeStatsFlag();
  cl::HideUnrelatedOptions({&files, &planning, &reports, &compiler});
  cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << "offload-opt " OFFLOAD_VERSION "\n";
  });
  std::string message;
  llvm::raw_string_ostream errors(message);
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Schedules an ONNX model for less device memory than its weights "
          "take.\n\n  offload-opt model.onnx -o model.off "
          "--device-memory=8GiB\n  offload-opt model.onnx --plan\n",
          &errors))
    return makeError(oneLine(message));

  CommandLine line;
  line.input = input;
  line.output = output;
  line.noCopy = noCopy;
  line.dataFolders.assign(dataFolders.begin(), dataFolders.end());
  line.reproducer = reproducer;
  line.printIrAfter = printIrAfter;
  line.printIrAfterChange = printIrAfterChange;
  line.verifyEach = verifyEach;
  line.timePasses = timePasses;
  line.stats = isGiven(*stats);
  for (auto *read : {readEmission, readPlanning, readWork, readReports})
    if (llvm::Error error = read(line))
      return error;
  if (llvm::Error error = checkTogether(line))
    return error;
  return line;
}

} // namespace offload::tool
