// Properties of nodes and values to and from their canonical text.
//
// In:  key=value pairs set by passes, or the text of one model property.
// Out: the canonical text; pairs in the order of kPropertyKeys.
// Not: what the keys mean (the passes and the runtime).
// How: a list is held as its names with a NUL between them, which no name
//      holds, so that a single name reads as itself and only text is escaped.

#include "offload/OffFormat/Properties.h"

#include <algorithm>
#include <cassert>
#include <charconv>

namespace offload {

namespace {

constexpr char kListSeparator = '\0';

bool isKnownKey(std::string_view key) {
  return std::find(kPropertyKeys.begin(), kPropertyKeys.end(), key) !=
         kPropertyKeys.end();
}

/// Control characters too: a property is printed on one line.
bool mustEscape(char c) {
  return c == ' ' || c == '=' || c == ',' || c == '%' ||
         static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string escape(std::string_view value) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string text;
  for (char c : value) {
    if (c == kListSeparator) {
      text += ',';
    } else if (mustEscape(c)) {
      text += '%';
      text += digits[static_cast<unsigned char>(c) >> 4];
      text += digits[c & 15];
    } else {
      text += c;
    }
  }
  return text;
}

/// Nothing where a '%' is not followed by two hexadecimal digits, or where a
/// character stands unescaped that print() would escape.
std::optional<std::string> unescape(std::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      value += kListSeparator;
      continue;
    }
    if (text[i] != '%') {
      if (mustEscape(text[i]))
        return std::nullopt;
      value += text[i];
      continue;
    }
    unsigned code = 0;
    const char *from = text.data() + i + 1;
    if (i + 2 >= text.size() ||
        std::from_chars(from, from + 2, code, 16).ptr != from + 2 || code == 0)
      return std::nullopt;
    value += static_cast<char>(code);
    i += 2;
  }
  return value;
}

std::vector<std::string_view> splitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0;;) {
    size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string_view::npos)
      return parts;
    from = to + 1;
  }
}

} // namespace

bool Properties::has(std::string_view key) const {
  return entries.find(key) != entries.end();
}

std::string_view Properties::get(std::string_view key) const {
  auto it = entries.find(key);
  return it == entries.end() ? std::string_view() : it->second;
}

std::optional<int64_t> Properties::getInt(std::string_view key) const {
  std::string_view text = get(key);
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, status] = std::from_chars(text.data(), end, value);
  if (text.empty() || status != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

void Properties::set(std::string_view key, std::string_view value) {
  assert(isKnownKey(key) && "the key is not in kPropertyKeys");
  entries.insert_or_assign(std::string(key), std::string(value));
}

std::vector<std::string> Properties::getList(std::string_view key) const {
  std::vector<std::string> names;
  if (get(key).empty())
    return names;
  for (std::string_view name : splitAt(get(key), kListSeparator))
    names.emplace_back(name);
  return names;
}

void Properties::setList(std::string_view key,
                         const std::vector<std::string> &names) {
  std::string value;
  for (const std::string &name : names) {
    if (&name != &names.front())
      value += kListSeparator;
    value += name;
  }
  set(key, value);
}

void Properties::setInt(std::string_view key, int64_t value) {
  set(key, std::to_string(value));
}

void Properties::erase(std::string_view key) {
  auto it = entries.find(key);
  if (it != entries.end())
    entries.erase(it);
}

std::string Properties::print() const {
  std::string text;
  for (std::string_view key : kPropertyKeys) {
    auto it = entries.find(key);
    if (it == entries.end())
      continue;
    if (!text.empty())
      text += ' ';
    text += key;
    text += '=';
    text += escape(it->second);
  }
  return text;
}

std::optional<Properties> Properties::parse(std::string_view text,
                                            std::string *why) {
  Properties properties;
  auto refuse = [why](std::string reason) {
    if (why)
      *why = std::move(reason);
    return std::nullopt;
  };
  if (text.empty())
    return properties;
  for (std::string_view part : splitAt(text, ' ')) {
    size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return refuse("'" + std::string(part) + "' is no key=value pair");
    std::string key(part.substr(0, equals));
    if (!isKnownKey(key))
      return refuse("unknown key '" + key + "'");
    if (properties.has(key))
      return refuse("key '" + key + "' stands there twice");
    std::optional<std::string> value = unescape(part.substr(equals + 1));
    if (!value)
      return refuse("the value of '" + key + "' is not escaped as it must be");
    properties.entries.emplace(std::move(key), std::move(*value));
  }
  return properties;
}

} // namespace offload
