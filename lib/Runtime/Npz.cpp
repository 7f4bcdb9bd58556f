// Reads and writes numpy's .npz archives: zip files of .npy members.
//
// In:  members stored or deflated, with 64-bit sizes where the archive has
//      them.
// Out: tensors by name; written archives are stored, with a fixed date, so the
//      same tensors give the same bytes.
// Not: archives in several parts, encryption, other methods: refused by name.
// How: the directory at the end of the file says where each member is and how
//      long; local headers only say where the member's bytes begin.

#include "Npy.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>

namespace offload::rt {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50;
constexpr uint32_t kDirectoryEnd = 0x06054b50;
constexpr uint32_t kDirectoryEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kLong = 0xffffffff; // "see the 64-bit field"
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr uint16_t kExtra64 = 1, kVersion64 = 45;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kFixedDate = 0x21; // 1 January 1980, zip's first day

/// A little-endian number at an offset, within bounds.
template <typename T> T numberAt(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    throw Error("is a broken archive: a header lies past its end");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T> void append(std::string &to, T value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

struct Member {
  std::string name;
  uint16_t method = kStored;
  uint32_t checksum = 0;
  uint64_t storedBytes = 0, fullBytes = 0, headerAt = 0;
};

struct Directory {
  uint64_t at = 0, entries = 0;
};

Directory findDirectory(std::string_view bytes) {
  // The end record has a comment of up to 64 KiB behind it.
  size_t least =
      bytes.size() > kEndBytes + 0xffff ? bytes.size() - kEndBytes - 0xffff : 0;
  for (size_t at = bytes.size() < kEndBytes ? 0 : bytes.size() - kEndBytes + 1;
       at-- > least;) {
    if (numberAt<uint32_t>(bytes, at) != kDirectoryEnd)
      continue;
    Directory directory{numberAt<uint32_t>(bytes, at + 16),
                        numberAt<uint16_t>(bytes, at + 10)};
    if (at >= 20 && numberAt<uint32_t>(bytes, at - 20) == kLocator64) {
      auto end64 = numberAt<uint64_t>(bytes, at - 12);
      if (numberAt<uint32_t>(bytes, end64) != kDirectoryEnd64)
        throw Error("is a broken archive: its 64-bit directory is missing");
      directory = {numberAt<uint64_t>(bytes, end64 + 48),
                   numberAt<uint64_t>(bytes, end64 + 32)};
    }
    return directory;
  }
  throw Error("is no .npz archive");
}

/// Replaces 32-bit fields that say "see the 64-bit field", in their order.
void readExtra64(std::string_view extra, Member &member) {
  size_t at = 0;
  while (at + 4 <= extra.size()) {
    auto id = numberAt<uint16_t>(extra, at);
    auto length = numberAt<uint16_t>(extra, at + 2);
    if (id == kExtra64) {
      size_t field = at + 4;
      for (uint64_t *value :
           {&member.fullBytes, &member.storedBytes, &member.headerAt})
        if (*value == kLong) {
          *value = numberAt<uint64_t>(extra, field);
          field += 8;
        }
    }
    at += 4 + length;
  }
}

std::vector<Member> readDirectory(std::string_view bytes) {
  Directory directory = findDirectory(bytes);
  std::vector<Member> members;
  uint64_t at = directory.at;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (numberAt<uint32_t>(bytes, at) != kDirectoryEntry)
      throw Error("is a broken archive: an entry of its directory is missing");
    if (numberAt<uint16_t>(bytes, at + 8) & 1)
      throw Error("is encrypted");
    Member member;
    member.method = numberAt<uint16_t>(bytes, at + 10);
    member.checksum = numberAt<uint32_t>(bytes, at + 16);
    member.storedBytes = numberAt<uint32_t>(bytes, at + 20);
    member.fullBytes = numberAt<uint32_t>(bytes, at + 24);
    auto nameLength = numberAt<uint16_t>(bytes, at + 28);
    auto extraLength = numberAt<uint16_t>(bytes, at + 30);
    auto commentLength = numberAt<uint16_t>(bytes, at + 32);
    member.headerAt = numberAt<uint32_t>(bytes, at + 42);
    uint64_t end = at + kEntryBytes + nameLength + extraLength;
    if (end > bytes.size())
      throw Error("is a broken archive: a name lies past its end");
    member.name = bytes.substr(at + kEntryBytes, nameLength);
    readExtra64(bytes.substr(at + kEntryBytes + nameLength, extraLength),
                member);
    members.push_back(std::move(member));
    at = end + commentLength;
  }
  return members;
}

std::string inflated(std::string_view packed, const Member &member) {
  // Deflate grows a member by 1032 times at most.
  if (member.fullBytes / 1032 > packed.size() + 1)
    throw Error("is a broken archive: '" + member.name +
                "' is longer than its bytes can be");
  std::string full(member.fullBytes, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw Error("cannot be unpacked: zlib does not start");
  size_t taken = 0, made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr size_t kStep = 1u << 30; // zlib counts in 32 bits
    stream.next_in =
        reinterpret_cast<Bytef *>(const_cast<char *>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min(kStep, packed.size() - taken));
    stream.next_out = reinterpret_cast<Bytef *>(full.data() + made);
    stream.avail_out = static_cast<uInt>(std::min(kStep, full.size() - made));
    uInt in = stream.avail_in, out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += out - stream.avail_out;
    if (status == Z_OK && in == stream.avail_in && out == stream.avail_out)
      break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || made != full.size())
    throw Error("is a broken archive: '" + member.name +
                "' does not unpack to its size");
  return full;
}

uint32_t checksumOf(std::string_view bytes, uint32_t checksum = 0) {
  return static_cast<uint32_t>(crc32_z(
      checksum, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

std::string memberBytes(std::string_view bytes, const Member &member) {
  if (numberAt<uint32_t>(bytes, member.headerAt) != kLocalHeader)
    throw Error("is a broken archive: '" + member.name + "' has no header");
  uint64_t start = member.headerAt + kLocalBytes +
                   numberAt<uint16_t>(bytes, member.headerAt + 26) +
                   numberAt<uint16_t>(bytes, member.headerAt + 28);
  if (start > bytes.size() || bytes.size() - start < member.storedBytes)
    throw Error("is a broken archive: '" + member.name + "' is cut short");
  std::string_view stored = bytes.substr(start, member.storedBytes);
  if (member.method != kStored && member.method != kDeflated)
    throw Error("holds '" + member.name + "' in a packing that is not known");
  std::string full = member.method == kDeflated ? inflated(stored, member)
                                                : std::string(stored);
  if (checksumOf(full) != member.checksum)
    throw Error("is a broken archive: the checksum of '" + member.name +
                "' differs");
  return full;
}

std::string arrayName(const std::string &memberName) {
  constexpr std::string_view kSuffix = ".npy";
  bool hasSuffix =
      memberName.size() > kSuffix.size() &&
      std::string_view(memberName).substr(memberName.size() - kSuffix.size()) ==
          kSuffix;
  return hasSuffix ? memberName.substr(0, memberName.size() - kSuffix.size())
                   : memberName;
}

/// The fields that a local header and a directory entry share.
void appendShared(std::string &to, const Member &member) {
  append<uint16_t>(to, kVersion64);
  append<uint16_t>(to, 0x800); // names are UTF-8
  append<uint16_t>(to, kStored);
  append<uint16_t>(to, 0);
  append<uint16_t>(to, kFixedDate);
  append<uint32_t>(to, member.checksum);
  append<uint32_t>(to, kLong);
  append<uint32_t>(to, kLong);
  append<uint16_t>(to, static_cast<uint16_t>(member.name.size()));
}

std::string localHeader(const Member &member) {
  std::string text;
  append(text, kLocalHeader);
  appendShared(text, member);
  append<uint16_t>(text, 20);
  text += member.name;
  append(text, kExtra64);
  append<uint16_t>(text, 16);
  append(text, member.fullBytes);
  append(text, member.storedBytes);
  return text;
}

std::string directoryEntry(const Member &member) {
  std::string text;
  append(text, kDirectoryEntry);
  append(text, kVersion64);
  appendShared(text, member);
  append<uint16_t>(text, 28);
  append<uint16_t>(text, 0); // comment
  append<uint16_t>(text, 0); // part
  append<uint16_t>(text, 0); // internal attributes
  append<uint32_t>(text, 0600u << 16);
  append<uint32_t>(text, kLong);
  text += member.name;
  append(text, kExtra64);
  append<uint16_t>(text, 24);
  append(text, member.fullBytes);
  append(text, member.storedBytes);
  append(text, member.headerAt);
  return text;
}

std::string directoryEnd(uint64_t at, uint64_t length, uint64_t entries) {
  std::string text;
  append(text, kDirectoryEnd64);
  append<uint64_t>(text, 44);
  append(text, kVersion64);
  append(text, kVersion64);
  append<uint64_t>(text, 0); // parts
  append(text, entries);
  append(text, entries);
  append(text, length);
  append(text, at);
  append(text, kLocator64);
  append<uint32_t>(text, 0);
  append<uint64_t>(text, at + length);
  append<uint32_t>(text, 1);
  append(text, kDirectoryEnd);
  append<uint32_t>(text, 0);
  append(text, static_cast<uint16_t>(std::min<uint64_t>(entries, 0xffff)));
  append(text, static_cast<uint16_t>(std::min<uint64_t>(entries, 0xffff)));
  append(text, kLong);
  append(text, kLong);
  append<uint16_t>(text, 0);
  return text;
}

} // namespace

TensorMap readNpz(const std::string &path) {
  std::string bytes = readWholeFile(path);
  TensorMap tensors;
  try {
    for (const Member &member : readDirectory(bytes)) {
      std::string name = arrayName(member.name);
      if (!tensors.emplace(name, decodeNpy(memberBytes(bytes, member))).second)
        throw Error("holds '" + name + "' twice");
    }
  } catch (const Error &error) {
    throw Error("'" + path + "' " + error.what());
  }
  return tensors;
}

void writeNpz(const std::string &path, const TensorMap &tensors) {
  replaceFile(path, [&](std::ostream &stream) {
    std::string directory;
    uint64_t at = 0;
    for (const auto &[name, tensor] : tensors) {
      Tensor array = asNumpyType(tensor);
      std::string header = npyHeader(array);
      std::string_view elements(array.data<char>(), array.sizeBytes());
      if (name.size() > 0xff00)
        throw Error("'" + path + "' cannot hold a name of " +
                    std::to_string(name.size()) + " bytes");
      Member member;
      member.name = name + ".npy";
      member.checksum = checksumOf(elements, checksumOf(header));
      member.fullBytes = member.storedBytes = header.size() + elements.size();
      member.headerAt = at;
      std::string local = localHeader(member);
      stream << local << header << elements;
      directory += directoryEntry(member);
      at += local.size() + member.storedBytes;
    }
    stream << directory << directoryEnd(at, directory.size(), tensors.size());
  });
}

} // namespace offload::rt
