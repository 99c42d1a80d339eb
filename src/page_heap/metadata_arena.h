// SPDX-License-Identifier: BSD-3-Clause
// MetadataArena: memory for the allocator's own records: span records, bitmaps, thread caches,
// arrays of pointers. It gets chunks from the OS and never shrinks. Freed records are kept by size
// and handed out again, so the arena is as large as the peak of each size that was in use at once
// (rounded: see RoundedBytes).
//
// Guards. Chunks lie one after the other in regions that begin and end with a page without access,
// so that a program that writes past the end of its memory does not reach records. A region is
// reserved as a whole, and needs two or three mappings whatever its size:
//
//     no access | chunk | chunk | .. | not yet used: no access, at least a page
//
// If the OS refuses the region, a chunk is mapped alone and has no guards; if it refuses that, too,
// the fallback provides one, to whose ends the arena gives guards if the OS lets it.
//
// Called by: all layers above. Lock: LockRank::kMetadata, never held over a system call. Cost: one
// lock; a system call per chunk and per region. Memory of kCacheLineSize or more is aligned to
// that, smaller memory to at least kMinBytes.
#pragma once

#include <array>
#include <cstddef>

#include "base/config.h"
#include "base/counters.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

// The arena grows by this much: 16 system calls per MiB. A multiple of 64 KiB, the largest hardware
// page.
inline constexpr size_t kArenaChunkBytes = 64_KiB;
// The first region has kFirstRegionBytes. Each further one is as large as all regions before it
// together, up to kMaxRegionBytes.
inline constexpr size_t kFirstRegionBytes = 512_KiB;
inline constexpr size_t kMaxRegionBytes = 64_MiB;
static_assert(kArenaChunkBytes % 64_KiB == 0 && kFirstRegionBytes >= 2 * kArenaChunkBytes);

class MetadataArena {
 public:
  static constexpr size_t kMinBytes = 16;
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  explicit MetadataArena(VirtualMemory& vm) : vm_(vm) {}

  // The source of a chunk when the OS refuses: at least `*bytes` bytes, and `*bytes` is set to
  // their number; or null. Called without locks.
  using Fallback = void* (*)(void* context, size_t* bytes);
  // Called once, before the arena is used by several threads.
  void SetFallback(Fallback fallback, void* context) {
    fallback_ = fallback;
    fallback_context_ = context;
  }

  // Memory of at least `bytes` bytes, contents undefined; nullptr when neither the OS nor the
  // fallback has any. The caller holds no lock. Requires: 0 < bytes <= kMaxBytes.
  void* Allocate(size_t bytes) TC_EXCLUDES(lock_);
  // As Allocate, but nullptr where that would need a system call. The caller may hold locks of
  // lower rank than kMetadata.
  void* AllocateWithoutGrowing(size_t bytes) TC_EXCLUDES(lock_);
  // Frees what Allocate(bytes) returned.
  void Free(void* memory, size_t bytes) TC_EXCLUDES(lock_);

  // The bytes that Allocate(bytes) takes: the next multiple of 16 up to 64 bytes, of 64 up to 1
  // KiB, then the next power of two.
  static constexpr size_t RoundedBytes(size_t bytes) { return SizeOf(SizeNumber(bytes)); }

  // The bytes that were mapped for the arena alone: no chunks of the fallback.
  size_t mapped_bytes() const { return mapped_bytes_.value(); }
  size_t allocated_bytes() const { return allocated_bytes_.value(); }

  // The source of its chunks, for records that are too large for a chunk.
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
  // The alignment of memory of this size.
  static constexpr size_t AlignmentOf(size_t number) {
    const size_t size = SizeOf(number);
    return size % kCacheLineSize == 0    ? kCacheLineSize
           : size % (2 * kMinBytes) == 0 ? 2 * kMinBytes
                                         : kMinBytes;
  }

  // Larger requests get a chunk of their own.
  static constexpr size_t kMostFromChunk = kArenaChunkBytes / 4;

  // Memory for a chunk in the present region, or a new one; null when the OS refuses.
  char* CutFromRegion(size_t bytes) TC_EXCLUDES(lock_);
  // Gets a region with room for `bytes`, unless another thread does so meanwhile; false when the OS
  // refuses.
  bool AddRegion(size_t bytes) TC_EXCLUDES(lock_);
  // Returns the rest of the region after the OS refused memory for a chunk of it: other memory may
  // have got the chunk's addresses, so what follows would have no guard.
  void DropRegion() TC_EXCLUDES(lock_);
  // Returns a chunk that is not needed.
  void ReturnToRegion(char* chunk, size_t bytes) TC_EXCLUDES(lock_);
  // A chunk from the fallback, without its guards; null when there is none.
  char* TakeFromFallback(size_t* bytes) TC_EXCLUDES(lock_);

  void* TakeLocked(size_t size_number) TC_REQUIRES(lock_);
  // Adds a new chunk, which is long enough, and allocates from it.
  void* UseChunkLocked(char* chunk, size_t chunk_bytes, size_t size_number) TC_REQUIRES(lock_);
  // Cuts the rest of a chunk into free entries.
  void CutUpLocked(char* rest, size_t bytes) TC_REQUIRES(lock_);

  // Constant after construction and SetFallback.
  VirtualMemory& vm_;
  Fallback fallback_ = nullptr;
  void* fallback_context_ = nullptr;

  SpinLock lock_{LockRank::kMetadata};
  std::array<FreeEntry*, kNumSizes> free_ TC_GUARDED_BY(lock_) = {};
  char* chunk_ TC_GUARDED_BY(lock_) = nullptr;
  size_t chunk_left_ TC_GUARDED_BY(lock_) = 0;
  // The rest of the present region, with the page that stays without access.
  char* region_ TC_GUARDED_BY(lock_) = nullptr;
  size_t region_left_ TC_GUARDED_BY(lock_) = 0;
  size_t reserved_bytes_ TC_GUARDED_BY(lock_) = 0;

  // Written with lock_ held; read racily for statistics.
  OwnedCounter mapped_bytes_;
  OwnedCounter allocated_bytes_;
};

}  // namespace tcmalloc
