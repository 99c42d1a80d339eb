// SPDX-License-Identifier: BSD-3-Clause
// Shared by the fuzz targets of the tcmalloc command: a valid input that is changed at some places,
// since few random bytes are ELF files, and the check of texts that may be shown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "image/text.h"

namespace fuzz {

// Applies the input, a sequence of changes of 12 bytes: a place, a kind, and a value.
inline void Change(const uint8_t* data, size_t size, std::string* bytes) {
  constexpr size_t kChange = 12;
  for (; size >= kChange && !bytes->empty(); data += kChange, size -= kChange) {
    uint16_t place;
    uint64_t value;
    memcpy(&place, data, sizeof(place));
    memcpy(&value, data + 4, sizeof(value));
    const unsigned kind = data[2] % 8;
    // Most changes are near the start, where the headers are.
    const size_t piece = data[3] % 4 == 0 ? bytes->size() / 64 * (data[3] / 4) : 0;
    const size_t at = (piece + place) % bytes->size();
    if (kind == 7) {
      bytes->resize(at);  // the file ends early
      continue;
    }
    if (kind == 0) value = 0;
    if (kind == 1) value = ~uint64_t{0};
    if (kind == 2) value = uint64_t{1} << value % 64;
    if (kind == 3) value %= 1024;
    const size_t widths[] = {8, 4, 2, 1};
    const size_t width =
        std::min(kind < 4 ? widths[value % 4] : widths[kind - 3], bytes->size() - at);
    memcpy(&(*bytes)[at], &value, width);
  }
}

// Ends the program unless the text is as CleanText returns it.
inline void RequireClean(std::string_view text) {
  if (cli::CleanText(text) == text) return;
  fprintf(stderr, "a text has bytes that must not be shown\n");
  abort();
}

}  // namespace fuzz
