// SPDX-License-Identifier: BSD-3-Clause
// Fields, lists, decimal numbers and durations in text from outside: files of the kernel,
// environment variables. Pure functions. Results refer to the caller's text. Cost: a nanosecond per
// character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// The text before the next `separator`, or all of it. `text` keeps the rest after the separator.
constexpr std::string_view TakeField(std::string_view* text, char separator) {
  size_t length = 0;
  while (length < text->size() && (*text)[length] != separator) ++length;
  const std::string_view field(text->data(), length);
  text->remove_prefix(length < text->size() ? length + 1 : length);
  return field;
}

// Whether the comma-separated `list` contains `name`.
constexpr bool ListHas(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (TakeField(&list, ',') == name) return true;
  }
  return false;
}

// Unless the compiler optimises it away, the standard library's starts_with or substr refers to a
// function that throws, and this library links no C++ library.
constexpr bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && std::string_view(text.data(), prefix.size()) == prefix;
}

// True if `text` has at least one character, and only decimal digits.
constexpr bool IsDigits(std::string_view text) {
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return !text.empty();
}

// Removes the decimal digits at the front of `text`. False if there are no digits, or if the number
// has more than 64 bits.
constexpr bool TakeNumber(std::string_view* text, uint64_t* value) {
  uint64_t number = 0;
  size_t length = 0;
  for (; length < text->size(); ++length) {
    const char c = (*text)[length];
    if (c < '0' || c > '9') break;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    if (number > (UINT64_MAX - digit) / 10) return false;
    number = number * 10 + digit;
  }
  if (length == 0) return false;
  text->remove_prefix(length);
  *value = number;
  return true;
}

// The shortest and the longest interval of periodic reports: 10 ms and 30 days.
inline constexpr uint64_t kMinIntervalMs = 10;
inline constexpr uint64_t kMaxIntervalMs = uint64_t{30} * 24 * 3600 * 1000;

// Parses all of `text`, an integer and a unit (ms, s, m, h; seconds without a unit), into
// milliseconds. False for a malformed duration, or one outside the limits.
constexpr bool ParseInterval(std::string_view text, int64_t* ms) {
  uint64_t number = 0;
  if (!TakeNumber(&text, &number) || number > kMaxIntervalMs) return false;
  uint64_t unit = 0;
  if (text == "ms") unit = 1;
  if (text.empty() || text == "s") unit = 1000;
  if (text == "m") unit = 60'000;
  if (text == "h") unit = 3'600'000;
  number *= unit;
  if (number < kMinIntervalMs || number > kMaxIntervalMs) return false;
  *ms = static_cast<int64_t>(number);
  return true;
}

}  // namespace tcmalloc
