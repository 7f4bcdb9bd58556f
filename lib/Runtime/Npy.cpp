// Reads and writes numpy's .npy files.
//
// In:  bytes of format version 1 to 3.
// Out: a contiguous tensor in this machine's byte order; and back.
// Not: archives of several arrays (Npz.cpp).
// How: the header is a Python dictionary of three known keys; each value is
//      read where its key stands, and anything else is refused.

#include "Npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <unistd.h>

namespace offload::rt {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyType {
  std::string_view code; // without the byte order
  DataType type;
};

constexpr NumpyType kTypes[] = {
    {"f4", DataType::Float},   {"f8", DataType::Double},
    {"f2", DataType::Float16}, {"V2", DataType::BFloat16},
    {"i1", DataType::Int8},    {"i2", DataType::Int16},
    {"i4", DataType::Int32},   {"i8", DataType::Int64},
    {"u1", DataType::UInt8},   {"u2", DataType::UInt16},
    {"u4", DataType::UInt32},  {"u8", DataType::UInt64},
    {"b1", DataType::Bool}};

/// The text of the value that follows `'key':`.
std::string_view valueOf(std::string_view header, std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos)
    throw Error("has no '" + std::string(key) + "' in its header");
  at = header.find(':', at);
  if (at == std::string_view::npos)
    throw Error("has a header that is no dictionary");
  std::string_view rest = header.substr(at + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

struct ElementType {
  DataType type;
  bool swapped;
};

ElementType elementType(std::string_view header) {
  std::string_view value = valueOf(header, "descr");
  if (value.size() < 4 || value[0] != '\'')
    throw Error("holds records, not numbers");
  value.remove_prefix(1);
  value = value.substr(0, value.find('\''));
  char order = value.empty() ? '?' : value[0];
  std::string_view code = value.substr(std::min<size_t>(1, value.size()));
  for (const NumpyType &known : kTypes)
    if (known.code == code && (order == '<' || order == '|' || order == '>'))
      return {known.type, order == '>'};
  throw Error("holds elements of type '" + std::string(value) +
              "', which no model takes");
}

std::vector<int64_t> shapeOf(std::string_view header) {
  std::string_view value = valueOf(header, "shape");
  size_t end = value.find(')');
  if (value.empty() || value[0] != '(' || end == std::string_view::npos)
    throw Error("has a shape that is no tuple");
  std::vector<int64_t> dims;
  const char *at = value.data() + 1, *last = value.data() + end;
  while (at < last) {
    if (*at == ' ' || *at == ',' || *at == 'L') {
      ++at;
      continue;
    }
    int64_t size = 0;
    auto [next, error] = std::from_chars(at, last, size);
    if (error != std::errc() || size < 0)
      throw Error("has a shape that is no tuple of sizes");
    dims.push_back(size);
    at = next;
  }
  return dims;
}

/// Start of the elements, and the header's text.
std::pair<size_t, std::string_view> splitHeader(std::string_view bytes) {
  if (bytes.size() < 10 || bytes.substr(0, kMagic.size()) != kMagic)
    throw Error("is no .npy array");
  auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[i]));
  };
  bool isLong = byte(6) >= 2;
  if (byte(6) < 1 || byte(6) > 3 || (isLong && bytes.size() < 12))
    throw Error("is a .npy array of an unknown version");
  size_t start = isLong ? 12 : 10;
  size_t length = byte(8) | byte(9) << 8;
  if (isLong)
    length |= byte(10) << 16 | byte(11) << 24;
  if (bytes.size() - start < length)
    throw Error("ends within its header");
  return {start + length, bytes.substr(start, length)};
}

void swapBytes(std::byte *data, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    std::reverse(data + i * width, data + (i + 1) * width);
}

/// Copies column-major elements into row-major order.
void fromFortran(const char *from, Tensor &to, int64_t width) {
  std::vector<int64_t> position(to.dims.size(), 0);
  std::vector<int64_t> strides(to.dims.size(), 1);
  for (size_t i = 1; i < to.dims.size(); ++i)
    strides[i] = strides[i - 1] * to.dims[i - 1];
  for (int64_t element = 0; element < to.numElements(); ++element) {
    int64_t source = 0;
    for (size_t i = 0; i < position.size(); ++i)
      source += position[i] * strides[i];
    std::memcpy(to.bytes.get() + element * width, from + source * width, width);
    for (size_t i = position.size(); i-- > 0;) {
      if (++position[i] < to.dims[i])
        break;
      position[i] = 0;
    }
  }
}

/// Number of elements, or nothing where it does not fit.
std::optional<int64_t> countOf(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t size : dims)
    if (__builtin_mul_overflow(count, size, &count))
      return std::nullopt;
  return count;
}

} // namespace

