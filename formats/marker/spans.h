// SPDX-License-Identifier: BSD-3-Clause
// The spans with which ObjectIndexOf is filled, and its results for an object and for a page. Plain
// data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// An object in use.
struct LiveObject {
  uintptr_t start = 0;
  // Usable bytes: those of its size class; whole pages for a large object, unless it is a sampled
  // small one.
  size_t bytes = 0;
  size_t number = 0;
};

// A span with objects, as it is added.
struct SpanToMark {
  uintptr_t record = 0;  // the address of the allocator's record of it
  uintptr_t start = 0;
  size_t pages = 0;
  // The size of each object.
  size_t object_bytes = 0;
  uint32_t num_objects = 1;
  uint8_t size_class = 0;  // 0: one large object
  // True if pages that were never touched read as zeroes.
  bool zero_filled = false;
};

// The entry of the index for a page. For a page of a small span it has the size class, the index of
// the page in the span, and the number of the span's first object. For a page of a large object it
// has the index of the object's record.
struct PageEntry {
  static constexpr uint64_t kNone = 0;
  static constexpr uint64_t kLarge = 0xff;
  static constexpr int kPageInSpanShift = 8;
  static constexpr int kPayloadShift = 24;

  static constexpr size_t Class(uint64_t entry) { return entry & 0xff; }
  static constexpr bool IsLarge(uint64_t entry) { return (entry & 0xff) == kLarge; }
  static constexpr size_t PageInSpan(uint64_t entry) {
    return (entry >> kPageInSpanShift) & 0xffff;
  }
  static constexpr size_t Payload(uint64_t entry) {
    return static_cast<size_t>(entry >> kPayloadShift);
  }
};

}  // namespace tcmalloc
