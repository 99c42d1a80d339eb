// SPDX-License-Identifier: BSD-3-Clause
#include "page/metadata_arena.h"

#include "base/check.h"
#include "base/config.h"
#include "base/tuning.h"

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
  size_t chunk_bytes = bytes > kMostFromSpare ? RoundedBytes(bytes) : kTuning.metadata.chunk_bytes;
  chunk_bytes = (chunk_bytes + page - 1) & ~(page - 1);
  char* chunk = static_cast<char*>(vm_.Map(chunk_bytes, page).start);
  const bool mapped = chunk != nullptr;
  if (!mapped && fallback_ != nullptr) {
    chunk = static_cast<char*>(fallback_(fallback_context_, &chunk_bytes));
  }
  if (chunk == nullptr) return nullptr;
  memory = UseChunk(chunk, chunk_bytes, mapped, SizeNumber(bytes));
  if (memory != nullptr) return memory;
  // Other threads were faster, and there is a spare chunk. If the OS refuses to unmap this one,
  // only address space is lost.
  static_cast<void>(vm_.Unmap(chunk, chunk_bytes));
  return Allocate(bytes);
}

void* MetadataArena::UseChunk(char* chunk, size_t chunk_bytes, bool mapped, size_t size_number) {
  const SpinLockHolder holder(lock_);
  if (mapped && chunk_bytes == kTuning.metadata.chunk_bytes &&
      SizeOf(size_number) <= kMostFromSpare) {
    // Many threads may have found the arena empty at once, and each have mapped a chunk. One of
    // these is kept as a spare, so that the current chunk is not cut up for each of them.
    if (spare_ != nullptr) return nullptr;
    if (void* const memory = TakeLocked(size_number)) {
      spare_ = chunk;
      mapped_bytes_.Add(chunk_bytes);
      return memory;
    }
  }
  if (mapped) mapped_bytes_.Add(chunk_bytes);
  if (chunk_left_ < chunk_bytes) {
    DropChunkLocked();
    chunk_ = chunk;
    chunk_left_ = chunk_bytes;
    return TakeLocked(size_number);
  }
  // Another thread brought a larger chunk meanwhile: use the new one for this request alone, and
  // keep its rest.
  char* const current = chunk_;
  const size_t current_left = chunk_left_;
  chunk_ = chunk;
  chunk_left_ = chunk_bytes;
  void* const memory = TakeLocked(size_number);
  DropChunkLocked();
  chunk_ = current;
  chunk_left_ = current_left;
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
  if (chunk_left_ < padding + bytes) {
    if (spare_ == nullptr || bytes > kMostFromSpare) return nullptr;
    DropChunkLocked();
    chunk_ = spare_;
    chunk_left_ = kTuning.metadata.chunk_bytes;
    spare_ = nullptr;
    return TakeLocked(size_number);
  }
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

void MetadataArena::DropChunkLocked() {
  while (chunk_left_ >= kMinBytes) {
    // The largest size that fits and is aligned as promised; the smallest size always is.
    size_t number = kNumSizes - 1;
    while (SizeOf(number) > chunk_left_ ||
           reinterpret_cast<uintptr_t>(chunk_) % AlignmentOf(number) != 0) {
      --number;
    }
    FreeEntry* const entry = reinterpret_cast<FreeEntry*>(chunk_);
    entry->next = free_[number];
    free_[number] = entry;
    chunk_ += SizeOf(number);
    chunk_left_ -= SizeOf(number);
  }
  chunk_ = nullptr;
  chunk_left_ = 0;
}

}  // namespace tcmalloc
