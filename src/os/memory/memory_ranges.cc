// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/memory_ranges.h"

#include <algorithm>

namespace tcmalloc {

bool MemoryRanges::AddLocked(const Range& range) {
  Block* with_room = nullptr;
  for (Block* block = &first_; block != nullptr; block = block->next) {
    for (size_t i = 0; i < block->used; ++i) {
      Range& other = block->ranges[i];
      if (other.kind != range.kind) continue;
      if (other.end != range.start && range.end != other.start) continue;
      // The new range is joined at one end only. A range adjacent to its other end stays separate.
      other.start = std::min(other.start, range.start);
      other.end = std::max(other.end, range.end);
      return true;
    }
    if (block->used < block->capacity) with_room = block;
  }
  if (with_room == nullptr) return false;
  with_room->ranges[with_room->used++] = range;
  return true;
}

bool MemoryRanges::Add(const void* start, size_t bytes, MemoryKind kind, VirtualMemory& vm) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(start);
  const Range range = {first, first + bytes, kind};
  {
    const SpinLockHolder holder(lock_);
    if (AddLocked(range)) return true;
  }
  const Mapping more = vm.Map(kMoreBytes, vm.hardware_page_size());
  if (more.start == nullptr) return false;
  Block* const block = static_cast<Block*>(more.start);
  block->used = 0;
  block->capacity = (more.bytes - sizeof(Block)) / sizeof(Range);
  block->ranges = reinterpret_cast<Range*>(block + 1);
  const SpinLockHolder holder(lock_);
  block->next = first_.next;
  first_.next = block;
  return AddLocked(range);
}

MemoryRanges::Part MemoryRanges::PartAt(uintptr_t start, size_t bytes) {
  uintptr_t end = start + bytes;
  const SpinLockHolder holder(lock_);
  for (const Block* block = &first_; block != nullptr; block = block->next) {
    for (size_t i = 0; i < block->used; ++i) {
      const Range& range = block->ranges[i];
      if (range.start <= start && start < range.end) {
        return {range.kind, std::min(end, range.end) - start};
      }
      if (range.start > start) end = std::min(end, range.start);
    }
  }
  return {MemoryKind::kAnonymous, end - start};
}

}  // namespace tcmalloc
