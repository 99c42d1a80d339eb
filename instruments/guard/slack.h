// SPDX-License-Identifier: BSD-3-Clause
// The pattern around a guarded object, in the rest of its pages. A write there does not fault, so
// the pattern is checked when the object is freed. A write of the pattern's own byte goes
// unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "instruments/guard/guard_layout.h"

namespace tcmalloc {

inline constexpr uint8_t kSlackByte = 0xcb;

inline void FillSlack(const GuardPlace& place, size_t size) {
  const uintptr_t end = place.object + size;
  memset(reinterpret_cast<void*>(place.pages), kSlackByte, place.object - place.pages);
  memset(reinterpret_cast<void*>(end), kSlackByte, place.pages + place.page_bytes - end);
}

// True if all bytes of [start, end) have the pattern.
inline bool IsSlack(uintptr_t start, uintptr_t end) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(start);
  // Each byte is equal to the one before it.
  return start == end || (bytes[0] == kSlackByte && memcmp(bytes, bytes + 1, end - start - 1) == 0);
}

// Returns the address of the written byte that is nearest to the object, first after it, then
// before it; 0 if none was written. Requires: the pages are accessible.
inline uintptr_t FindWrittenSlack(const GuardPlace& place, size_t size) {
  const uintptr_t after = place.object + size;
  const uintptr_t end = place.pages + place.page_bytes;
  if (!IsSlack(after, end)) {
    uintptr_t at = after;
    while (IsSlack(at, at + 1)) ++at;
    return at;
  }
  if (!IsSlack(place.pages, place.object)) {
    uintptr_t at = place.object - 1;
    while (IsSlack(at, at + 1)) --at;
    return at;
  }
  return 0;
}

}  // namespace tcmalloc
