// SPDX-License-Identifier: BSD-3-Clause
// Ranges of addresses, the parts of a range that are outside other ranges, lines of /proc/PID/maps,
// and loads from any address. Plain data and pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tcmalloc {

// AddressRange: the addresses [start, end). Plain data.
struct AddressRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
};

// Calls f(start, end) for the parts of [start, end) outside the `n` ranges, which are sorted and do
// not overlap.
template <typename F>
void ForEachOutside(uintptr_t start, uintptr_t end, const AddressRange* ranges, size_t n, F f) {
  const AddressRange* const last = ranges + n;
  const AddressRange* next =
      std::upper_bound(ranges, last, start,
                       [](uintptr_t address, const AddressRange& r) { return address < r.end; });
  while (start < end) {
    const uintptr_t stop = next == last ? end : std::min(end, next->start);
    if (start < stop) f(start, stop);
    if (stop == end) return;
    start = next->end;
    ++next;
  }
}

// MappingLine: a line of /proc/PID/maps, parsed. Plain data; os/memory_map.h parses.

// The string views refer to the parsed line.
struct MappingLine {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  // True if writes reach no file and no other process.
  bool is_private = false;
  // The offset of the mapping in its file.
  uint64_t file_offset = 0;
  // Device and inode, equal for all mappings of one file; empty if the mapping has no file.
  std::string_view file;
  // The path of the file, without the kernel's note that it has been deleted; or another name, for
  // example "[heap]"; or empty.
  std::string_view name;
};

// Loads from memory that holds no C++ object: stack frames of other functions, tables at unaligned
// addresses. Sanitizers ignore these loads.
template <typename T>
struct __attribute__((packed, may_alias)) RawValue {
  T value;
};

template <typename T>
__attribute__((no_sanitize("address", "thread", "undefined"))) inline T LoadRaw(uintptr_t address) {
  return reinterpret_cast<const RawValue<T>*>(address)->value;
}

// True if all of `bytes` bytes have the value `expected`: the first one has, and each is equal to
// the one before it.
inline bool IsFilled(const void* start, size_t bytes, uint8_t expected) {
  const auto* const at = static_cast<const uint8_t*>(start);
  return bytes == 0 || (at[0] == expected && memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace tcmalloc
