// SPDX-License-Identifier: BSD-3-Clause
// HeapMemory: the sources of memory for the program's objects. If the program has set an allocator,
// that is the only source; otherwise, in this order, a file on hugetlbfs or tmpfs, a device, and
// anonymous memory. HeapMemory records how each range may be used (MemoryRanges). The allocator's
// own records never come from here.
//
// Synchronization: call Configure before the first Map; after that any thread may call any
// function. The members have locks. Cost: that of AnonymousMemory, unless there are files, a device
// or the program's allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/memory/anonymous_memory.h"
#include "os/memory/file_memory.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

// MemoryRanges: the address ranges whose memory is not anonymous, and what may be done with them.
// All other memory is anonymous. Ranges are never removed.
//
// Called by: HeapMemory. Lock: LockRank::kFileMemory. Cost: a comparison with every range. Adjacent
// ranges of one kind become one range; most of the OS's mappings are adjacent.
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

// An allocator of the program.
class CustomMemory {
 public:
  // Returns at least `bytes` bytes, a multiple of the page, at a multiple of `alignment`, and sets
  // `*actual_bytes`. Null when there is no memory. Called without locks, by several threads at
  // once. The heap never returns the memory.
  virtual void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) = 0;

 protected:
  ~CustomMemory() = default;
};

class HeapMemory final : public VirtualMemory {
 public:
  struct Options {
    FileMemory::MemfsOptions memfs;  // an empty path: do not use it
    // Whether to end the process when memfs has no memory.
    bool memfs_aborts = false;
    // Whether to use no other source when memfs has no memory, and to try it again each time.
    bool memfs_only = false;
    FileMemory::DeviceOptions device;  // if its first address is 0, do not use it
  };

  explicit HeapMemory(AnonymousMemory& anonymous) : anonymous_(anonymous) {}

  // Opens the sources in the options. Prints a line on stderr for a file or device that cannot be
  // opened.
  void Configure(const Options& options);

  Mapping Map(size_t bytes, size_t alignment) override;
  // False except for anonymous memory from mmap.
  bool Unmap(void* start, size_t bytes) override;
  // The range may have parts from several sources. A part from hugetlbfs is released only if it is
  // whole hugepages.
  bool Release(void* start, size_t bytes) override;
  size_t Room() override;
  // May be called for any memory; other kinds ignore the advice.
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override {
    anonymous_.AdviseHugepages(start, bytes, wanted);
  }
  bool Populate(void* start, size_t bytes) override { return anonymous_.Populate(start, bytes); }
  size_t BackedBytes(void* start, size_t bytes) override {
    return anonymous_.BackedBytes(start, bytes);
  }
  bool KnowsBacked() const override { return anonymous_.KnowsBacked(); }
  // True only if all memory is anonymous.
  bool MayMove(const void* start, size_t bytes) override {
    return custom() == nullptr && !memfs_wanted_ && !device_.IsUsable() &&
           anonymous_.MayMove(start, bytes);
  }
  bool Move(void* from, size_t bytes, void* to, size_t total) override {
    return anonymous_.Move(from, bytes, to, total);
  }
  size_t hardware_page_size() const override { return anonymous_.hardware_page_size(); }

  // As Map, but never calls the program's allocator, which may use this function as a fallback.
  Mapping MapWithoutCustom(size_t bytes, size_t alignment);

  // Makes `custom` the only source of memory; null restores the others. Its memory is not assumed
  // to be zero-filled, and is never unmapped. The heap releases memory of `custom` only if it comes
  // from MapWithoutCustom. Requires: `custom` lives as long as the process.
  void SetCustom(CustomMemory* custom) { custom_.store(custom, std::memory_order_release); }
  CustomMemory* custom() const { return custom_.load(std::memory_order_acquire); }

  // Called in a forked child. Memory from a shared file also belongs to the parent, which may use
  // pages that are free in the child, so no such memory is released from now on.
  void NoteForkedChild() { in_forked_child_.store(true, std::memory_order_relaxed); }

  // Calls f(start, end), with a lock held, for all memory that is not anonymous. Ranges may
  // overlap.
  template <typename F>
  void ForEachListedRange(F f) {
    ranges_.ForEach(f);
  }

  // Calls f(lock) for every lock except those of the anonymous memory, in order of rank.
  template <typename F>
  void ForEachLock(F f) {
    f(memfs_.lock());
    f(device_.lock());
    f(ranges_.lock());
  }

 private:
  Mapping MapFromMemfs(size_t bytes, size_t alignment);
  Mapping MapFromCustom(CustomMemory& custom, size_t bytes, size_t alignment);
  // Records the kind of memory. Returns no memory when there is none for the record; the mapping is
  // then leaked.
  Mapping AddToRanges(const Mapping& mapping, MemoryKind kind);
  bool ReleasePart(uintptr_t start, const MemoryRanges::Part& part);

  // Constant after construction.
  AnonymousMemory& anonymous_;
  // Constant after Configure.
  bool memfs_wanted_ = false;
  bool memfs_aborts_ = false;
  bool memfs_only_ = false;

  // SetCustom writes it with release order, after the object is complete; Map reads it with acquire
  // order.
  std::atomic<CustomMemory*> custom_{nullptr};

  // Relaxed: the only thread of a child writes it, and threads that it starts read it.
  std::atomic<bool> in_forked_child_{false};

  // The following objects have locks or atomics of their own.
  FileMemory memfs_;
  FileMemory device_;
  MemoryRanges ranges_;
};

}  // namespace tcmalloc
