// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/annotations/program_annotations.h"

#include <algorithm>
#include <cstring>

namespace tcmalloc {

constinit RegisteredRoots process_registered_roots;

bool RegisteredRoots::Register(const void* start, size_t bytes, VirtualMemory& vm) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  if (bytes == 0 || bytes > UINTPTR_MAX - address) return false;
  for (;;) {
    size_t capacity;
    {
      const SpinLockHolder holder(lock_);
      if (size_ < capacity_) {
        RangesLocked()[size_++] = {address, address + bytes};
        return true;
      }
      capacity = 2 * capacity_;
    }
    if (!Grow(capacity, vm)) return false;
  }
}

bool RegisteredRoots::Grow(size_t capacity, VirtualMemory& vm) {
  const size_t page = vm.hardware_page_size();
  Mapping useless = vm.Map((capacity * sizeof(AddressRange) + page - 1) / page * page, page);
  if (useless.start == nullptr) return false;
  {
    const SpinLockHolder holder(lock_);
    // Another thread may have grown it meanwhile.
    if (capacity_ < capacity) {
      const Mapping larger = useless;
      useless = {mapped_, mapped_bytes_};
      memcpy(larger.start, RangesLocked(), size_ * sizeof(AddressRange));
      mapped_ = static_cast<AddressRange*>(larger.start);
      mapped_bytes_ = larger.bytes;
      capacity_ = larger.bytes / sizeof(AddressRange);
    }
  }
  // If the system refuses, only address space is wasted.
  if (useless.start != nullptr) static_cast<void>(vm.Unmap(useless.start, useless.bytes));
  return true;
}

bool RegisteredRoots::Unregister(const void* start, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  const SpinLockHolder holder(lock_);
  AddressRange* const ranges = RangesLocked();
  for (size_t i = 0; i < size_; ++i) {
    if (ranges[i].start != address || ranges[i].end - address != bytes) continue;
    ranges[i] = ranges[--size_];
    return true;
  }
  return false;
}

size_t RegisteredRoots::size() {
  const SpinLockHolder holder(lock_);
  return size_;
}

size_t RegisteredRoots::CopyTo(AddressRange* ranges, size_t n) {
  const SpinLockHolder holder(lock_);
  n = std::min(n, size_);
  if (n > 0) memcpy(ranges, RangesLocked(), n * sizeof(AddressRange));
  return n;
}

constinit IgnoredAddresses process_ignored_addresses;

}  // namespace tcmalloc
