// What Program::read takes from a file, and every rule by which it refuses one.

#include "OffFile.h"

#include "../../../lib/Runtime/LaunchList.h"

#include <gtest/gtest.h>

#include <random>

namespace offload::rt {
namespace {

// One streamed product: peak = 512 (x) + 512 (w) + 512 (y).
constexpr const char *kSmall = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.peak_bytes": "1536",
  "offload.state.x_idle": "x_free",
  "offload.value.w_fly": "offset=512 bytes=16",
  "offload.value.x_fly": "offset=0 bytes=16",
  "offload.value.y_dev": "offset=1024 bytes=16"]>
g (float[2,2] x, bool x_idle) => (float[2,2] y, bool x_free)
  <float[2,2] w = {1, 2, 3, 4}, bool x_idle = {1}>
{
  [stage_x] x_fly = offload.Stage (x, x_idle)
  [stage_w] w_fly = offload.Stage (w, "")
  [wait_x] x_dev = offload.Wait (x_fly, "")
  [wait_w] w_dev = offload.Wait (w_fly, "")
  [mul] y_dev = MatMul (x_dev, w_dev)
  [release] x_free = offload.Release (y_dev)
  [fetch_y] y = offload.Fetch (y_dev, "")
}
)";

class ProgramFile : public OffFile {
protected:
  void refused(const std::string &what, const std::string &with,
               std::initializer_list<std::string> parts) {
    std::string text = replaced(kSmall, what, with);
    expectError([&] { read(text); }, parts);
  }
};

TEST_F(ProgramFile, HasNumbersForNames) {
  Program program = read(kSmall);
  ASSERT_EQ(program.nodes.size(), 7u);
  EXPECT_EQ(program.peakBytes, 1040);
  EXPECT_EQ(program.plannedPeakBytes, 1536);
  const ProgramValue &x = program.values[program.findValue("x_dev")];
  EXPECT_EQ(x.root, program.findValue("x_fly"));
  EXPECT_EQ(x.home, Home::Device);
  const ProgramValue &idle = program.values[program.findValue("x_idle")];
  EXPECT_EQ(idle.home, Home::Token);
  EXPECT_EQ(idle.next, program.findValue("x_free"));
  const ProgramValue &w = program.values[program.findValue("w")];
  EXPECT_TRUE(w.isConstant());
  EXPECT_EQ(w.contents.size(), 16u);
  EXPECT_EQ(program.nodes[4].queue, Queue::Compute);
  EXPECT_EQ(program.nodes[4].sinceVersion, 13);
  EXPECT_EQ(program.describe(4), "[mul] MatMul on compute");
  EXPECT_EQ(program.describe(1), "[stage_w] offload.Stage on h2d");
}

TEST_F(ProgramFile, MustBeScheduled) {
  refused("\"offload.form\": \"Scheduled\"", "\"offload.form\": \"Planned\"",
          {"form: Planned", "compile it first", "offload-opt"});
  expectError(
      [&] {
        read("<ir_version: 10, opset_import: [\"\": 21]> g (float[2] "
             "x) => (float[2] y) { [a] y = Relu (x) }");
      },
      {"form: none", "offload-opt"});
}

TEST_F(ProgramFile, MustBeAModel) {
  std::string path = folder / "junk.off";
  std::ofstream(path) << "no model at all";
  expectError([&] { Program::read(path, {}); }, {"junk.off", "no ONNX model"});
  expectError([&] { Program::read(folder / "none.off", {}); },
              {"cannot read '" + (folder / "none.off") +
               "': No such file or directory"});
  std::string seen;
  try {
    Program::read(folder / "none.off", {});
  } catch (const Error &error) {
    seen = error.what();
  }
  EXPECT_EQ(seen.find("none.off"), seen.rfind("none.off")) << seen;
  expectError([&] { Program::read(folder.path.string(), {}); },
              {"cannot read", "no plain file"});
  std::string whole;
  parseText(kSmall).SerializeToString(&whole);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      << whole.substr(0, whole.size() / 2);
  expectError([&] { Program::read(path, {}); }, {"junk.off"});
}

