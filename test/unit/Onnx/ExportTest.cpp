// Where data goes when a model is written, and that errors leave nothing.

#include "offload/Onnx/Export.h"
#include "offload/IR/MappedFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace offload;
namespace fs = std::filesystem;

namespace {

std::string message(llvm::Error error) {
  return llvm::toString(std::move(error));
}

std::string contents(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TensorType vectorType(DataType elem, int64_t count) {
  TensorType type;
  type.elem = elem;
  type.hasRank = true;
  type.dims = {Dim{count, ""}};
  return type;
}

/// y = Identity (w): just enough of a model to hold a constant.
std::unique_ptr<Graph> graphOf(TensorType type, TensorData data) {
  auto graph = std::make_unique<Graph>();
  graph->opsets[""] = 21;
  Value *w = graph->addInitializer("w", type, std::move(data));
  Node *node = graph->addNode("same", "", "Identity", {w}, {"y"});
  node->result()->type = type;
  graph->addOutput(node->result());
  return graph;
}

class ExportTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "exportXXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    fs::create_directory(root / "source");
    fs::create_directory(root / "out");
  }
  void TearDown() override { fs::remove_all(root); }

  std::string at(const std::string &name) { return (root / name).string(); }

  /// 4096 floats at offset 64 of source/w.bin.
  std::unique_ptr<Graph> externalGraph(const std::string &location = "w.bin") {
    fs::path file = root / "source" / location;
    if (!fs::exists(file)) {
      fs::create_directories(file.parent_path());
      write(file, std::string(64, 'h') + std::string(16384, 'w'));
    }
    auto mapped = MappedFile::open(fs::canonical(file).string());
    EXPECT_TRUE(bool(mapped));
    auto graph = graphOf(vectorType(DataType::Float, 4096),
                         TensorData::mapped(*mapped, location, 64, 16384));
    graph->sourceFolder = at("source");
    graph->sourcePath = at("source/model.onnx");
    write(graph->sourcePath, "the source");
    return graph;
  }

  std::unique_ptr<Graph> embeddedGraph(int64_t bytes) {
    std::vector<uint8_t> data(static_cast<size_t>(bytes));
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<uint8_t>(i * 31 + 1);
    return graphOf(vectorType(DataType::UInt8, bytes),
                   TensorData::owned(std::move(data)));
  }

  std::string exported(const Graph &graph, const std::string &path,
                       bool noCopy = false) {
    remarks.clear();
    llvm::raw_string_ostream stream(remarks);
    ExportOptions options;
    options.noCopy = noCopy;
    options.remarks = &stream;
    return message(exportModel(graph, path, options));
  }

