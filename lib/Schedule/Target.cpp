// Figures of machines: two built in, others read from `.target` files.
//
// In:  "cuda", "host", or the path of a JSON object (docs/targets.md).
// Out: a Target whose every figure is above zero; only the reserve may be zero.
// Not: measuring a machine.
// How: one table of keys serves reading and the messages about wrong keys.

#include "offload/Schedule/Target.h"

#include "offload/IR/Graph.h"
#include "offload/OffFormat/CardReserve.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace offload {
namespace {

/// One H200 on PCIe 5 x16. The link's figures are of large pinned copies; the
/// latency of a copy is what 1 and 4 MiB copies lose against them.
Target cudaTarget() {
  Target target;
  target.name = "cuda";
  target.reservedBytes = kCardReservedBytes;
  target.h2dBytesPerSecond = 54.8e9;
  target.d2hBytesPerSecond = 54.6e9;
  target.copyLatencySeconds = 15e-6;
  target.launchSeconds = 7e-6;
  target.deviceBytesPerSecond = 4.0e12;
  target.float32FlopsPerSecond = 50e12;
  target.float16FlopsPerSecond = 713e12;
  target.hostBytesPerSecond = 40e9;
  return target;
}

/// Queues as threads of a few cores; copies are copies within host memory.
Target hostTarget() {
  Target target;
  target.name = "host";
  target.reservedBytes = 0;
  target.h2dBytesPerSecond = 8e9;
  target.d2hBytesPerSecond = 8e9;
  target.copyLatencySeconds = 5e-6;
  target.launchSeconds = 10e-6;
  target.deviceBytesPerSecond = 10e9;
  target.float32FlopsPerSecond = 50e9;
  target.float16FlopsPerSecond = 5e9;
  target.hostBytesPerSecond = 10e9;
  return target;
}

struct FigureKey {
  llvm::StringLiteral key;
  double Target::*figure;
};

constexpr FigureKey kFigures[] = {
    {"h2d_bytes_per_second", &Target::h2dBytesPerSecond},
    {"d2h_bytes_per_second", &Target::d2hBytesPerSecond},
    {"copy_latency_seconds", &Target::copyLatencySeconds},
    {"launch_seconds", &Target::launchSeconds},
    {"device_bytes_per_second", &Target::deviceBytesPerSecond},
    {"float32_flops_per_second", &Target::float32FlopsPerSecond},
    {"float16_flops_per_second", &Target::float16FlopsPerSecond},
    {"host_bytes_per_second", &Target::hostBytesPerSecond},
};

constexpr llvm::StringLiteral kNameKey = "name";
constexpr llvm::StringLiteral kReservedKey = "reserved_bytes";

std::string allKeys() {
  std::string text = (kNameKey + ", " + kReservedKey).str();
  for (const FigureKey &row : kFigures)
    text += (", " + row.key).str();
  return text;
}

llvm::Error readKey(Target &target, llvm::StringRef path, llvm::StringRef key,
                    const llvm::json::Value &value) {
  if (key == kNameKey) {
    std::optional<llvm::StringRef> text = value.getAsString();
    if (!text || text->empty())
      return makeError("target file '" + path + "': 'name' must be a text");
    target.name = text->str();
    return llvm::Error::success();
  }
  if (key == kReservedKey) {
    std::optional<int64_t> bytes = value.getAsInteger();
    if (!bytes || *bytes < 0)
      return makeError("target file '" + path + "': '" + key +
                       "' must be a whole number of bytes, zero or more");
    target.reservedBytes = *bytes;
    return llvm::Error::success();
  }
  for (const FigureKey &row : kFigures) {
    if (key != row.key)
      continue;
    std::optional<double> figure = value.getAsNumber();
    if (!figure || !(*figure > 0))
      return makeError("target file '" + path + "': '" + key +
                       "' must be a number above zero");
    target.*row.figure = *figure;
    return llvm::Error::success();
  }
  return makeError("target file '" + path + "': unknown key '" + key +
                   "'; the keys are " + allKeys());
}

llvm::Expected<Target> parseTarget(llvm::StringRef path, llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed)
    return makeError("target file '" + path +
                     "' is no JSON: " + llvm::toString(parsed.takeError()));
  const llvm::json::Object *object = parsed->getAsObject();
  if (!object)
    return makeError("target file '" + path + "' is no JSON object");

  Target target;
  target.name.clear();
  // Keys in name order, so that of several mistakes the same one is reported.
  std::vector<llvm::StringRef> keys;
  for (const auto &entry : *object)
    keys.push_back(entry.first);
  llvm::sort(keys);
  for (llvm::StringRef key : keys)
    if (llvm::Error error = readKey(target, path, key, *object->get(key)))
      return error;

  if (target.name.empty())
    return makeError("target file '" + path + "' lacks the key 'name'");
  for (const FigureKey &row : kFigures)
    if (!object->get(row.key))
      return makeError("target file '" + path + "' lacks the key '" + row.key +
                       "'");
  return target;
}

} // namespace

llvm::Expected<Target> Target::load(llvm::StringRef nameOrPath) {
  if (nameOrPath == "cuda")
    return cudaTarget();
  if (nameOrPath == "host")
    return hostTarget();
  auto buffer = llvm::MemoryBuffer::getFile(nameOrPath, /*IsText=*/true);
  if (!buffer)
    return makeError("unknown target '" + nameOrPath +
                     "': it is neither 'cuda' nor 'host', and as a file: " +
                     buffer.getError().message());
  return parseTarget(nameOrPath, (*buffer)->getBuffer());
}

} // namespace offload