TEST_F(ProgramFile, RefusesWhatItDoesNotKnow) {
  refused("MatMul (x_dev, w_dev)", "MatSub (x_dev, w_dev)",
          {"[mul]", "no operator MatSub"});
  refused("\"offload.peak_bytes\": \"1536\"", "\"offload.speed\": \"3\"",
          {"property 'offload.speed'"});
  refused("\"offload.peak_bytes\": \"1536\"",
          "\"offload.insert.a\": \"op=Stage\"", {"offload.insert.a"});
  refused("\"offload.value.x_fly\"", "\"offload.value.x_flew\"",
          {"'offload.value.x_flew' is of no value"});
  refused("\"offload.peak_bytes\": \"1536\"",
          "\"offload.node.m\": \"queue=host\"", {"of no node"});
  refused("offset=512 bytes=16", "offset=512 size=16", {"w_fly"});
}

TEST_F(ProgramFile, DamagedBytesAreReadOrRefused) {
  std::string whole;
  parseText(kSmall).SerializeToString(&whole);
  std::mt19937 random(23);
  int refusals = 0;
  for (int i = 0; i < 600; ++i) {
    std::string damaged = whole;
    for (unsigned k = 0; k <= random() % 3; ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    std::ofstream(folder / "m.off", std::ios::binary) << damaged;
    try {
      Program program = Program::read(folder / "m.off", {});
      checkTimeline(makeLaunchList(program).timeline);
    } catch (const Error &) {
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 300);
}

TEST_F(ProgramFile, ShapesThatNoMemoryHoldsAreRefused) {
  refused("(float[2,2] x, bool x_idle)",
          "(float[4294967296,4294967296] x, bool x_idle)",
          {"'x'", "no memory holds"});
  onnx::ModelProto model = parseText(kSmall);
  auto *shape = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type();
  shape->mutable_shape()->mutable_dim(0)->set_dim_value(-2);
  writeModel(model, folder / "m.off");
  expectError([&] { Program::read(folder / "m.off", {}); },
              {"'x'", "no memory holds"});
}

TEST_F(ProgramFile, NamesAreMadeOnceAndBeforeTheyAreRead) {
  refused("MatMul (x_dev, w_dev)", "MatMul (x_dev, w_later)",
          {"[mul] reads 'w_later', which no node before it makes"});
  refused("[wait_w] w_dev", "[wait_x] w_dev", {"two nodes", "'wait_x'"});
  refused("[wait_w] w_dev", "[wait_w] x_dev", {"'x_dev' is made twice"});
}

TEST_F(ProgramFile, RangesAreAlignedAndWithinThePeak) {
  refused("offset=512 bytes=16", "offset=16 bytes=16",
          {"'w_fly'", "no valid range"});
  refused("offset=512 bytes=16", "offset=512 bytes=-4",
          {"'w_fly'", "no valid range"});
  refused("offset=1024 bytes=16", "offset=2048 bytes=16",
          {"end at 2064", "a peak of 2560", "is 1536"});
  refused("\"offload.peak_bytes\": \"1536\"",
          "\"offload.device_memory\": \"1000\"", {"device memory of 1000"});
  refused("  \"offload.value.y_dev\": \"offset=1024 bytes=16\"]>",
          "  \"offload.target\": \"host\"]>",
          {"[mul]", "makes 'y_dev', which has no place"});
}

TEST_F(ProgramFile, ComputeReadsDeviceValuesThroughWaits) {
  refused("MatMul (x_dev, w_dev)", "MatMul (x_dev, w)",
          {"[mul] MatMul on compute", "'w'", "on the host"});
  refused("MatMul (x_dev, w_dev)", "MatMul (x_dev, w_fly)",
          {"[mul]", "'w_fly'", "[stage_w]", "without a Wait"});
  refused("MatMul (x_dev, w_dev)", "MatMul (x_dev, x_idle)",
          {"[mul]", "token 'x_idle'"});
}

TEST_F(ProgramFile, CopiesGoTheRightWay) {
  refused("offload.Stage (w, \"\")", "offload.Stage (x_fly, \"\")",
          {"[stage_w]", "'x_fly'", "not on the host"});
  refused("offload.Fetch (y_dev, \"\")", "offload.Fetch (w, \"\")",
          {"[fetch_y]", "'w'", "not on the device"});
  refused("w_fly = offload.Stage (w, \"\")",
          "w_fly = offload.Stage:two (w, \"\")", {"[stage_w]", "'two'"});
}

TEST_F(ProgramFile, PartsOfACopyLieOneBehindTheOther) {
  std::string text =
      replaced(kSmall, "  [stage_x] x_fly = offload.Stage (x, x_idle)\n", "");
  text = replaced(text, "w_fly = offload.Stage (w, \"\")",
                  "x_fly, w_fly = offload.Stage:two (x, w, x_idle)");
  read(text);
  text = replaced(text, "offset=512 bytes=16", "offset=1024 bytes=16");
  expectError([&] { read(text); }, {"[stage_w]", "one behind the other"});
}

TEST_F(ProgramFile, OutputsComeToTheHost) {
  std::string text =
      replaced(kSmall, "  [fetch_y] y = offload.Fetch (y_dev, \"\")\n", "");
  text = replaced(text, "(float[2,2] y, bool x_free)",
                  "(float[2,2] y_dev, bool x_free)");
  expectError([&] { read(text); }, {"'y_dev'", "Fetch is missing"});
}

TEST_F(ProgramFile, StatesPairAnInputWithAnOutput) {
  refused("\"offload.state.x_idle\": \"x_free\"",
          "\"offload.state.w\": \"x_free\"", {"state 'w'"});
  refused("\"offload.state.x_idle\": \"x_free\"",
          "\"offload.state.x_idle\": \"nothing\"", {"state 'x_idle'"});
  refused("\"offload.peak_bytes\": \"1536\"", "\"offload.state.x\": \"y_dev\"",
          {"state 'x'"});
}

TEST_F(ProgramFile, UpdatesOfResidentsAreInPlace) {
  std::string text = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.state.a": "a_next",
  "offload.value.a": "residency=resident offset=0 bytes=8",
  "offload.value.a_next": "offset=512 bytes=8"]>
g (float[2] a) => (float[2] a_next) { [more] a_next = Neg (a) })";
  expectError([&] { read(text); }, {"state 'a'", "inplace=a"});
  read(replaced(text, "offset=512 bytes=8", "inplace=a"));
  expectError(
      [&] {
        read(replaced(replaced(text, "offset=512 bytes=8", "inplace=a"),
                      "Neg (a)", "Softmax (a)"));
      },
      {"[more]", "cannot make 'a_next' in place"});
  // The second operand might be read at another element than is written.
  expectError(
      [&] {
        read(replaced(replaced(text, "offset=512 bytes=8", "inplace=a"),
                      "Neg (a)", "Add (a, a)"));
      },
      {"[more]", "over 'a'", "forbids"});
}

