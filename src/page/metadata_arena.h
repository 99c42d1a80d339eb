// SPDX-License-Identifier: BSD-3-Clause
// MetadataArena: memory for the allocator's own records: span records, bitmaps, thread caches,
// arrays of pointers. It grows by mappings from the system and never shrinks; what is returned is
// kept by size and handed out again, so that it is as large as the most that was in use at once of
// each size (rounded: see RoundedBytes).
//
// Called by: every tier. Lock: LockRank::kMetadata, never held over a system call. Cost: one lock;
// a system call per chunk. Memory is aligned to kCacheLineSize from that size on, to at least
// kMinBytes below.
#pragma once

#include <array>
#include <cstddef>

#include "base/config.h"
#include "base/counters.h"
#include "base/tuning.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

class MetadataArena {
 public:
  static constexpr size_t kMinBytes = 16;
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  explicit MetadataArena(VirtualMemory& vm) : vm_(vm) {}

  // Where a chunk comes from when the system refuses: memory of at least `*bytes` bytes, which is
  // set to what it is, or null. Called without locks.
  using Fallback = void* (*)(void* context, size_t* bytes);
  // Called once, before the arena is used by several threads.
  void SetFallback(Fallback fallback, void* context) {
    fallback_ = fallback;
    fallback_context_ = context;
  }

  // Memory of at least `bytes` bytes, contents undefined; nullptr when neither has any. No lock of
  // rank kMetadata or higher may be held, and none at all unless `AllocateWithoutGrowing` is used.
  // Requires: 0 < bytes <= kMaxBytes.
  void* Allocate(size_t bytes) TC_EXCLUDES(lock_);
  // The same, nullptr where it would need a system call.
  void* AllocateWithoutGrowing(size_t bytes) TC_EXCLUDES(lock_);
  // Gives back what Allocate(bytes) returned.
  void Free(void* memory, size_t bytes) TC_EXCLUDES(lock_);

  // What Allocate(bytes) really takes: the next multiple of 16 up to 64 bytes, of 64 up to 1 KiB,
  // then powers of two.
  static constexpr size_t RoundedBytes(size_t bytes) { return SizeOf(SizeNumber(bytes)); }

  // What came from the system for the arena alone.
  size_t mapped_bytes() const { return mapped_bytes_.value(); }
  size_t allocated_bytes() const { return allocated_bytes_.value(); }

  // Where it gets its chunks, for records that are too large for them.
  VirtualMemory& vm() { return vm_; }

  SpinLock& lock() { return lock_; }

 private:
  struct FreeEntry {
    FreeEntry* next;
  };
  // Sizes are numbered: 16 .. 64 by 16, 128 .. 1024 by 64, 2048 .. kMaxBytes by doubling.
  static constexpr size_t kFineSizes = 4;
  static constexpr size_t kMiddleSizes = 15;
  static constexpr size_t kNumSizes = kFineSizes + kMiddleSizes + 10;
  static constexpr size_t SizeOf(size_t number) {
    if (number < kFineSizes) return (number + 1) * kMinBytes;
    if (number < kFineSizes + kMiddleSizes) return (number - kFineSizes + 2) * kCacheLineSize;
    return size_t{2048} << (number - kFineSizes - kMiddleSizes);
  }
  static constexpr size_t SizeNumber(size_t bytes) {
    if (bytes <= kCacheLineSize) return (bytes - 1) / kMinBytes;
    if (bytes <= 1024) return kFineSizes + (bytes - 1) / kCacheLineSize - 1;
    size_t number = kFineSizes + kMiddleSizes;
    while (SizeOf(number) < bytes) ++number;
    return number;
  }
  // Where memory of this size starts: at a multiple of its size or of a cache line.
  static constexpr size_t AlignmentOf(size_t number) {
    const size_t size = SizeOf(number);
    return size % kCacheLineSize == 0    ? kCacheLineSize
           : size % (2 * kMinBytes) == 0 ? 2 * kMinBytes
                                         : kMinBytes;
  }

  // Larger requests get a chunk of their own.
  static constexpr size_t kMostFromSpare =
      kTuning.metadata.chunk_bytes / kTuning.metadata.shared_chunk_part;

  void* TakeLocked(size_t size_number) TC_REQUIRES(lock_);
  // Takes a new chunk in, and memory out of what there is then; null when the chunk is not needed.
  void* UseChunk(char* chunk, size_t chunk_bytes, bool mapped, size_t size_number)
      TC_EXCLUDES(lock_);
  // Keeps what is left of the current chunk, cut into pieces of the listed sizes.
  void DropChunkLocked() TC_REQUIRES(lock_);

  // Constant after construction and SetFallback.
  VirtualMemory& vm_;
  Fallback fallback_ = nullptr;
  void* fallback_context_ = nullptr;

  SpinLock lock_{LockRank::kMetadata};
  std::array<FreeEntry*, kNumSizes> free_ TC_GUARDED_BY(lock_) = {};
  char* chunk_ TC_GUARDED_BY(lock_) = nullptr;
  size_t chunk_left_ TC_GUARDED_BY(lock_) = 0;
  // A whole chunk that was not needed when it came, or null.
  char* spare_ TC_GUARDED_BY(lock_) = nullptr;

  // Written with lock_ held; read racily for statistics.
  OwnedCounter mapped_bytes_;
  OwnedCounter allocated_bytes_;
};

}  // namespace tcmalloc
