// One call of offload-opt.
//
// In:  the command line.
// Out: the model, reports on standard output; remarks and the summary on
//      standard error.
// Not: any decision about schedules: this picks passes and runs them.
// How: a plain model gets the default pipeline. A schedule is proved and kept
//      as it is, unless a flag asks for another plan: then it is stripped and
//      planned like its plain model, so the flags alone say what comes out.

#include "Job.h"

#include "DeviceMemory.h"
#include "ScarceMemory.h"
#include "UselessFlags.h"

#include "offload/Analysis/PrepareForPlan.h"
#include "offload/Analysis/WeightReport.h"
#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"
#include "offload/PassManager/ByteCount.h"
#include "offload/Schedule/PlanTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

namespace offload::tool {
namespace {

constexpr llvm::StringLiteral kDefaultPipeline = "infer";
/// Before the passes in the first line of a reproducer.
constexpr llvm::StringLiteral kReproducerMark = "# offload-opt --passes=";

bool makesPlan(const Pipeline &pipeline) {
  return llvm::any_of(pipeline, [](const PipelineStep &step) {
    return step.pass->takes == Form::Imported &&
           step.pass->leaves == Form::Planned;
  });
}

int64_t modelNumber(const Graph &graph, std::string_view key) {
  auto property = graph.modelProperties.find(std::string(key));
  int64_t number = 0;
  if (property != graph.modelProperties.end())
    (void)llvm::StringRef(property->second).getAsInteger(10, number);
  return number;
}

} // namespace

llvm::Error Job::run() {
  if (llvm::Error error = readModel())
    return error;
  if (llvm::Error error = readContext())
    return error;
  if (line.plan != Report::None) {
    if (llvm::Error error = printPlan())
      return error;
    if (wantsPlanAlone())
      return llvm::Error::success();
  }
  llvm::Expected<Pipeline> pipeline = choosePipeline();
  if (!pipeline)
    return pipeline.takeError();
  const bool plans = makesPlan(*pipeline);
  remarkUselessFlags(line, *graph, plans || line.plan != Report::None);
  if (plans)
    if (llvm::Error error = requireBoundedInputs(*graph))
      return error;
  if (llvm::Error error = runPasses(*pipeline))
    return error;
  if (line.listWeights != Report::None && graph->form != Form::Scheduled)
    return makeError(
        "--list-weights needs a schedule, but the graph has form " +
        formName(graph->form));
  if (llvm::Error error = writeModel())
    return error;
  if (llvm::Error error = printWeightList())
    return error;
  return plans && graph->form == Form::Scheduled ? printSummary()
                                                 : llvm::Error::success();
}

void Job::remark(const llvm::Twine &text) const {
  llvm::errs() << "remark: " << text << "\n";
}

bool Job::wantsPlanAlone() const {
  return line.output.empty() && !line.emitGiven &&
         line.listWeights == Report::None && !line.passes && !line.pipeline;
}

llvm::Error Job::readModel() {
  ImportOptions options;
  options.dims = line.dims;
  options.dataFolders = line.dataFolders;
  auto read = importModel(line.input, options);
  if (!read)
    return read.takeError();
  graph = std::move(*read);
  return llvm::Error::success();
}

llvm::Error Job::readContext() {
  if (line.target)
    target = *line.target;
  llvm::Expected<Target> loaded = Target::load(target);
  if (!loaded)
    return makeError("--target: " + llvm::toString(loaded.takeError()));
  context.target = *loaded;
  context.depth = line.depth;
  if (llvm::Error error = readMemory())
    return error;
  auto before = graph->modelProperties.find(std::string(kTargetKey));
  if (plansAnew() && before != graph->modelProperties.end() &&
      before->second != context.target.name)
    remark("the file was planned for target '" + before->second +
           "', this plan is for '" + context.target.name + "'");
  return llvm::Error::success();
}

llvm::Error Job::readMemory() {
  context.deviceMemoryBytes = line.deviceMemoryBytes;
  if (!line.memoryGiven || line.deviceMemoryBytes)
    return llvm::Error::success();
  if (target == "host")
    return makeError("--device-memory=auto asks the card, and target 'host' "
                     "has none: give a size");
  llvm::Expected<Card> card = findCard();
  if (!card)
    return makeError("--device-memory=auto: " +
                     llvm::toString(card.takeError()) + ": give a size");
  const int64_t bytes = card->freeBytes - kAutoMarginBytes;
  if (bytes <= 0)
    return makeError("--device-memory=auto: " + card->name + " has " +
                     formatByteCount(card->freeBytes) +
                     " free, and the margin is " +
                     formatByteCount(kAutoMarginBytes) + ": give a size");
  context.deviceMemoryBytes = bytes;
  remark("--device-memory=" + llvm::Twine(bytes) + ": " + card->name + " has " +
         formatByteCount(card->freeBytes) + " free, less a margin of " +
         formatByteCount(kAutoMarginBytes));
  return llvm::Error::success();
}

bool Job::plansAnew() const {
  if (line.passes || line.strip || line.verifyOnly || line.runReproducer)
    return false;
  return line.pipeline || graph->form == Form::Imported ||
         line.hasPlanFlags() || graph->planIsStale;
}

llvm::Expected<Pipeline> Job::choosePipeline() const {
  if (line.passes) {
    llvm::Expected<Pipeline> pipeline = parsePipeline(*line.passes);
    if (!pipeline)
      return makeError("--passes: " + llvm::toString(pipeline.takeError()));
    return pipeline;
  }
  if (line.strip)
    return parsePipeline("strip");
  if (line.runReproducer)
    return reproducedPipeline();
  if (plansAnew()) {
    llvm::Expected<Pipeline> pipeline =
        namedPipeline(line.pipeline.value_or(kDefaultPipeline.str()));
    if (!pipeline)
      return makeError("--pipeline: " + llvm::toString(pipeline.takeError()));
    if (graph->form == Form::Imported)
      return pipeline;
    return parsePipeline("strip," + printPipeline(*pipeline));
  }
  if (graph->form == Form::Scheduled)
    return parsePipeline("verify-schedule");
  return Pipeline();
}

llvm::Expected<Pipeline> Job::reproducedPipeline() const {
  auto buffer = llvm::MemoryBuffer::getFile(line.input);
  if (!buffer)
    return makeError("cannot read '" + line.input +
                     "': " + buffer.getError().message());
  llvm::StringRef first = (*buffer)->getBuffer().split('\n').first;
  if (!first.consume_front(kReproducerMark))
    return makeError("'" + line.input +
                     "' is no reproducer: its first line "
                     "does not begin with '" +
                     kReproducerMark + "'");
  return parsePipeline(first);
}

llvm::Error Job::runPasses(const Pipeline &pipeline) {
  InstrumentOptions options;
  options.printIrAfter = line.printIrAfter;
  options.printIrAfterChange = line.printIrAfterChange;
  options.verifyEach = line.verifyEach;
  options.timePasses = line.timePasses;
  options.stats = line.stats;
  options.printGraph = printText;
  Instrument instrument(std::move(options));
  if (llvm::Error error = instrument.checkOptions())
    return error;
  if (!line.reproducer.empty())
    if (llvm::Error error = writeReproducer(pipeline))
      return error;

  std::string said;
  llvm::raw_string_ostream remarks(said);
  context.remarks = &remarks;
  if (llvm::Error error = runPipeline(*graph, pipeline, context, instrument))
    return error;
  llvm::SmallVector<llvm::StringRef, 4> lines;
  llvm::StringRef(said).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef text : lines)
    remark(text);
  instrument.finish();
  if (!line.verifyOnly)
    return llvm::Error::success();
  if (llvm::Error error = graph->verify())
    return error;
  if (graph->form != Form::Scheduled)
    remark("a graph of form " + formName(graph->form) +
           " has no schedule to prove; its structure is right");
  return llvm::Error::success();
}

