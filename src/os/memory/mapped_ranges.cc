// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/mapped_ranges.h"

#include <algorithm>
#include <cstring>

#include "base/config.h"

namespace tcmalloc {

size_t MappedRanges::FindLocked(uintptr_t address) const {
  size_t low = 0;
  size_t high = size_;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (RangesLocked()[middle].end < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void MappedRanges::ReplaceLocked(size_t first, size_t last, const AddressRange* with, size_t n) {
  AddressRange* const ranges = RangesLocked();
  memmove(ranges + first + n, ranges + last, (size_ - last) * sizeof(AddressRange));
  std::copy_n(with, n, ranges + first);
  size_ = size_ - (last - first) + n;
}

void MappedRanges::AddLocked(AddressRange range) {
  const AddressRange* const ranges = RangesLocked();
  const size_t first = FindLocked(range.start);
  size_t last = first;
  for (; last < size_ && ranges[last].start <= range.end; ++last) {
    range.start = std::min(range.start, ranges[last].start);
    range.end = std::max(range.end, ranges[last].end);
  }
  ReplaceLocked(first, last, &range, 1);
}

void MappedRanges::RemoveLocked(AddressRange range) {
  const AddressRange* const ranges = RangesLocked();
  const size_t first = FindLocked(range.start);
  size_t last = first;
  AddressRange left[2];
  size_t n = 0;
  for (; last < size_ && ranges[last].start < range.end; ++last) {
    if (ranges[last].start < range.start) {
      left[n++] = {ranges[last].start, std::min(range.start, ranges[last].end)};
    }
    if (ranges[last].end > range.end) left[n++] = {range.end, ranges[last].end};
  }
  ReplaceLocked(first, last, left, n);
}

bool MappedRanges::Grow(VirtualMemory& vm) {
  size_t capacity;
  {
    const SpinLockHolder holder(lock_);
    if (HasRoomLocked()) return true;
    capacity = 2 * capacity_;
  }
  const size_t page = vm.hardware_page_size();
  const size_t bytes = (capacity * sizeof(AddressRange) + page - 1) / page * page;
  Mapping unused = vm.Map(bytes, page);
  if (unused.start == nullptr) return false;
  {
    const SpinLockHolder holder(lock_);
    // If another thread has made room meanwhile, the new mapping is not needed.
    if (!HasRoomLocked()) {
      const Mapping larger = unused;
      unused = {mapped_ranges_, mapped_bytes_};
      std::copy_n(RangesLocked(), size_, static_cast<AddressRange*>(larger.start));
      mapped_ranges_ = static_cast<AddressRange*>(larger.start);
      mapped_bytes_ = larger.bytes;
      capacity_ = larger.bytes / sizeof(AddressRange);
      AddLocked(RangeOf(larger.start, larger.bytes));
      if (unused.start != nullptr) RemoveLocked(RangeOf(unused.start, unused.bytes));
    }
  }
  // If the OS refuses, only address space is leaked.
  if (unused.start != nullptr) static_cast<void>(vm.Unmap(unused.start, unused.bytes));
  return true;
}

template <typename Change>
void MappedRanges::ChangeWithRoom(VirtualMemory& vm, Change change) {
  do {
    const SpinLockHolder holder(lock_);
    if (HasRoomLocked()) {
      change();
      return;
    }
  } while (Grow(vm));
  is_complete_.store(false, std::memory_order_relaxed);
}

void MappedRanges::Add(const void* start, size_t bytes, VirtualMemory& vm) {
  ChangeWithRoom(vm, [this, range = RangeOf(start, bytes)]()
                         TC_NO_THREAD_SAFETY_ANALYSIS { AddLocked(range); });
}

void MappedRanges::Remove(const void* start, size_t bytes, VirtualMemory& vm) {
  ChangeWithRoom(vm, [this, range = RangeOf(start, bytes)]()
                         TC_NO_THREAD_SAFETY_ANALYSIS { RemoveLocked(range); });
}

size_t MappedRanges::size() {
  const SpinLockHolder holder(lock_);
  return size_;
}

bool MappedRanges::Contains(const void* start, size_t bytes) {
  const AddressRange range = RangeOf(start, bytes);
  const SpinLockHolder holder(lock_);
  // This is the only range that may contain the last address.
  const size_t i = FindLocked(range.end);
  return i < size_ && RangesLocked()[i].start <= range.start;
}

size_t MappedRanges::CopyTo(AddressRange* ranges, size_t n) {
  const SpinLockHolder holder(lock_);
  std::copy_n(RangesLocked(), std::min(n, size_), ranges);
  return size_;
}

void MappedRanges::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  const AddressRange* const ranges = RangesLocked();
  TC_CHECK(size_ <= capacity_);
  for (size_t i = 0; i < size_; ++i) {
    TC_CHECK(ranges[i].start < ranges[i].end);                // A1
    TC_CHECK(i == 0 || ranges[i - 1].end < ranges[i].start);  // A1
  }
}

}  // namespace tcmalloc
