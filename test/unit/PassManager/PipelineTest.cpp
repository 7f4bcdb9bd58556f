// The text of pipelines, and the forms between their passes.

#include "offload/PassManager/Pipeline.h"

#include "gtest/gtest.h"

using namespace offload;

namespace {

std::string messageOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

std::string refusal(llvm::StringRef text) {
  llvm::Expected<Pipeline> pipeline = parsePipeline(text);
  return pipeline ? "" : messageOf(pipeline.takeError());
}

TEST(Pipeline, PrintsWhatItReads) {
  for (const char *text :
       {"classify", "classify,assign-plan,insert-staging",
        "assign-plan{depth=2 target=host},strip",
        "assign-plan{target=dir%2Cwith%20odd%7Bname%7D.target}"}) {
    llvm::Expected<Pipeline> pipeline = parsePipeline(text);
    ASSERT_TRUE(!!pipeline) << messageOf(pipeline.takeError());
    EXPECT_EQ(printPipeline(*pipeline), text);
  }
}

TEST(Pipeline, ReadsOptionsInOrder) {
  llvm::Expected<Pipeline> pipeline =
      parsePipeline(" assign-plan { depth=3   target=a%20b } , strip ");
  ASSERT_TRUE(!!pipeline) << messageOf(pipeline.takeError());
  ASSERT_EQ(pipeline->size(), 2u);
  using Options = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(pipeline->front().options,
            (Options{{"depth", "3"}, {"target", "a b"}}));
  EXPECT_EQ(pipeline->back().pass->flag, "strip");
}

TEST(Pipeline, RefusesWithTheNearestName) {
  EXPECT_EQ(refusal("classify,insert-stagin"),
            "no pass is called 'insert-stagin'; do you mean "
            "'insert-staging'?");
  EXPECT_EQ(refusal("frobnicate-all-of-it"),
            "no pass is called 'frobnicate-all-of-it': --passes-doc lists them "
            "all");
  EXPECT_EQ(refusal("infer"),
            "'infer' is a pipeline, no pass: give --pipeline=infer");
}

TEST(Pipeline, RefusesBrokenText) {
  EXPECT_EQ(refusal(""), "the list of passes is empty");
  EXPECT_EQ(refusal("classify,"), "the list of passes ends with ','");
  EXPECT_NE(refusal("classify,,strip"), "");
  EXPECT_EQ(refusal("assign-plan{depth=2"),
            "'assign-plan{depth=2' has a '{' without its '}'");
  EXPECT_EQ(refusal("assign-plan{depth}"),
            "option 'depth' of pass 'assign-plan' is not key=value");
  EXPECT_EQ(refusal("assign-plan{depth=2}strip"),
            "'strip' follows the options of pass 'assign-plan': put a ',' "
            "between passes");
}

std::string formRefusal(llvm::StringRef text, Form form) {
  llvm::Expected<Pipeline> pipeline = parsePipeline(text);
  if (!pipeline)
    return messageOf(pipeline.takeError());
  return messageOf(checkForms(*pipeline, form));
}

TEST(Pipeline, ChecksFormsAndNamesWhatIsMissing) {
  EXPECT_EQ(formRefusal("classify,assign-plan,insert-staging", Form::Imported),
            "");
  EXPECT_EQ(formRefusal("insert-staging", Form::Imported),
            "pass 'insert-staging' takes a graph of form Planned, but gets one "
            "of form Imported: run assign-plan first");
  EXPECT_EQ(formRefusal("classify,verify-schedule", Form::Imported),
            "pass 'verify-schedule' takes a graph of form Scheduled, but gets "
            "one of form Imported: run "
            "assign-plan,insert-staging,insert-grad-transfer first");
  EXPECT_EQ(formRefusal("classify", Form::Scheduled),
            "pass 'classify' takes a graph of form Imported, but gets one of "
            "form Scheduled: run strip first");
}

TEST(Pipeline, StripTakesAnyForm) {
  for (Form form : {Form::Imported, Form::Planned, Form::Scheduled})
    EXPECT_EQ(formRefusal("strip,classify", form), "");
}

TEST(Pipeline, NamedOnesFitTogether) {
  for (const PipelineInfo &info : pipelineTable()) {
    llvm::Expected<Pipeline> pipeline = namedPipeline(info.name);
    ASSERT_TRUE(!!pipeline) << messageOf(pipeline.takeError());
    EXPECT_EQ(printPipeline(*pipeline), info.passes);
    EXPECT_EQ(messageOf(checkForms(*pipeline, Form::Imported)), "");
  }
  llvm::Expected<Pipeline> none = namedPipeline("train");
  ASSERT_FALSE(!!none);
  EXPECT_EQ(messageOf(none.takeError()),
            "no pipeline is called 'train'; there is infer");
}

TEST(PassTable, EveryPassSaysWhatItDoes) {
  for (const PassInfo &info : passTable()) {
    EXPECT_FALSE(info.prose.empty()) << info.flag.str();
    EXPECT_TRUE(info.prose.contains("\nIn:")) << info.flag.str();
    EXPECT_NE(passesMarkdown().find("\n## " + info.flag.str() + "\n"),
              std::string::npos);
  }
}

} // namespace