TEST_F(ProgramFile, ResidentsHaveAPlaceAndFit) {
  std::string text = R"(
<ir_version: 10, opset_import: ["": 21, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.y_dev": "offset=512 bytes=8",
  "offload.value.w": "residency=resident offset=0 bytes=8"]>
g () => (float[2] y) <float[2] w = {1, 2}>
{ [more] y_dev = Add (w, w)
  [fetch] y = offload.Fetch (y_dev, "") })";
  read(text);
  expectError(
      [&] {
        read(replaced(text, "resident offset=0 bytes=8",
                      "resident offset=0 bytes=4"));
      },
      {"'w'", "8 bytes"});
  expectError([&] { read(replaced(text, " offset=0 bytes=8", "")); },
              {"'w'", "no place"});
}

TEST_F(ProgramFile, OtherDevicesAreOneClearError) {
  std::string path = writeText(kSmall, folder / "m.off");
  SessionOptions options;
  for (const char *name : {"tpu", "cuda", "cuda:", "cuda:x", "cuda:-1"}) {
    options.device = name;
    expectError([&] { Session::load(path, options); },
                {std::string("device '") + name + "' is unknown"});
  }
  options.device = "cuda:99"; // no driver, or no such card
  expectError([&] { Session::load(path, options); }, {"cuda:99 is not there"});
}

// External data.

class ExternalData : public testing::Test {
protected:
  TestFolder folder;

