// SPDX-License-Identifier: BSD-3-Clause
// MemoryRanges: the address ranges whose memory is not anonymous, and what may be done with them.
// All other memory is anonymous. Ranges are never removed.
//
// Called by: HeapMemory. Lock: LockRank::kFileMemory. Cost: a comparison with every range. Adjacent
// ranges of one kind become one range; most of the OS's mappings are adjacent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

enum class MemoryKind : uint8_t {
  kAnonymous,
  kPrivateFile,  // a private mapping of a file
  kSharedFile,   // a shared mapping of a file
  kPassedOn,     // anonymous, through the program's allocator: released, not unmapped
  kKept,         // cannot be released
};

class MemoryRanges {
 public:
  // Lists a range. False when `vm` has no memory for its record.
  [[nodiscard]] bool Add(const void* start, size_t bytes, MemoryKind kind, VirtualMemory& vm)
      TC_EXCLUDES(lock_);

  // The kind of the memory at `start`, and how many of the `bytes` from there have it.
  struct Part {
    MemoryKind kind;
    size_t bytes;
  };
  Part PartAt(uintptr_t start, size_t bytes) TC_EXCLUDES(lock_);

  // Calls f(start, end) for each range, with the lock held.
  template <typename F>
  void ForEach(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (const Block* block = &first_; block != nullptr; block = block->next) {
      for (size_t i = 0; i < block->used; ++i) f(block->ranges[i].start, block->ranges[i].end);
    }
  }

  SpinLock& lock() { return lock_; }

 private:
  struct Range {
    uintptr_t start;
    uintptr_t end;
    MemoryKind kind;
  };
  // This many ranges need no memory for their records. They suffice if mappings are adjacent.
  static constexpr size_t kFirst = 16;
  static constexpr size_t kMoreBytes = size_t{64} << 10;

  struct Block {
    Block* next;
    size_t used;
    size_t capacity;
    Range* ranges;
  };

  // True when the range was joined to an existing one, or there was room for it.
  bool AddLocked(const Range& range) TC_REQUIRES(lock_);

  SpinLock lock_{LockRank::kFileMemory};
  Range first_ranges_[kFirst] TC_GUARDED_BY(lock_);
  Block first_ TC_GUARDED_BY(lock_) = {nullptr, 0, kFirst, first_ranges_};
};

}  // namespace tcmalloc