Tensor decodeNpy(std::string_view bytes) {
  auto [start, header] = splitHeader(bytes);
  ElementType element = elementType(header);
  std::vector<int64_t> dims = shapeOf(header);
  auto width = static_cast<int64_t>(elementBits(element.type) / 8);
  std::optional<int64_t> count = countOf(dims);
  auto present = static_cast<int64_t>(bytes.size() - start);
  if (!count || *count > present / width)
    throw Error("ends within its elements");
  Tensor tensor = Tensor::allocate(element.type, dims);
  const char *from = bytes.data() + start;
  if (valueOf(header, "fortran_order").substr(0, 4) == "True")
    fromFortran(from, tensor, width);
  else if (*count)
    std::memcpy(tensor.bytes.get(), from, *count * width);
  if (element.swapped)
    swapBytes(tensor.bytes.get(), *count, width);
  return tensor;
}

std::string npyHeader(const Tensor &tensor) {
  std::string_view code;
  for (const NumpyType &known : kTypes)
    if (known.type == tensor.type)
      code = known.code;
  if (code.empty())
    throw Error("numpy has no elements of type " +
                std::string(dataTypeName(tensor.type)));
  char order = elementBits(tensor.type) == 8 ? '|' : '<';
  std::string text = "{'descr': '" + std::string(1, order) + std::string(code) +
                     "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.dims)
    text += std::to_string(size) + ", ";
  if (tensor.dims.size() > 1)
    text.resize(text.size() - 2);
  else if (!tensor.dims.empty())
    text.pop_back();
  text += "), }";
  // Elements start at a multiple of 64 bytes; the header ends with a newline.
  size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  if (total - 10 > 0xffff)
    throw Error("the shape is too long for a .npy header");
  text.append(total - 10 - text.size() - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

Tensor asNumpyType(const Tensor &tensor) {
  if (elementBits(tensor.type) != 4)
    return tensor;
  bool isSigned = tensor.type == DataType::Int4;
  Tensor wide = Tensor::allocate(isSigned ? DataType::Int8 : DataType::UInt8,
                                 tensor.dims);
  const auto *from = tensor.data<uint8_t>();
  auto *to = wide.data<uint8_t>();
  for (int64_t i = 0; i < tensor.numElements(); ++i) {
    int bits = i % 2 ? from[i / 2] >> 4 : from[i / 2] & 15;
    to[i] = static_cast<uint8_t>(isSigned && bits >= 8 ? bits - 16 : bits);
  }
  return wide;
}

std::string readWholeFile(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw Error("'" + path + "' is a folder");
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream)
    throw Error("cannot read '" + path + "': " + std::strerror(errno));
  std::string bytes(static_cast<size_t>(stream.tellg()), '\0');
  stream.seekg(0);
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw Error("cannot read '" + path + "': " + std::strerror(errno));
  return bytes;
}

std::string nameWhileWritten(const std::string &path) {
  return path + ".tmp" + std::to_string(::getpid());
}

void replaceFile(const std::string &path,
                 const std::function<void(std::ostream &)> &write) {
  std::error_code unknown;
  std::filesystem::file_status status = std::filesystem::status(path, unknown);
  bool isReplaceable = !std::filesystem::exists(status) ||
                       std::filesystem::is_regular_file(status);
  // A device or a pipe is written to; a name over it would take its place.
  std::string temporary = isReplaceable ? nameWhileWritten(path) : path;
  auto discard = [&] {
    if (isReplaceable)
      std::remove(temporary.c_str());
  };
  try {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    if (!stream)
      throw Error("cannot write '" + path + "': " + std::strerror(errno));
    write(stream);
    stream.close();
    if (!stream)
      throw Error("cannot write '" + path + "': " + std::strerror(errno));
    if (isReplaceable)
      std::filesystem::rename(temporary, path);
  } catch (const std::filesystem::filesystem_error &error) {
    discard();
    throw Error("cannot write '" + path + "': " + error.code().message());
  } catch (...) {
    discard();
    throw;
  }
}

Tensor readNpy(const std::string &path) {
  std::string bytes = readWholeFile(path);
  try {
    return decodeNpy(bytes);
  } catch (const Error &error) {
    throw Error("'" + path + "' " + error.what());
  }
}

void writeNpy(const std::string &path, const Tensor &tensor) {
  Tensor array = asNumpyType(tensor);
  replaceFile(path, [&](std::ostream &stream) {
    stream << npyHeader(array);
    stream.write(array.data<char>(), array.sizeBytes());
  });
}

} // namespace offload::rt