  /// `w` of kSmall in a file of its own.
  std::string write(const std::string &location, int64_t offset, int64_t length,
                    const std::string &name = "m.off") {
    onnx::ModelProto model = parseText(kSmall);
    for (auto &tensor : *model.mutable_graph()->mutable_initializer()) {
      if (tensor.name() != "w")
        continue;
      tensor.clear_float_data();
      tensor.clear_raw_data();
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      auto add = [&](const char *key, const std::string &value) {
        auto &entry = *tensor.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      };
      add("location", location);
      add("offset", std::to_string(offset));
      add("length", std::to_string(length));
    }
    writeModel(model, folder / name);
    return folder / name;
  }
  void writeData(const std::string &path, size_t before = 0) {
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary);
    file << std::string(before, '\0');
    const float values[] = {5, 6, 7, 8};
    file.write(reinterpret_cast<const char *>(values), sizeof(values));
  }
  static float first(const Program &program) {
    float value = 0;
    std::memcpy(&value, program.values[program.findValue("w")].contents.data(),
                4);
    return value;
  }
};

TEST_F(ExternalData, IsMappedAtAnyOffset) {
  writeData(folder / "w.bin", 3);
  EXPECT_EQ(first(Program::read(write("w.bin", 3, 16), {})), 5);
  writeData(folder / "deep/er/w.bin");
  EXPECT_EQ(first(Program::read(write("deep/er/w.bin", 0, 16), {})), 5);
}

TEST_F(ExternalData, TooShortNamesTensorFileOffsetAndLength) {
  writeData(folder / "w.bin");
  expectError(
      [&] { Program::read(write("w.bin", 4, 16), {}); },
      {"tensor 'w'", "'w.bin'", "offset 4", "length 16", "ends at 16 bytes"});
  expectError([&] { Program::read(write("w.bin", 0, 12), {}); },
              {"tensor 'w'", "length 12", "take 16 bytes"});
  expectError([&] { Program::read(write("none.bin", 0, 16), {}); },
              {"tensor 'w'", "'none.bin'", "no such file"});
}

TEST_F(ExternalData, MayNotLeaveTheFolder) {
  TestFolder outside;
  writeData(outside / "w.bin");
  std::string up = "../" + outside.path.filename().string() + "/w.bin";
  for (const std::string &location : {up, outside / "w.bin"}) {
    std::string path = write(location, 0, 16);
    expectError([&] { Program::read(path, {}); },
                {"tensor 'w'", "leads out", "--data-folder"});
    EXPECT_EQ(first(Program::read(path, {outside.path.string()})), 5);
  }
  std::filesystem::create_symlink(outside / "w.bin", folder / "link.bin");
  std::string path = write("link.bin", 0, 16);
  expectError([&] { Program::read(path, {}); }, {"leads out"});
  EXPECT_EQ(first(Program::read(path, {outside.path.string()})), 5);
  expectError([&] { Program::read(path, {folder / "nowhere"}); },
              {"no data folder"});
}

TEST_F(ExternalData, MayLieInAnyOfTheTrustedFolders) {
  TestFolder outside, other;
  writeData(outside / "w.bin");
  std::string path = write(outside / "w.bin", 0, 16);
  std::vector<std::string> both = {other.path.string(), outside.path.string()};
  EXPECT_EQ(first(Program::read(path, both)), 5);
  expectError([&] { Program::read(path, {other.path.string()}); },
              {"leads out"});
  both.push_back(folder / "nowhere");
  expectError([&] { Program::read(path, both); },
              {"no data folder", "nowhere"});
}

TEST_F(ExternalData, MayLieBesideTheFileThatALinkLeadsTo) {
  // As in a cache whose names are links into one folder of blobs.
  writeData(folder / "blobs/0a1b");
  std::filesystem::create_directories(folder / "snapshot");
  write("w.bin", 0, 16, "blobs/2c3d");
  std::filesystem::create_symlink("../blobs/2c3d", folder / "snapshot/m.off");
  std::filesystem::create_symlink("../blobs/0a1b", folder / "snapshot/w.bin");
  EXPECT_EQ(first(Program::read(folder / "snapshot/m.off", {})), 5);
}

TEST_F(ExternalData, EmbeddedBytesMustMatchTheShape) {
  onnx::ModelProto model = parseText(kSmall);
  for (auto &tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.name() == "w") {
      tensor.clear_float_data();
      tensor.set_raw_data("seven b");
    }
  writeModel(model, folder / "m.off");
  expectError([&] { Program::read(folder / "m.off", {}); },
              {"tensor 'w'", "7 bytes", "take 16"});
}

} // namespace
} // namespace offload::rt
