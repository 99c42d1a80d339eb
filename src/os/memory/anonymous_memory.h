// SPDX-License-Identifier: BSD-3-Clause
// AnonymousMemory: private, zero-filled memory from mmap, and from sbrk (SbrkMemory) when mmap
// fails. It always serves the allocator's own records, and the program's objects unless they come
// from elsewhere (heap_memory.h). It lists the memory that it has mapped.
//
// Synchronization: call Configure before the first Map; the members have locks. Cost: see the
// members.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/memory/mapped_ranges.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

// Memory after the program's data segment, from sbrk. It never moves the break down.
// The program may call sbrk too, and own the memory between two pieces of this object.
//
// Called by: AnonymousMemory. Lock: LockRank::kBreak, held during the system call, because two
// concurrent sbrk calls return the same memory. Cost: one or two system calls.
class SbrkMemory {
 public:
  // Zero-filled memory at a multiple of `alignment` and of `hardware_page`; null when the OS
  // refuses. Keeps errno. Requires: bytes a multiple of hardware_page, alignment a power of two.
  void* Map(size_t bytes, size_t alignment, size_t hardware_page) TC_EXCLUDES(lock_);

  // True if the range may contain memory from this object: it overlaps the range between the lowest
  // and the highest address of that memory.
  bool MayHold(const void* start, size_t bytes) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  SpinLock lock_{LockRank::kBreak};
  uintptr_t lowest_ TC_GUARDED_BY(lock_) = UINTPTR_MAX;
  uintptr_t highest_ TC_GUARDED_BY(lock_) = 0;
};

class AnonymousMemory final : public VirtualMemory {
 public:
  struct Options {
    bool use_mmap = true;
    bool use_sbrk = true;
    // Whether BackedBytes may call mincore(2), for which a sandbox may end the process.
    bool ask_backed = true;
  };

  void Configure(const Options& options) { options_ = options; }

  Mapping Map(size_t bytes, size_t alignment) override;
  Mapping MapAt(uintptr_t wanted, size_t bytes) override;
  // Calls mmap even if objects come from sbrk.
  void* Reserve(size_t bytes) override;
  bool Replace(void* start, size_t bytes, Access access) override {
    return mmap_.Replace(start, bytes, access);
  }
  // False for memory from sbrk.
  bool Unmap(void* start, size_t bytes) override;
  bool Release(void* start, size_t bytes) override { return mmap_.Release(start, bytes); }
  // May be called for any memory; other kinds ignore the advice.
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override {
    mmap_.AdviseHugepages(start, bytes, wanted);
  }
  bool Populate(void* start, size_t bytes) override { return mmap_.Populate(start, bytes); }
  size_t BackedBytes(void* start, size_t bytes) override {
    return options_.ask_backed ? mmap_.BackedBytes(start, bytes) : bytes;
  }
  bool KnowsBacked() const override { return options_.ask_backed; }
  // False for memory from sbrk.
  bool MayMove(const void* start, size_t bytes) override {
    return options_.use_mmap && !sbrk_.MayHold(start, bytes) && mmap_.MayMove(start, bytes);
  }
  bool Move(void* from, size_t bytes, void* to, size_t total) override;
  size_t hardware_page_size() const override { return mmap_.hardware_page_size(); }

  // The list of mapped memory. Memory that is missing has not been written to, since Map lists it
  // before it returns. A range that is being unmapped, or to which an object is being moved, is
  // missing, too.
  MappedRanges& mapped() { return mapped_; }

  // Calls f(lock) for every lock, in order of rank.
  template <typename F>
  void ForEachLock(F f) {
    f(sbrk_.lock());
    f(mapped_.lock());
  }

 private:
  // A long list is in memory from mmap, even if objects are not.
  void List(const void* start, size_t bytes) { mapped_.Add(start, bytes, mmap_); }
  void Unlist(const void* start, size_t bytes) { mapped_.Remove(start, bytes, mmap_); }

  // Constant after Configure.
  Options options_;

  SystemVirtualMemory mmap_;
  SbrkMemory sbrk_;
  MappedRanges mapped_;
};

}  // namespace tcmalloc
