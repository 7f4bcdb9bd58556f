// Decisions of passes as model properties: the keys and their text.
//
// A `.off` keeps every decision in the model's metadata_props, one property for
// each node and value (docs/format.md):
//   "offload.node.fc1"      : "kind=linear scratch=4096"
//   "offload.value.w3_fly"  : "offset=0 bytes=4194304"
//   "offload.insert.stage_w3": "op=Stage of=w3 before=wait_w2 after=w1_free"
//   "offload.state.w3"      : "w3_next"
// The text is `key=value` pairs with one space between them, in the order of
// kPropertyKeys. A value that holds a space, '=', ',' or '%' is written with
// these as %20, %3D, %2C and %25; a list of names is their escaped texts with
// commas between (getList, setList). Standard library only.

#ifndef OFFLOAD_OFFFORMAT_PROPERTIES_H
#define OFFLOAD_OFFFORMAT_PROPERTIES_H

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offload {

/// Prefixes of model properties.
inline constexpr std::string_view kPropertyPrefix = "offload.";
inline constexpr std::string_view kNodePrefix = "offload.node.";
inline constexpr std::string_view kValuePrefix = "offload.value.";
inline constexpr std::string_view kInsertPrefix = "offload.insert.";
inline constexpr std::string_view kStatePrefix = "offload.state.";

/// Properties of the whole model.
inline constexpr std::string_view kFormKey = "offload.form";
inline constexpr std::string_view kTargetKey = "offload.target";
inline constexpr std::string_view kDeviceMemoryKey = "offload.device_memory";
inline constexpr std::string_view kDepthKey = "offload.depth";
inline constexpr std::string_view kPeakBytesKey = "offload.peak_bytes";
inline constexpr std::string_view kStepNsKey = "offload.step_ns";
/// "offset=N bytes=N": the range that all scratch of compute nodes comes from.
inline constexpr std::string_view kScratchKey = "offload.scratch";
/// "batch<=4 seq=128": dimension bounds and fixed sizes the plan was made for.
inline constexpr std::string_view kDimsKey = "offload.dims";
/// All of these: a model with another key under kPropertyPrefix is refused.
inline constexpr std::array<std::string_view, 8> kModelKeys = {
    kFormKey,      kTargetKey, kDeviceMemoryKey, kDepthKey,
    kPeakBytesKey, kStepNsKey, kScratchKey,      kDimsKey};

/// Keys within one property, in the order in which they are printed.
/// node:   kind, fused, queue, scratch
/// value:  residency, view, inplace, offset, bytes
/// insert: op, of, makes, role, before, after
inline constexpr std::array<std::string_view, 16> kPropertyKeys = {
    "op",        "of",    "makes",   "kind", "fused", "queue",
    "residency", "view",  "inplace", "role", "group", "scratch",
    "offset",    "bytes", "before",  "after"};

/// The pairs of one property. Keys are those of kPropertyKeys.
class Properties {
public:
  bool empty() const { return entries.empty(); }
  bool has(std::string_view key) const;
  /// The value, or an empty text where the key is absent.
  std::string_view get(std::string_view key) const;
  /// The value as a whole number; nothing where absent or not a number.
  std::optional<int64_t> getInt(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  std::vector<std::string> getList(std::string_view key) const;
  void setList(std::string_view key, const std::vector<std::string> &names);
  void setInt(std::string_view key, int64_t value);
  void erase(std::string_view key);

  /// Canonical text; parse(print()) is the identity.
  std::string print() const;
  /// Nothing where the text has no '=' in a part, an unknown key or one twice;
  /// `why` then says which.
  static std::optional<Properties> parse(std::string_view text,
                                         std::string *why = nullptr);
  bool operator==(const Properties &) const = default;

private:
  std::map<std::string, std::string, std::less<>> entries;
};

} // namespace offload

#endif // OFFLOAD_OFFFORMAT_PROPERTIES_H
