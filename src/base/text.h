// SPDX-License-Identifier: BSD-3-Clause
// Text: fields, lists, decimal numbers and durations in text from outside (files of the kernel,
// environment variables), and TextWriter, which formats text. Parsing functions are pure; their
// results refer to the caller's text; they cost a nanosecond per character.
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

// Formats text into the caller's buffer. It never allocates, never overflows, and keeps the buffer
// zero-terminated. Text that does not fit is cut off but counted; a writer with a sink hands the
// full buffer to the sink and starts again. Cost: a few nanoseconds per character.
class TextWriter {
 public:
  using Sink = void (*)(std::string_view text, void* context);

  // Requires: size > 0; `buffer` outlives the writer.
  TextWriter(char* buffer, size_t size) : TextWriter(buffer, size, nullptr, nullptr) {}
  // Requires: size > 1; the caller calls Flush at the end.
  TextWriter(char* buffer, size_t size, Sink sink, void* context)
      : buffer_(buffer), size_(size), sink_(sink), context_(context) {
    buffer_[0] = '\0';
  }

  TextWriter& Text(std::string_view text) {
    for (const char c : text) Put(c);
    return *this;
  }

  // Decimal, padded on the left with spaces to `width`.
  TextWriter& Number(uint64_t value, size_t width = 0) {
    char digits[20];
    size_t n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    for (size_t i = n; i < width; ++i) Put(' ');
    while (n > 0) Put(digits[--n]);
    return *this;
  }

  // Hexadecimal, with the prefix 0x.
  TextWriter& Hex(uint64_t value) {
    char digits[16];
    size_t n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % 16];
      value /= 16;
    } while (value != 0);
    Text("0x");
    while (n > 0) Put(digits[--n]);
    return *this;
  }

  TextWriter& Pointer(const void* p) { return Hex(reinterpret_cast<uintptr_t>(p)); }

  // Bytes in MiB with one decimal, rounded down, padded on the left to `width`.
  TextWriter& Mebibytes(uint64_t bytes, size_t width = 0) {
    Number(bytes >> 20, width < 2 ? 0 : width - 2);
    Put('.');
    return Number(((bytes & ((1u << 20) - 1)) * 10) >> 20);
  }

  // Hands the text in the buffer to the sink, if there is one.
  void Flush() {
    if (sink_ == nullptr || length_ == 0) return;
    sink_(text(), context_);
    length_ = 0;
    buffer_[0] = '\0';
  }

  // The text in the buffer.
  std::string_view text() const { return {buffer_, length_}; }
  // Characters written, including those cut off or handed to the sink.
  size_t total_length() const { return total_length_; }
  // True if some text was cut off.
  bool truncated() const { return sink_ == nullptr && total_length_ > length_; }

 private:
  void Put(char c) {
    ++total_length_;
    if (length_ + 1 >= size_) {
      if (sink_ == nullptr) return;
      Flush();
    }
    buffer_[length_++] = c;
    buffer_[length_] = '\0';
  }

  char* const buffer_;
  const size_t size_;
  const Sink sink_;
  void* const context_;
  size_t length_ = 0;
  size_t total_length_ = 0;
};

// Writes seconds since 1970 as 2026-01-31T23:59:58Z (ISO 8601, UTC), without the C library's
// functions, which may allocate and lock. Requires: 0 <= seconds, before the year 10000.
inline void WriteUtcTime(int64_t seconds, TextWriter* out) {
  const auto two_digits = [out](int64_t value) {
    if (value < 10) out->Text("0");
    out->Number(static_cast<uint64_t>(value));
  };
  int64_t days = seconds / 86400;
  const int64_t of_day = seconds % 86400;
  int64_t year = 1970;
  const auto days_in_year = [&year] {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 366 : 365;
  };
  for (; days >= days_in_year(); ++year) days -= days_in_year();
  int64_t month = 1;
  const auto days_in_month = [&] {
    if (month == 2) return days_in_year() - 337;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  };
  for (; days >= days_in_month(); ++month) days -= days_in_month();
  out->Number(static_cast<uint64_t>(year)).Text("-");
  two_digits(month);
  out->Text("-");
  two_digits(days + 1);
  out->Text("T");
  two_digits(of_day / 3600);
  out->Text(":");
  two_digits(of_day / 60 % 60);
  out->Text(":");
  two_digits(of_day % 60);
  out->Text("Z");
}

}  // namespace tcmalloc
