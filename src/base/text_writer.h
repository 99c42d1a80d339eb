// SPDX-License-Identifier: BSD-3-Clause
// TextWriter: formats text into a buffer that the caller owns. It never allocates, never overflows
// (text that does not fit is cut) and keeps the buffer terminated by a zero. Cost: a few
// nanoseconds per character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

class TextWriter {
 public:
  // Requires: size > 0; `buffer` outlives the writer.
  TextWriter(char* buffer, size_t size) : buffer_(buffer), size_(size) { buffer_[0] = '\0'; }

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

  // Hexadecimal with 0x in front.
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

  std::string_view text() const { return {buffer_, length_}; }
  // Some text was cut.
  bool truncated() const { return truncated_; }

 private:
  void Put(char c) {
    if (length_ + 1 >= size_) {
      truncated_ = true;
      return;
    }
    buffer_[length_++] = c;
    buffer_[length_] = '\0';
  }

  char* const buffer_;
  const size_t size_;
  size_t length_ = 0;
  bool truncated_ = false;
};

}  // namespace tcmalloc
