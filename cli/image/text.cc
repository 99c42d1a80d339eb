// SPDX-License-Identifier: BSD-3-Clause
#include "image/text.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 if the text does not begin with a character
};

// The shortest forms: the smallest character of 1, 2, 3 and 4 bytes.
constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
constexpr uint32_t kLargest = 0x10ffff;

Character FirstOf(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc0 || first >= 0xf8 || text.size() < bytes) return {};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3fu);
  }
  const bool is_half = code >= 0xd800 && code < 0xe000;  // half of a surrogate pair of UTF-16
  if (code < kSmallest[bytes] || code > kLargest || is_half) return {};
  return {code, bytes};
}

bool Controls(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||
         (code >= 0x2028 && code <= 0x202e) ||  // ends of lines, directions
         (code >= 0x2066 && code <= 0x2069);    // directions
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = FirstOf(text);
    if (bytes == 0 || Controls(code)) {
      clean += '?';
    } else {
      clean += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return clean;
}

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace cli
