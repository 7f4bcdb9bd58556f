// Files as ranges of memory, and what is no such file.

#include "offload/IR/MappedFile.h"
#include "offload/IR/Graph.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace offload;
namespace fs = std::filesystem;

namespace {

class MappedFileTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "mappedXXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string file(const char *name, const std::string &bytes) {
    fs::path path = folder / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  std::string refused(const std::string &path) {
    auto file = MappedFile::open(path);
    EXPECT_FALSE(static_cast<bool>(file));
    return llvm::toString(file.takeError());
  }

  fs::path folder;
};

TEST_F(MappedFileTest, GivesUnalignedRanges) {
  auto mapped = MappedFile::open(file("a", "0123456789"));
  ASSERT_TRUE(static_cast<bool>(mapped));
  EXPECT_EQ((*mapped)->sizeBytes(), 10);
  auto data = TensorData::mapped(*mapped, "sub/a", 3, 4);
  mapped->reset(); // the tensor keeps the file
  EXPECT_TRUE(data.isExternal());
  EXPECT_EQ(data.location(), "sub/a");
  EXPECT_EQ(data.fileOffset(), 3);
  ASSERT_EQ(data.bytes().size(), 4u);
  EXPECT_EQ(data.bytes()[0], '3');
}

TEST_F(MappedFileTest, AnEmptyFileIsARangeOfNothing) {
  auto mapped = MappedFile::open(file("empty", ""));
  ASSERT_TRUE(static_cast<bool>(mapped));
  EXPECT_EQ((*mapped)->bytes(0, 0).size(), 0u);
  EXPECT_FALSE(TensorData::mapped(*mapped, "empty", 0, 0).empty());
}

TEST_F(MappedFileTest, ALargeSparseFileCostsNothing) {
  std::string path = file("large", "");
  constexpr int64_t bytes = int64_t(140) << 30;
  ASSERT_EQ(::truncate(path.c_str(), bytes), 0);
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(static_cast<bool>(mapped));
  EXPECT_EQ((*mapped)->bytes(bytes - 1, 1)[0], 0);
}

TEST_F(MappedFileTest, RefusesWhatIsNoFile) {
  EXPECT_NE(refused((folder / "none").string()).find("No such file"),
            std::string::npos);
  EXPECT_NE(refused(folder.string()).find("it is a directory"),
            std::string::npos);
  std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refused(pipe).find("not a regular file"), std::string::npos);
}

TEST(TensorDataTest, EmptyContentsAreNotNoContents) {
  EXPECT_TRUE(TensorData().empty());
  EXPECT_FALSE(TensorData::owned({}).empty());
  TensorData data = TensorData::owned({1, 2});
  TensorData copy = data;
  EXPECT_EQ(copy.bytes().data(), data.bytes().data());
}

} // namespace
