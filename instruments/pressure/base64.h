// SPDX-License-Identifier: BSD-3-Clause
// Decoder for Base64 (RFC 4648, section 4: with + and /, padded with =). A pure function. It
// rejects line ends, missing padding and unused bits that are not 0, so that bytes have only one
// spelling. Cost: a few nanoseconds per character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tcmalloc {

// Writes the decoded bytes to `bytes`, which has room for `size`, and returns their number. No
// value when the text is malformed or needs more room; then some bytes may have been written.
constexpr std::optional<size_t> DecodeBase64(std::string_view text, char* bytes, size_t size) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  uint32_t bits = 0;  // decoded, and not yet written
  size_t num_bits = 0;
  size_t length = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      value = 62;
    } else if (c == '/') {
      value = 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | value;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    if (length == size) return std::nullopt;
    bytes[length++] = static_cast<char>(bits >> num_bits);
    bits &= (uint32_t{1} << num_bits) - 1;
  }
  if (bits != 0) return std::nullopt;
  return length;
}

}  // namespace tcmalloc
