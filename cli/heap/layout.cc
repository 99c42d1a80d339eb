// SPDX-License-Identifier: BSD-3-Clause
#include "heap/layout.h"

#include <fmt/format.h>

#include <charconv>

#include "image/text.h"

namespace cli {
namespace {

// No structure of a heap exceeds these.
constexpr size_t kMaxStructure = size_t{64} << 20;
constexpr size_t kMaxStructures = 256;

[[noreturn]] void Malformed(std::string_view line) {
  throw BadImage(
      fmt::format("the process's field table has a malformed line: '{}'", CleanText(line)));
}

// Removes and returns the first word.
std::string_view TakeWord(std::string_view* rest) {
  const size_t end = rest->find(' ');
  const std::string_view word = rest->substr(0, end);
  *rest = end == std::string_view::npos ? std::string_view() : rest->substr(end + 1);
  return word;
}

uint64_t TakeNumber(std::string_view* rest, std::string_view line) {
  const std::string_view word = TakeWord(rest);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) Malformed(line);
  return value;
}

}  // namespace

const Field& Structure::field(std::string_view field_name) const {
  const auto found = fields.find(field_name);
  if (found == fields.end()) {
    throw NotPublished(
        fmt::format("the process's library does not publish {}.{}", name, field_name));
  }
  return found->second;
}

void Layout::Parse(std::string_view text) {
  Structure* current = nullptr;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) Malformed(line);
    std::string_view rest = line;
    if (line[0] == '=') {
      rest.remove_prefix(1);
      const std::string name(TakeWord(&rest));
      constants_[name] = TakeNumber(&rest, line);
    } else if (line[0] == ' ') {
      rest.remove_prefix(1);
      if (current == nullptr) Malformed(line);
      const std::string name(TakeWord(&rest));
      Field field;
      field.offset = TakeNumber(&rest, line);
      field.bytes = TakeNumber(&rest, line);
      field.type = rest;
      if (field.offset > current->bytes || field.bytes > current->bytes - field.offset) {
        Malformed(line);
      }
      current->fields[name] = field;
    } else {
      const std::string name(TakeWord(&rest));
      const uint64_t bytes = TakeNumber(&rest, line);
      if (bytes > kMaxStructure || structures_.size() >= kMaxStructures) Malformed(line);
      current = &structures_[name];
      *current = {.name = name, .bytes = bytes};
    }
  }
}

const Structure& Layout::structure(std::string_view name) const {
  const auto found = structures_.find(name);
  if (found == structures_.end()) {
    throw NotPublished(
        fmt::format("the process's library does not publish the structure {}", name));
  }
  return found->second;
}

uint64_t Layout::constant(std::string_view name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end()) {
    throw NotPublished(fmt::format("the process's library does not publish the constant {}", name));
  }
  return found->second;
}

}  // namespace cli