/// Written before the passes run, so that it is there whatever they do.
llvm::Error Job::writeReproducer(const Pipeline &pipeline) {
  ExportOptions options;
  options.text = true;
  options.noCopy = line.noCopy;
  options.remarks = &llvm::errs();
  if (llvm::Error error = exportModel(*graph, line.reproducer, options))
    return error;
  auto buffer = llvm::MemoryBuffer::getFile(line.reproducer);
  if (!buffer)
    return makeError("cannot read '" + line.reproducer +
                     "' back: " + buffer.getError().message());
  const std::string passes =
      printPipeline(withContext(pipeline, context, target));
  llvm::Error error = llvm::writeToOutput(
      line.reproducer, [&](llvm::raw_ostream &out) -> llvm::Error {
        out << kReproducerMark << passes << "\n" << (*buffer)->getBuffer();
        return llvm::Error::success();
      });
  if (error)
    return makeError("cannot write '" + line.reproducer +
                     "': " + llvm::toString(std::move(error)));
  return llvm::Error::success();
}

/// The default pipeline up to where it plans.
llvm::Expected<Pipeline> Job::preparation() const {
  llvm::Expected<Pipeline> pipeline = namedPipeline(kDefaultPipeline);
  if (!pipeline)
    return pipeline.takeError();
  pipeline->erase(llvm::find_if(*pipeline,
                                [](const PipelineStep &step) {
                                  return step.pass->leaves != Form::Imported;
                                }),
                  pipeline->end());
  if (graph->form == Form::Imported)
    return pipeline;
  return parsePipeline("strip," + printPipeline(*pipeline));
}

