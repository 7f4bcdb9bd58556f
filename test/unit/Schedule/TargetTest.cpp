// Targets: the built-in ones are complete, files are read or refused by key.

#include "offload/Schedule/Target.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace offload;

namespace {

/// A file with that text for the time of one test.
class TargetFile {
public:
  explicit TargetFile(llvm::StringRef text) {
    int handle = -1;
    EXPECT_FALSE(
        llvm::sys::fs::createTemporaryFile("unit", "target", handle, path));
    llvm::raw_fd_ostream(handle, /*shouldClose=*/true) << text;
  }
  ~TargetFile() { llvm::sys::fs::remove(path); }

  std::string error() const {
    llvm::Expected<Target> target = Target::load(path);
    return target ? "" : llvm::toString(target.takeError());
  }
  llvm::SmallString<128> path;
};

constexpr const char *kFull = R"({
  "name": "small", "reserved_bytes": 1024, "h2d_bytes_per_second": 1e9,
  "d2h_bytes_per_second": 2e9, "copy_latency_seconds": 1e-6,
  "launch_seconds": 1e-6, "device_bytes_per_second": 1e12,
  "float32_flops_per_second": 1e12, "float16_flops_per_second": 2e12,
  "host_bytes_per_second": 3e9})";

TEST(Target, BuiltInOnesAreComplete) {
  for (const char *name : {"cuda", "host"}) {
    llvm::Expected<Target> target = Target::load(name);
    ASSERT_TRUE(bool(target));
    EXPECT_EQ(target->name, name);
    EXPECT_GT(target->h2dBytesPerSecond, 0);
    EXPECT_GT(target->d2hBytesPerSecond, 0);
    EXPECT_GT(target->copyLatencySeconds, 0);
    EXPECT_GT(target->launchSeconds, 0);
    EXPECT_GT(target->deviceBytesPerSecond, 0);
    EXPECT_GT(target->float32FlopsPerSecond, 0);
    EXPECT_GT(target->float16FlopsPerSecond, 0);
    EXPECT_GT(target->hostBytesPerSecond, 0);
  }
  EXPECT_EQ(llvm::cantFail(Target::load("host")).reservedBytes, 0);
  EXPECT_GT(llvm::cantFail(Target::load("cuda")).reservedBytes, int64_t(663)
                                                                    << 20);
}

TEST(Target, ReadsAFile) {
  TargetFile file(kFull);
  llvm::Expected<Target> target = Target::load(file.path);
  ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
  EXPECT_EQ(target->name, "small");
  EXPECT_EQ(target->reservedBytes, 1024);
  EXPECT_EQ(target->d2hBytesPerSecond, 2e9);
  EXPECT_EQ(target->hostBytesPerSecond, 3e9);
}

TEST(Target, RefusesWhatIsNoTarget) {
  EXPECT_NE(TargetFile("{").error().find("is no JSON"), std::string::npos);
  EXPECT_NE(TargetFile("[]").error().find("no JSON object"), std::string::npos);
  EXPECT_NE(TargetFile("{}").error().find("lacks the key 'name'"),
            std::string::npos);
  EXPECT_NE(TargetFile(R"({"name": "x"})")
                .error()
                .find("lacks the key 'h2d_bytes_per_second'"),
            std::string::npos);
  EXPECT_NE(TargetFile(R"({"nmae": "x"})").error().find("unknown key 'nmae'"),
            std::string::npos);
  EXPECT_NE(TargetFile(R"({"launch_seconds": 0})")
                .error()
                .find("'launch_seconds' must be a number above zero"),
            std::string::npos);
  EXPECT_NE(TargetFile(R"({"reserved_bytes": -1})")
                .error()
                .find("'reserved_bytes' must be a whole number"),
            std::string::npos);
}

TEST(Target, UnknownNamesSayWhatThereIs) {
  llvm::Expected<Target> target = Target::load("no-such-target");
  ASSERT_FALSE(bool(target));
  EXPECT_NE(llvm::toString(target.takeError())
                .find("unknown target 'no-such-target'"),
            std::string::npos);
}

} // namespace
