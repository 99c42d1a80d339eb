// SPDX-License-Identifier: BSD-3-Clause
// GuardLayout: where the slots of guarded objects lie, and where an object lies in its slot. Plain
// arithmetic: it touches no memory.
//
//     | fence | pages of slot 0 | fence | pages of slot 1 | fence | ... | fence |
//
// A fence is never accessible. In a slot, only the pages of its object are accessible, while the
// object is in use. Slots and fences consist of whole pages of the allocator and of the hardware,
// so a page of the allocator belongs to at most one slot.
//
// Between an object at the end of its slot and the fence are only the bytes that its alignment
// requires, so an access after it faults. An object at the start of its slot begins at a page, so
// an access before it faults. The rest of the accessible pages, the slack, is filled with a
// pattern, which is checked when the object is freed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/config.h"
#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// Where an object is, and the accessible pages around it.
struct GuardPlace {
  uintptr_t object = 0;
  uintptr_t pages = 0;
  size_t page_bytes = 0;
};

// The slots of the pool: address space for objects in use or in quarantine. With a record of 0.7
// KiB per slot, and kMaxGuardedPageBytes, the pool takes at most 0.7 MiB. Not measured.
inline constexpr size_t kGuardSlots = Tuned(256, 16, 4096);
// Longer objects are not guarded. Each takes whole pages, and most overflows are of short ones. Not
// measured.
inline constexpr size_t kMaxGuardedBytes = Tuned(8_KiB, kPageSize, 64_KiB);
static_assert(std::has_single_bit(kMaxGuardedBytes));

class GuardLayout {
 public:
  GuardLayout() = default;
  explicit GuardLayout(size_t hardware_page_bytes)
      : page_bytes_(hardware_page_bytes),
        slot_bytes_(std::max(kMaxGuardedBytes, hardware_page_bytes)),
        fence_bytes_(std::max(kPageSize, hardware_page_bytes)) {}

  static constexpr size_t kSlots = kGuardSlots;
  static constexpr size_t kNoSlot = SIZE_MAX;

  // Address space of the pool, which begins with a fence at a multiple of alignment().
  size_t bytes() const { return fence_bytes_ + kSlots * stride(); }
  size_t alignment() const { return fence_bytes_; }
  void SetStart(uintptr_t start) { start_ = start; }
  uintptr_t start() const { return start_; }
  size_t slot_bytes() const { return slot_bytes_; }
  uintptr_t SlotStart(size_t slot) const { return start_ + fence_bytes_ + slot * stride(); }

  // The alignment of an object of `size` bytes that was requested with `alignment`.
  static constexpr size_t Alignment(size_t size, size_t alignment) {
    // As in the size classes, objects of up to half of kMinAlignment are aligned to that half.
    const size_t least = size > kMinAlignment / 2 ? kMinAlignment : kMinAlignment / 2;
    return std::max(least, alignment);
  }
  // True if an object of `size` bytes at a multiple of `alignment`, a power of two, can be guarded.
  bool Fits(size_t size, size_t alignment) const {
    return size <= kMaxGuardedBytes && alignment <= page_bytes_;
  }
  // Requires: Fits(size, alignment).
  GuardPlace Place(size_t slot, size_t size, size_t alignment, bool at_start) const {
    const size_t aligned = Alignment(size, alignment);
    // An empty object has its own address, too.
    const size_t taken = (std::max(size, size_t{1}) + aligned - 1) & ~(aligned - 1);
    const size_t pages = (taken + page_bytes_ - 1) & ~(page_bytes_ - 1);
    const uintptr_t first = SlotStart(slot);
    if (at_start) return {first, first, pages};
    const uintptr_t end = first + slot_bytes_;
    return {end - taken, end - pages, pages};
  }

  // The slot whose pages, or the fence after them, contain `address`; kNoSlot for the first fence.
  // Requires: the address is in the pool.
  size_t SlotOf(uintptr_t address) const {
    const uintptr_t offset = address - start_;
    return offset < fence_bytes_ ? kNoSlot : (offset - fence_bytes_) / stride();
  }

 private:
  friend struct FieldTable;

  size_t stride() const { return slot_bytes_ + fence_bytes_; }

  uintptr_t start_ = 0;
  size_t page_bytes_ = 0;
  size_t slot_bytes_ = 0;
  size_t fence_bytes_ = 0;
};

// The pattern around a guarded object, in the rest of its pages. A write there does not fault, so
// the pattern is checked when the object is freed. A write of the pattern's own byte goes
// unnoticed.
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