llvm::Error Job::printPlan() {
  llvm::Expected<Pipeline> pipeline = preparation();
  if (!pipeline)
    return pipeline.takeError();
  Instrument silent{InstrumentOptions()};
  if (llvm::Error error = runPipeline(*graph, *pipeline, context, silent))
    return error;
  if (llvm::Error error = requireBoundedInputs(*graph))
    return error;
  if (llvm::Error error = prepareForPlan(*graph))
    return error;
  llvm::Expected<PlanModel> model =
      readPlanModel(*graph, context.target.isCard());
  if (!model)
    return model.takeError();
  llvm::Expected<PlanTable> table = makePlanTable(
      *model, {context.target, context.deviceMemoryBytes, context.depth});
  if (!table)
    return table.takeError();
  // A machine without a card has nothing to compare with.
  std::optional<int64_t> freeBytes;
  if (llvm::Expected<Card> card = findCard())
    freeBytes = card->freeBytes;
  else
    llvm::consumeError(card.takeError());
  llvm::outs() << (line.plan == Report::Json
                       ? planTableJson(*table, freeBytes)
                       : printPlanTable(*table, freeBytes));
  return llvm::Error::success();
}

llvm::Error Job::writeModel() {
  std::string path = line.output;
  if (path.empty() && line.emitText)
    path.push_back('-');
  if (path.empty()) {
    if (!line.printsToStdout() && !line.verifyOnly)
      remark("nothing is written: give -o FILE, or --emit=text to see the "
             "result");
    return llvm::Error::success();
  }
  ExportOptions options;
  options.text = line.emitText;
  options.noCopy = line.noCopy;
  options.remarks = &llvm::errs();
  return exportModel(*graph, path, options);
}

llvm::Error Job::printWeightList() {
  if (line.listWeights == Report::None)
    return llvm::Error::success();
  llvm::Expected<std::vector<WeightRow>> rows = reportWeights(*graph);
  if (!rows)
    return rows.takeError();
  if (line.listWeights == Report::Json)
    printWeightsJson(*rows, llvm::outs());
  else
    printWeights(*rows, llvm::outs());
  return llvm::Error::success();
}

llvm::Error Job::printSummary() {
  llvm::Expected<std::vector<WeightRow>> rows = reportWeights(*graph);
  if (!rows)
    return rows.takeError();
  int64_t total = 0, resident = 0, copied = 0;
  for (const WeightRow &row : *rows) {
    total += row.weight.bytes;
    resident += row.place == WeightPlace::Resident ? row.weight.bytes : 0;
    copied += row.copiedBytes();
  }
  const int64_t peak =
      modelNumber(*graph, kPeakBytesKey) + context.target.reservedBytes;
  llvm::errs() << "weights " << formatByteCount(total) << ": resident "
               << formatByteCount(resident) << ", streamed "
               << formatByteCount(copied) << " a run; peak "
               << formatByteCount(peak);
  if (context.deviceMemoryBytes)
    llvm::errs() << " of " << formatByteCount(*context.deviceMemoryBytes);
  llvm::errs() << llvm::format(
      "; predicted step %.3f ms\n",
      static_cast<double>(modelNumber(*graph, kStepNsKey)) / 1e6);
  remarkScarceMemory(*graph, context, peak);
  return llvm::Error::success();
}

} // namespace offload::tool
