// What happens before, between and after passes.

#include "offload/PassManager/PassManager.h"

#include "gtest/gtest.h"

using namespace offload;

namespace {

std::string messageOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

/// Adds an input at each run.
class Grow : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &context) override {
    graph.addInput(graph.uniqueValueName("x"), {});
    *context.remarks << "depth " << context.depth << "\n";
    count("grown");
    count("bytes", 512);
    return llvm::Error::success();
  }
  llvm::Error setOption(llvm::StringRef key, llvm::StringRef value,
                        PassContext &context) override {
    return setPlanOption(context, key, value);
  }
};

class Idle : public Pass {
public:
  llvm::Error run(Graph &, PassContext &) override {
    return llvm::Error::success();
  }
};

/// Leaves a state whose output does not exist.
class Break : public Pass {
public:
  llvm::Error run(Graph &graph, PassContext &) override {
    graph.states["nothing"] = "nowhere";
    return llvm::Error::success();
  }
};

class Fail : public Pass {
public:
  llvm::Error run(Graph &, PassContext &) override {
    return makeError("it cannot be done");
  }
};

template <typename T> std::unique_ptr<Pass> create() {
  return std::make_unique<T>();
}

constexpr Form I = Form::Imported, P = Form::Planned;
const PassInfo grow = {"grow", I, P, "", "", create<Grow>};
const PassInfo idle = {"idle", std::nullopt, I, "", "", create<Idle>};
const PassInfo breaks = {"break", I, I, "", "", create<Break>};
const PassInfo fail = {"fail", I, I, "", "", create<Fail>};

struct Trial {
  Graph graph;
  PassContext context;
  InstrumentOptions options;
  std::string printed, remarks;
  llvm::raw_string_ostream printedOut{printed}, remarksOut{remarks};

  Trial() {
    context.remarks = &remarksOut;
    options.out = &printedOut;
    options.printGraph = [](const Graph &graph) {
      return std::to_string(graph.inputs().size()) + " inputs\n";
    };
  }

  std::string operator()(const Pipeline &pipeline) {
    Instrument instrument(options);
    std::string message =
        messageOf(runPipeline(graph, pipeline, context, instrument));
    instrument.finish();
    return message;
  }
};

TEST(PassManager, GivesTheGraphTheFormOfTheRow) {
  Trial run;
  EXPECT_EQ(run({{&grow, {}}}), "");
  EXPECT_EQ(run.graph.form, Form::Planned);
  EXPECT_EQ(run({{&idle, {}}}), "");
  EXPECT_EQ(run.graph.form, Form::Imported);
}

TEST(PassManager, ChecksFormsBeforeAnythingRuns) {
  Trial run;
  EXPECT_NE(run({{&grow, {}}, {&grow, {}}}), "");
  EXPECT_EQ(run.graph.inputs().size(), 0u);
}

TEST(PassManager, ChecksOptionsBeforeAnythingRuns) {
  Trial run;
  EXPECT_EQ(run({{&grow, {}}, {&idle, {{"depth", "2"}}}}),
            "pass 'idle': it has no option 'depth'");
  EXPECT_EQ(run({{&grow, {{"depth", "1"}}}}),
            "pass 'grow': depth=1 is no depth: give a whole number from 2 on");
  EXPECT_EQ(run({{&grow, {{"device-memory", "much"}}}}),
            "pass 'grow': device-memory=much is no size: give bytes, or a "
            "number with KB, MB, GB, TB, KiB, MiB, GiB or TiB");
  EXPECT_EQ(run.graph.inputs().size(), 0u);
}

TEST(PassManager, OptionsHoldForTheirPassAlone) {
  Trial run;
  run.context.depth = 2;
  EXPECT_EQ(run({{&grow, {{"depth", "5"}}}, {&idle, {}}, {&grow, {}}}), "");
  EXPECT_EQ(run.remarks, "depth 5\ndepth 2\n");
}

TEST(PassManager, AnErrorEndsTheRun) {
  Trial run;
  EXPECT_EQ(run({{&fail, {}}, {&grow, {}}}), "it cannot be done");
  EXPECT_EQ(run.graph.inputs().size(), 0u);
}

TEST(PassManager, WritesTheContextIntoThePipeline) {
  PassContext context;
  context.deviceMemoryBytes = 107000;
  context.depth = 4;
  Pipeline pipeline = {{&idle, {}}, {&grow, {{"depth", "2"}}}};
  EXPECT_EQ(printPipeline(withContext(pipeline, context, "host")),
            "idle,grow{depth=2 target=host device-memory=107000}");
}

TEST(Instrument, PrintsAfterOnePassOrAll) {
  Trial run;
  run.options.printIrAfter = {"grow"};
  EXPECT_EQ(run({{&idle, {}}, {&grow, {}}}), "");
  EXPECT_EQ(run.printed, "# graph after grow\n1 inputs\n");
  Trial all;
  all.options.printIrAfter = {"all"};
  EXPECT_EQ(all({{&idle, {}}, {&grow, {}}}), "");
  EXPECT_EQ(all.printed,
            "# graph after idle\n0 inputs\n# graph after grow\n1 inputs\n");
}

TEST(Instrument, PrintsWhatChanged) {
  Trial run;
  run.options.printIrAfterChange = true;
  EXPECT_EQ(run({{&idle, {}}, {&grow, {}}}), "");
  EXPECT_EQ(run.printed,
            "# idle changed nothing\n# graph after grow\n1 inputs\n");
}

TEST(Instrument, BlamesThePassThatBrokeTheGraph) {
  Trial run;
  run.options.verifyEach = true;
  std::string message = run({{&idle, {}}, {&breaks, {}}, {&grow, {}}});
  EXPECT_EQ(message.rfind("after pass 'break': ", 0), 0u) << message;
  Trial unchecked;
  EXPECT_EQ(unchecked({{&breaks, {}}, {&grow, {}}}), "");
}

TEST(Instrument, AddsUpCountsAndTimes) {
  Trial run;
  run.options.stats = true;
  EXPECT_EQ(run({{&grow, {}}}), "");
  EXPECT_EQ(run.printed, "counts by pass:\n         1  grow: grown\n"
                         "       512  grow: bytes\n");
  Trial timed;
  timed.options.timePasses = true;
  EXPECT_EQ(timed({{&idle, {}}, {&grow, {}}}), "");
  EXPECT_NE(timed.printed.find(" ms  idle\n"), std::string::npos);
  EXPECT_NE(timed.printed.find(" ms  all passes\n"), std::string::npos);
}

TEST(Instrument, RefusesToPrintAfterAnUnknownPass) {
  InstrumentOptions options;
  options.printIrAfter = {"clasify"};
  EXPECT_EQ(messageOf(Instrument(options).checkOptions()),
            "--print-ir-after: no pass is called 'clasify'; do you mean "
            "'classify'?");
}

} // namespace
