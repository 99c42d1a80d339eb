// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/metadata_arena.h"

#include <algorithm>
#include <utility>

#include "base/config.h"

namespace tcmalloc {

void* MetadataArena::AllocateWithoutGrowing(size_t bytes) {
  TC_ASSERT(bytes > 0 && bytes <= kMaxBytes);
  const SpinLockHolder holder(lock_);
  return TakeLocked(SizeNumber(bytes));
}

void* MetadataArena::Allocate(size_t bytes) {
  void* memory = AllocateWithoutGrowing(bytes);
  if (memory != nullptr) return memory;
  const size_t page = vm_.hardware_page_size();
  size_t chunk_bytes = bytes > kMostFromChunk ? RoundedBytes(bytes) : kArenaChunkBytes;
  chunk_bytes = (chunk_bytes + page - 1) & ~(page - 1);
  char* chunk = CutFromRegion(chunk_bytes);
  const bool in_region = chunk != nullptr;
  if (!in_region) chunk = static_cast<char*>(vm_.Map(chunk_bytes, page).start);
  const bool mapped = chunk != nullptr;
  if (!mapped) chunk = TakeFromFallback(&chunk_bytes);
  if (chunk == nullptr) return nullptr;
  {
    const SpinLockHolder holder(lock_);
    // Another thread may have been faster. Memory from the fallback cannot be returned.
    memory = mapped ? TakeLocked(SizeNumber(bytes)) : nullptr;
    if (memory == nullptr) {
      if (mapped) mapped_bytes_.Add(chunk_bytes);
      return UseChunkLocked(chunk, chunk_bytes, SizeNumber(bytes));
    }
  }
  // If the OS refuses, only address space is lost.
  if (in_region) {
    ReturnToRegion(chunk, chunk_bytes);
  } else {
    static_cast<void>(vm_.Unmap(chunk, chunk_bytes));
  }
  return memory;
}

char* MetadataArena::CutFromRegion(size_t bytes) {
  const size_t page = vm_.hardware_page_size();
  for (;;) {
    char* chunk = nullptr;
    {
      const SpinLockHolder holder(lock_);
      if (region_left_ >= bytes + page) {
        chunk = region_;
        region_ += bytes;
        region_left_ -= bytes;
      }
    }
    if (chunk == nullptr) {
      if (!AddRegion(bytes)) return nullptr;
      continue;
    }
    if (vm_.Replace(chunk, bytes, VirtualMemory::Access::kReadWrite)) return chunk;
    DropRegion();
    return nullptr;
  }
}

void MetadataArena::DropRegion() {
  char* rest;
  size_t bytes;
  {
    const SpinLockHolder holder(lock_);
    rest = std::exchange(region_, nullptr);
    bytes = std::exchange(region_left_, 0);
    reserved_bytes_ -= bytes;
  }
  if (bytes > 0) static_cast<void>(vm_.Unmap(rest, bytes));
}

bool MetadataArena::AddRegion(size_t bytes) {
  const size_t page = vm_.hardware_page_size();
  const size_t least = bytes + 2 * page;
  size_t region_bytes;
  {
    const SpinLockHolder holder(lock_);
    region_bytes = std::clamp(reserved_bytes_, kFirstRegionBytes, kMaxRegionBytes);
  }
  region_bytes = (std::max(region_bytes, least) + page - 1) & ~(page - 1);
  void* start = vm_.Reserve(region_bytes);
  if (start == nullptr && region_bytes > least) {
    region_bytes = least;
    start = vm_.Reserve(region_bytes);
  }
  if (start == nullptr) return false;
  // The OS maps the heap's first memory directly below the region. It would be asked for it three
  // times if that memory began within a page of the heap.
  const size_t over = reinterpret_cast<uintptr_t>(start) % kPageSize;
  const size_t before = over == 0 ? 0 : kPageSize - over;
  if (before > 0 && region_bytes >= least + before && vm_.Unmap(start, before)) {
    start = static_cast<char*>(start) + before;
    region_bytes -= before;
  }
  {
    const SpinLockHolder holder(lock_);
    if (region_left_ < bytes + page) {
      region_ = static_cast<char*>(start) + page;
      region_left_ = region_bytes - page;
      reserved_bytes_ += region_bytes;
      return true;
    }
  }
  // Another thread was faster. If the OS refuses, only address space is lost.
  static_cast<void>(vm_.Unmap(start, region_bytes));
  return true;
}

void MetadataArena::ReturnToRegion(char* chunk, size_t bytes) {
  // If the OS refuses, or another chunk follows, only address space is lost.
  if (!vm_.Replace(chunk, bytes, VirtualMemory::Access::kNone)) return;
  const SpinLockHolder holder(lock_);
  if (chunk + bytes != region_) return;
  region_ = chunk;
  region_left_ += bytes;
}

char* MetadataArena::TakeFromFallback(size_t* bytes) {
  if (fallback_ == nullptr) return nullptr;
  const size_t page = vm_.hardware_page_size();
  size_t with_guards = *bytes + 2 * page;
  char* const chunk = static_cast<char*>(fallback_(fallback_context_, &with_guards));
  if (chunk == nullptr) return static_cast<char*>(fallback_(fallback_context_, bytes));
  *bytes = with_guards - 2 * page;
  // The arena does not use these pages even if the OS refuses.
  static_cast<void>(vm_.Replace(chunk, page, VirtualMemory::Access::kNone));
  static_cast<void>(vm_.Replace(chunk + page + *bytes, page, VirtualMemory::Access::kNone));
  return chunk + page;
}

void* MetadataArena::UseChunkLocked(char* chunk, size_t chunk_bytes, size_t size_number) {
  std::swap(chunk_, chunk);
  std::swap(chunk_left_, chunk_bytes);
  void* const memory = TakeLocked(size_number);
  // The longer rest stays the current chunk.
  if (chunk_left_ < chunk_bytes) {
    std::swap(chunk_, chunk);
    std::swap(chunk_left_, chunk_bytes);
  }
  CutUpLocked(chunk, chunk_bytes);
  return memory;
}

void MetadataArena::Free(void* memory, size_t bytes) {
  const SpinLockHolder holder(lock_);
  const size_t number = SizeNumber(bytes);
  FreeEntry* const entry = static_cast<FreeEntry*>(memory);
  entry->next = free_[number];
  free_[number] = entry;
  allocated_bytes_.Subtract(SizeOf(number));
}

void* MetadataArena::TakeLocked(size_t size_number) {
  const size_t bytes = SizeOf(size_number);
  if (FreeEntry* const entry = free_[size_number]) {
    free_[size_number] = entry->next;
    allocated_bytes_.Add(bytes);
    return entry;
  }
  // Align within the chunk, which starts at a hardware page boundary.
  const size_t padding = -reinterpret_cast<uintptr_t>(chunk_) & (AlignmentOf(size_number) - 1);
  if (chunk_left_ < padding + bytes) return nullptr;
  for (size_t i = 0; i < padding; i += kMinBytes) {
    FreeEntry* const entry = reinterpret_cast<FreeEntry*>(chunk_ + i);
    entry->next = free_[0];
    free_[0] = entry;
  }
  void* const memory = chunk_ + padding;
  chunk_ += padding + bytes;
  chunk_left_ -= padding + bytes;
  allocated_bytes_.Add(bytes);
  return memory;
}

void MetadataArena::CutUpLocked(char* rest, size_t bytes) {
  while (bytes >= kMinBytes) {
    // The largest size that fits and is aligned as promised; the smallest size always is.
    size_t number = kNumSizes - 1;
    while (SizeOf(number) > bytes || reinterpret_cast<uintptr_t>(rest) % AlignmentOf(number) != 0) {
      --number;
    }
    FreeEntry* const entry = reinterpret_cast<FreeEntry*>(rest);
    entry->next = free_[number];
    free_[number] = entry;
    rest += SizeOf(number);
    bytes -= SizeOf(number);
  }
}

}  // namespace tcmalloc
