// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/heap_memory.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/config.h"
#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/log.h"

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

namespace {

void ReportUnopened(const char* what, const char* path) {
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: ").Text(what).Text(": cannot open ").Text(path).Text(": ");
  WriteError(errno, &line);
  line.Text("; allocating nothing from it\n");
  WriteToStderr(line.text());
}

[[noreturn]] void AbortForMemfs(size_t bytes) {
  char buffer[128];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: TCMALLOC_MEMFS_ABORT_ON_FAIL: cannot allocate ").Number(bytes);
  line.Text(" bytes from TCMALLOC_MEMFS_MALLOC_PATH\n");
  AbortWith(line.text());
}

}  // namespace

void HeapMemory::Configure(const Options& options) {
  const ErrnoKeeper keeper;
  if (*options.memfs.path != '\0') {
    memfs_wanted_ = true;
    memfs_aborts_ = options.memfs_aborts;
    memfs_only_ = options.memfs_only;
    FileMemory::MemfsOptions memfs = options.memfs;
    memfs.ignore_failures |= options.memfs_only;
    if (!memfs_.OpenMemfs(memfs, hardware_page_size())) {
      ReportUnopened("TCMALLOC_MEMFS_MALLOC_PATH", options.memfs.path);
    }
  }
  if (options.device.first != 0 && !device_.OpenDevice(options.device, hardware_page_size())) {
    ReportUnopened("TCMALLOC_DEVMEM_DEVICE", options.device.path);
  }
}

Mapping HeapMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  if (CustomMemory* const c = custom()) return MapFromCustom(*c, bytes, alignment);
  return MapWithoutCustom(bytes, alignment);
}

Mapping HeapMemory::MapWithoutCustom(size_t bytes, size_t alignment) {
  if (memfs_wanted_) {
    const Mapping mapping = MapFromMemfs(bytes, alignment);
    if (mapping.start != nullptr) return mapping;
    if (memfs_aborts_) AbortForMemfs(bytes);
    if (memfs_only_) return {};
  }
  if (device_.IsUsable()) {
    const Mapping mapping = AddToRanges(device_.Map(bytes, alignment), MemoryKind::kKept);
    if (mapping.start != nullptr) return mapping;
  }
  return anonymous_.Map(bytes, alignment);
}

Mapping HeapMemory::MapFromMemfs(size_t bytes, size_t alignment) {
  return AddToRanges(memfs_.Map(bytes, alignment),
                     memfs_.is_private() ? MemoryKind::kPrivateFile : MemoryKind::kSharedFile);
}

Mapping HeapMemory::MapFromCustom(CustomMemory& custom, size_t bytes, size_t alignment) {
  const ErrnoKeeper keeper;
  alignment = std::max(alignment, kPageSize);
  size_t actual = 0;
  void* const start = custom.Allocate(bytes, &actual, alignment);
  // Reject memory that breaks the contract.
  if (start == nullptr || actual < bytes ||
      (reinterpret_cast<uintptr_t>(start) & (alignment - 1)) != 0) {
    return {};
  }
  actual &= ~(std::max(kPageSize, hardware_page_size()) - 1);
  const Mapping mapping = {start, std::max(actual, bytes), false};
  // The program may return memory from MapWithoutCustom; that of a file or device is listed
  // already.
  const MemoryRanges::Part part = ranges_.PartAt(reinterpret_cast<uintptr_t>(start), mapping.bytes);
  if (part.kind != MemoryKind::kAnonymous && part.bytes == mapping.bytes) return mapping;
  const bool passed_on = anonymous_.mapped().Contains(start, mapping.bytes);
  return AddToRanges(mapping, passed_on ? MemoryKind::kPassedOn : MemoryKind::kKept);
}

Mapping HeapMemory::AddToRanges(const Mapping& mapping, MemoryKind kind) {
  if (mapping.start == nullptr) return {};
  return ranges_.Add(mapping.start, mapping.bytes, kind, anonymous_) ? mapping : Mapping();
}

bool HeapMemory::Unmap(void* start, size_t bytes) {
  const MemoryRanges::Part part = ranges_.PartAt(reinterpret_cast<uintptr_t>(start), bytes);
  return part.kind == MemoryKind::kAnonymous && part.bytes == bytes &&
         anonymous_.Unmap(start, bytes);
}

bool HeapMemory::ReleasePart(uintptr_t start, const MemoryRanges::Part& part) {
  void* const memory = reinterpret_cast<void*>(start);
  switch (part.kind) {
    case MemoryKind::kAnonymous:
    case MemoryKind::kPassedOn:
      return anonymous_.Release(memory, part.bytes);
    case MemoryKind::kPrivateFile:
    case MemoryKind::kSharedFile:
      if (((start | part.bytes) & (memfs_.unit() - 1)) != 0) return false;
      if (part.kind == MemoryKind::kPrivateFile) return anonymous_.Release(memory, part.bytes);
      return !in_forked_child_.load(std::memory_order_relaxed) &&
             madvise(memory, part.bytes, MADV_REMOVE) == 0;
    case MemoryKind::kKept:
      return false;
  }
  return false;
}

bool HeapMemory::Release(void* start, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  bool released = true;
  uintptr_t at = reinterpret_cast<uintptr_t>(start);
  for (const uintptr_t end = at + bytes; at < end;) {
    const MemoryRanges::Part part = ranges_.PartAt(at, end - at);
    released &= ReleasePart(at, part);
    at += part.bytes;
  }
  return released;
}

size_t HeapMemory::Room() {
  if (custom() != nullptr) return SIZE_MAX;
  const auto bounded = [](uint64_t room) {
    return static_cast<size_t>(std::min<uint64_t>(room, SIZE_MAX));
  };
  if (memfs_.IsUsable()) {
    const uint64_t room = memfs_.Room();
    if (room > 0 || memfs_only_) return bounded(room);
  }
  if (device_.IsUsable()) {
    const uint64_t room = device_.Room();
    if (room > 0) return bounded(room);
  }
  return SIZE_MAX;
}

}  // namespace tcmalloc