  std::vector<std::string> filesIn(const std::string &folder) {
    std::vector<std::string> names;
    for (const auto &entry : fs::recursive_directory_iterator(root / folder))
      if (!entry.is_directory())
        names.push_back(
            fs::relative(entry.path(), root / folder).generic_string());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path root;
  std::string remarks;
};

using Names = std::vector<std::string>;

TEST_F(ExportTest, SmallConstantsStayInTheModel) {
  auto graph = embeddedGraph(64);
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  EXPECT_EQ(filesIn("out"), Names{"m.off"});
  EXPECT_NE(contents(root / "out/m.off").find("\x01\x20?"), std::string::npos);
}

TEST_F(ExportTest, LargeEmbeddedConstantsGoToPagesOfOneFile) {
  auto graph = embeddedGraph(65);
  graph->addInitializer("v", vectorType(DataType::Float, 100),
                        TensorData::owned(std::vector<uint8_t>(400, 7)));
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  EXPECT_EQ(filesIn("out"), (Names{"m.off", "m.off.data"}));
  std::string data = contents(root / "out/m.off.data");
  ASSERT_EQ(data.size(), 4096u + 400u);
  EXPECT_EQ(uint8_t(data[64]), uint8_t(64 * 31 + 1));
  EXPECT_EQ(data.substr(65, 4096 - 65), std::string(4096 - 65, '\0'));
  EXPECT_EQ(data.substr(4096), std::string(400, '\7'));
}

TEST_F(ExportTest, ZerosAreHoles) {
  int64_t bytes = int64_t(64) << 20;
  auto graph = graphOf(
      vectorType(DataType::UInt8, bytes),
      TensorData::owned(std::vector<uint8_t>(static_cast<size_t>(bytes))));
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  struct stat status = {};
  ASSERT_EQ(::stat(at("out/m.off.data").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, bytes);
  EXPECT_LT(int64_t(status.st_blocks) * 512, bytes / 16);
}

TEST_F(ExportTest, SameGraphSameBytes) {
  auto graph = embeddedGraph(1000);
  graph->modelProperties["zeta"] = "1";
  graph->modelProperties["alpha"] = "2";
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  std::string model = contents(root / "out/m.off");
  std::string data = contents(root / "out/m.off.data");
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  EXPECT_EQ(contents(root / "out/m.off"), model);
  EXPECT_EQ(contents(root / "out/m.off.data"), data);
  EXPECT_LT(model.find("alpha"), model.find("zeta"));
}

TEST_F(ExportTest, SameFolderKeepsTheSourcesFile) {
  auto graph = externalGraph();
  EXPECT_EQ(exported(*graph, at("source/m.off")), "");
  EXPECT_EQ(filesIn("source"), (Names{"m.off", "model.onnx", "w.bin"}));
  EXPECT_EQ(remarks, "");
}

TEST_F(ExportTest, OtherFolderGetsACopyAndSaysSo) {
  auto graph = externalGraph("weights/w.bin");
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  EXPECT_EQ(filesIn("out"), (Names{"m.off", "weights/w.bin"}));
  EXPECT_EQ(contents(root / "out/weights/w.bin"),
            contents(root / "source/weights/w.bin"));
  EXPECT_NE(remarks.find("out/weights/w.bin' (16448 bytes)"),
            std::string::npos);
  // Once more: the copy is there already.
  EXPECT_EQ(exported(*graph, at("out/n.off")), "");
  EXPECT_EQ(filesIn("out"), (Names{"m.off", "n.off", "weights/w.bin"}));
  EXPECT_NE(remarks.find("already"), std::string::npos);
  EXPECT_EQ(contents(root / "out/m.off"), contents(root / "out/n.off"));
}

TEST_F(ExportTest, CopiesKeepHoles) {
  int64_t bytes = int64_t(256) << 20;
  write(root / "source/w.bin", "head");
  fs::resize_file(root / "source/w.bin", static_cast<uintmax_t>(bytes));
  auto graph = externalGraph();
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  struct stat status = {};
  ASSERT_EQ(::stat(at("out/w.bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, bytes);
  EXPECT_LT(int64_t(status.st_blocks) * 512, bytes / 16);
  std::ifstream copy(root / "out/w.bin", std::ios::binary);
  std::string head(5, 'x');
  copy.read(head.data(), 5);
  EXPECT_EQ(head, std::string("head\0", 5));
}

TEST_F(ExportTest, AnotherModelsDataIsLeftAlone) {
  auto graph = externalGraph();
  write(root / "out/w.bin", "of another model");
  EXPECT_EQ(exported(*graph, at("out/m.off")), "");
  EXPECT_EQ(filesIn("out"), (Names{"m.off", "m.off.w.bin", "w.bin"}));
  EXPECT_EQ(contents(root / "out/w.bin"), "of another model");
  EXPECT_NE(contents(root / "out/m.off").find("m.off.w.bin"),
            std::string::npos);
}

TEST_F(ExportTest, LinksThatOnnxRefusesAreCopied) {
  write(root / "blob", std::string(64, 'h') + std::string(16384, 'w'));
  fs::create_symlink(root / "blob", root / "source/w.bin");
  auto graph = externalGraph();
  EXPECT_EQ(exported(*graph, at("source/m.off")), "");
  EXPECT_EQ(contents(root / "source/m.off.w.bin"), contents(root / "blob"));
  EXPECT_TRUE(fs::is_symlink(root / "source/w.bin"));

  fs::remove(root / "source/w.bin");
  fs::create_hard_link(root / "blob", root / "source/w.bin");
  auto linked = externalGraph();
  EXPECT_EQ(exported(*linked, at("source/n.off")), "");
  EXPECT_TRUE(fs::exists(root / "source/n.off.w.bin"));
  EXPECT_EQ(fs::hard_link_count(root / "source/n.off.w.bin"), 1u);
}

TEST_F(ExportTest, NoCopyNamesTheFolderToTrust) {
  auto graph = externalGraph();
  EXPECT_EQ(exported(*graph, at("out/m.off"), /*noCopy=*/true), "");
  EXPECT_EQ(filesIn("out"), Names{"m.off"});
  EXPECT_NE(contents(root / "out/m.off").find("../source/w.bin"),
            std::string::npos);
  EXPECT_NE(remarks.find("--data-folder="), std::string::npos);
}

TEST_F(ExportTest, TheSourceIsNeverReplaced) {
  auto graph = externalGraph();
  std::string model = at("source/model.onnx");
  fs::create_symlink(model, root / "out/link.off");
  fs::create_hard_link(model, root / "out/hard.off");
  for (const std::string &path :
       {model, at("out/link.off"), at("out/hard.off"), at("source/w.bin")})
    EXPECT_NE(
        exported(*graph, path).find("is a file of the model that is read"),
        std::string::npos)
        << path;
  EXPECT_EQ(contents(model), "the source");
  EXPECT_EQ(contents(root / "source/w.bin").substr(0, 64),
            std::string(64, 'h'));
  EXPECT_EQ(filesIn("source"), (Names{"model.onnx", "w.bin"}));
}

TEST_F(ExportTest, ASourcesDataFileIsNeverReplaced) {
  auto graph = externalGraph("m.off.data");
  std::string before = contents(root / "source/m.off.data");
  graph->addInitializer("v", vectorType(DataType::UInt8, 100),
                        TensorData::owned(std::vector<uint8_t>(100, 7)));
  EXPECT_NE(exported(*graph, at("source/m.off")).find("would be written"),
            std::string::npos);
  EXPECT_EQ(contents(root / "source/m.off.data"), before);
  EXPECT_FALSE(fs::exists(root / "source/m.off"));
}

TEST_F(ExportTest, AFolderInTheWayIsAnError) {
  auto graph = externalGraph();
  fs::create_directory(root / "out/m.off");
  EXPECT_NE(exported(*graph, at("out/m.off")).find("is a directory"),
            std::string::npos);
  EXPECT_EQ(filesIn("out"), Names{});
}

TEST_F(ExportTest, AFullDiskLeavesNothing) {
  auto graph = embeddedGraph(1 << 20);
  auto external = externalGraph("deep/w.bin");
  write(root / "out/m.off", "older");
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {8192, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string embeddedError = exported(*graph, at("out/m.off"));
  std::string copyError = exported(*external, at("out/n.off"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  EXPECT_NE(embeddedError.find("cannot write '" + at("out/m.off.data")),
            std::string::npos)
      << embeddedError;
  EXPECT_NE(copyError.find("cannot write '" + at("out/deep/w.bin")),
            std::string::npos)
      << copyError;
  EXPECT_EQ(filesIn("out"), Names{"m.off"});
  EXPECT_EQ(contents(root / "out/m.off"), "older");
  EXPECT_FALSE(fs::exists(root / "out/deep"));
}

TEST_F(ExportTest, AFullDeviceIsAnError) {
  auto graph = embeddedGraph(1 << 16);
  EXPECT_NE(exported(*graph, "/dev/full").find("No space left"),
            std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(ExportTest, AMissingFolderIsAnError) {
  auto graph = embeddedGraph(100);
  EXPECT_NE(exported(*graph, at("out/a/m.off")).find("there is no folder"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(root / "out/a"));
}

TEST_F(ExportTest, TextKeepsWhatItCannotHoldInAFile) {
  auto graph =
      graphOf(vectorType(DataType::Int4, 3), TensorData::owned({0x21, 0x03}));
  EXPECT_NE(printText(*graph).find(
                R"(int4[3] w = ["location": "embedded.data", "offset": "0", )"
                R"("length": "2"])"),
            std::string::npos)
      << printText(*graph);
  ExportOptions options;
  options.text = true;
  EXPECT_EQ(message(exportModel(*graph, at("out/m.onnxtxt"), options)), "");
  EXPECT_EQ(contents(root / "out/m.onnxtxt.data"), "\x21\x03");
  EXPECT_NE(contents(root / "out/m.onnxtxt").find("m.onnxtxt.data"),
            std::string::npos);
}

TEST_F(ExportTest, AnOperatorWithoutFunctionIsNamed) {
  auto graph = embeddedGraph(4);
  graph->addNode("strange", "offload", "Teleport", {}, {"z"});
  EXPECT_NE(exported(*graph, at("out/m.off")).find("[strange]"),
            std::string::npos);
  EXPECT_EQ(filesIn("out"), Names{});
  EXPECT_EQ(printText(*graph).substr(0, 10), "# no text:");
}

} // namespace
