// Reads and writes numbers of bytes.
//
// How: whole-number arithmetic, so that 1.5GiB and 0.1KB are exact.

#include "offload/PassManager/ByteCount.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

namespace offload {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Unit {
  llvm::StringLiteral name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"kb", 1000},
    {"mb", 1000 * 1000},
    {"gb", 1000 * 1000 * 1000},
    {"tb", int64_t{1000} * 1000 * 1000 * 1000},
    {"kib", int64_t{1} << 10},
    {"mib", int64_t{1} << 20},
    {"gib", int64_t{1} << 30},
    {"tib", int64_t{1} << 40},
};

/// More digits after the point than this cannot move a byte of a TiB.
constexpr size_t kMostFractionDigits = 15;

} // namespace

std::optional<int64_t> parseByteCount(llvm::StringRef text) {
  llvm::StringRef whole = text.take_while(llvm::isDigit);
  llvm::StringRef rest = text.drop_front(whole.size());
  llvm::StringRef fraction;
  if (rest.consume_front(".")) {
    fraction = rest.take_while(llvm::isDigit);
    rest = rest.drop_front(fraction.size());
    if (fraction.empty())
      return std::nullopt;
  }
  const std::string unit = rest.ltrim(' ').lower();
  const Unit *found = llvm::find_if(
      kUnits, [&](const Unit &candidate) { return candidate.name == unit; });
  int64_t count = 0;
  if (found == std::end(kUnits) || whole.empty() ||
      whole.getAsInteger(10, count) || count > kMost / found->bytes ||
      (!fraction.empty() && found->bytes == 1))
    return std::nullopt;
  int64_t bytes = count * found->bytes;
  __int128 scaled = 0, scale = 1;
  for (char digit : fraction.take_front(kMostFractionDigits)) {
    scaled = scaled * 10 + (digit - '0');
    scale *= 10;
  }
  const auto part = static_cast<int64_t>(scaled * found->bytes / scale);
  if (part > kMost - bytes || bytes + part == 0)
    return std::nullopt;
  return bytes + part;
}

std::string formatByteCount(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream out(text);
  constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;
  if (bytes < kMiB)
    out << bytes << (bytes == 1 ? " byte" : " bytes");
  else if (bytes < kGiB)
    out << llvm::format("%.2f MiB", static_cast<double>(bytes) / kMiB);
  else
    out << llvm::format("%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

} // namespace offload
