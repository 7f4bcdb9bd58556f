// numpy's files: what is read is what was written, and broken ones are refused.

#include "offload/Runtime/Npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace {

using namespace offload;
using namespace offload::rt;

/// A folder that goes away.
class Npy : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("npy-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder / name; }
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  std::filesystem::path folder;
};

Tensor counting(DataType type, std::vector<int64_t> dims) {
  Tensor tensor = Tensor::allocate(type, std::move(dims));
  for (int64_t i = 0; i < tensor.sizeBytes(); ++i)
    tensor.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % 120);
  return tensor;
}

void expectSame(const Tensor &a, const Tensor &b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(std::memcmp(a.bytes.get(), b.bytes.get(), a.sizeBytes()), 0);
}

/// A .npy file of version 1 around a header and elements.
std::string array(const std::string &header, const std::string &elements,
                  char version = 1) {
  std::string text = std::string("\x93NUMPY") + version + '\0';
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  if (version > 1)
    text += std::string(2, '\0');
  return text + header + elements;
}

TEST_F(Npy, ReadsWhatItWrote) {
  for (DataType type : {DataType::Float, DataType::Double, DataType::Float16,
                        DataType::BFloat16, DataType::Int8, DataType::Int64,
                        DataType::UInt16, DataType::Bool})
    for (const std::vector<int64_t> &dims :
         {std::vector<int64_t>{}, {5}, {2, 3}, {0, 4}}) {
      Tensor tensor = counting(type, dims);
      writeNpy(path("x.npy"), tensor);
      expectSame(readNpy(path("x.npy")), tensor);
    }
}

TEST_F(Npy, ReadsArchivesThatItWrote) {
  TensorMap tensors = {{"a", counting(DataType::Float, {2, 3})},
                       {"b/c.d", counting(DataType::Int64, {})},
                       {"empty", counting(DataType::Float, {0})}};
  writeNpz(path("x.npz"), tensors);
  TensorMap read = readNpz(path("x.npz"));
  ASSERT_EQ(read.size(), 3u);
  for (const auto &[name, tensor] : tensors)
    expectSame(read.at(name), tensor);
}

TEST_F(Npy, WritesFourBitElementsAsBytes) {
  Tensor tensor = Tensor::allocate(DataType::Int4, {3});
  tensor.data<uint8_t>()[0] = 0x8f; // -1, -8
  tensor.data<uint8_t>()[1] = 0x07; // 7
  writeNpy(path("x.npy"), tensor);
  Tensor read = readNpy(path("x.npy"));
  EXPECT_EQ(read.type, DataType::Int8);
  EXPECT_EQ(read.data<int8_t>()[0], -1);
  EXPECT_EQ(read.data<int8_t>()[1], -8);
  EXPECT_EQ(read.data<int8_t>()[2], 7);
}

TEST_F(Npy, ReadsColumnMajorAndBigEndianAndLaterVersions) {
  std::string elements;
  for (char i = 1; i <= 6; ++i)
    elements += std::string(1, '\0') + i;
  write("x.npy", array("{'descr': '>i2', 'fortran_order': True, "
                       "'shape': (2, 3), }\n",
                       elements, 3));
  Tensor tensor = readNpy(path("x.npy"));
  const auto *data = tensor.data<int16_t>();
  EXPECT_EQ(std::vector<int16_t>(data, data + 6),
            (std::vector<int16_t>{1, 3, 5, 2, 4, 6}));
}

void expectRefused(const std::string &path, const std::string &words) {
  try {
    readNpy(path);
    FAIL() << "read " << path;
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
}

TEST_F(Npy, RefusesWhatIsNoArray) {
  write("text.npy", "hello");
  expectRefused(path("text.npy"), "is no .npy array");
  expectRefused(path("absent.npy"), "No such file");
  std::string header = "{'descr': '<f4', 'fortran_order': False, "
                       "'shape': (4,), }\n";
  write("short.npy", array(header, "123"));
  expectRefused(path("short.npy"), "ends within its elements");
  write("header.npy", array(header, "").substr(0, 20));
  expectRefused(path("header.npy"), "ends within its header");
  write("huge.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': "
                          "(4611686018427387904, 8), }\n",
                          ""));
  expectRefused(path("huge.npy"), "ends within its elements");
  write("object.npy", array("{'descr': '|O', 'fortran_order': False, "
                            "'shape': (), }\n",
                            ""));
  expectRefused(path("object.npy"), "which no model takes");
}

TEST_F(Npy, RefusesBrokenArchivesAtEveryLength) {
  writeNpz(path("x.npz"), {{"a", counting(DataType::Float, {40})}});
  std::ifstream stream(path("x.npz"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  for (size_t length = 0; length < bytes.size(); ++length) {
    write("cut.npz", bytes.substr(0, length));
    EXPECT_THROW(readNpz(path("cut.npz")), Error) << length;
  }
  bytes[200] ^= 1; // an element
  write("flipped.npz", bytes);
  EXPECT_THROW(readNpz(path("flipped.npz")), Error);
}

TEST_F(Npy, LeavesNothingWhereItCannotWrite) {
  Tensor tensor = counting(DataType::Float, {2});
  EXPECT_THROW(writeNpy(path("no/such/folder.npy"), tensor), Error);
  std::filesystem::create_directory(folder / "taken");
  EXPECT_THROW(writeNpy(path("taken"), tensor), Error);
  int entries = 0;
  for ([[maybe_unused]] const auto &entry :
       std::filesystem::directory_iterator(folder))
    ++entries;
  EXPECT_EQ(entries, 1) << "the folder itself only";
}

} // namespace
