// SPDX-License-Identifier: BSD-3-Clause
// SiteTable: the call sites of a program, each with what was allocated and freed there.
//
// A site is a stack of return addresses. It is made when its stack is first seen and stays where it
// is for ever: whoever has a pointer to one may keep it. What is in use of a site is what was
// allocated less what was freed. A session, which begins when a profiler starts, counts from where
// the figures are then.
//
// Called by: the heap profiler, for every allocation; it knows nothing of the process's heap but
// the arena and the memory that it is given. Synchronization: none of its own but atomics. Buckets
// are lists that only grow at the front: a site is complete before its address is stored there
// (release), and who follows the list has loaded that address (acquire); a list is never cut, so a
// walk needs no lock, and of two threads that bring the same stack the second finds the first's
// site when its store fails and it looks again. Cost: a hash over the stack, a walk of a short
// list. Memory: a table of pointers, and sizeof(Site) and the return addresses for each site.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "os/virtual_memory.h"
#include "page/metadata_arena.h"
#include "profile/profile.h"

namespace tcmalloc {

class Site {
 public:
  // Objects of this site and their bytes. Whoever frees has seen the allocation.
  void Allocated(uint64_t bytes) {
    allocated_objects_.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Freed(uint64_t bytes) {
    freed_objects_.fetch_add(1, std::memory_order_release);
    freed_bytes_.fetch_add(bytes, std::memory_order_release);
  }

  const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
  size_t depth() const { return depth_; }

 private:
  friend class SiteTable;

  bool Is(const uintptr_t* frames, size_t depth, uint64_t hash) const;
  void Read(ProfileEntry* entry) const;

  // Constant once the site can be found.
  Site* next_ = nullptr;
  uint64_t hash_ = 0;
  size_t depth_ = 0;

  // Written by every thread that allocates or frees an object of the site. What was freed is
  // released, and read first (acquire): who reads it reads of each freed object its allocation too,
  // and what is in use is never below zero.
  std::atomic<uint64_t> allocated_objects_{0};
  std::atomic<uint64_t> allocated_bytes_{0};
  std::atomic<uint64_t> freed_objects_{0};
  std::atomic<uint64_t> freed_bytes_{0};
  // What had been freed when the session began; written by who begins it, read by readers, who may
  // see the old figures at that moment (relaxed).
  std::atomic<uint64_t> freed_objects_before_{0};
  std::atomic<uint64_t> freed_bytes_before_{0};
};

class SiteTable {
 public:
  explicit SiteTable(MetadataArena& arena) : arena_(arena) {}
  SiteTable(const SiteTable&) = delete;
  SiteTable& operator=(const SiteTable&) = delete;

  // Gets the memory for the table, once; false when there is none. Before any other call.
  [[nodiscard]] bool Prepare();

  // The site of this stack, its first Tuning::HeapProfiler::max_depth addresses; null when there is
  // no memory for a new one. No lock may be held.
  Site* SiteOf(const uintptr_t* frames, size_t depth);

  // From now on the figures are those of a new session. Requires: what was in use was freed; what
  // other threads are about to record may count on either side.
  void BeginSession();

  // So many sites there are, or were a moment ago.
  size_t num_sites() const { return num_sites_.value(); }

  // Writes the sites with any figures to `entries`, at most `max`, and returns how many. The
  // entries refer to the sites.
  size_t Read(ProfileEntry* entries, size_t max) const;

 private:
  static constexpr size_t kNumBuckets = size_t{1} << 15;

  Site* Find(std::atomic<Site*>& bucket, const uintptr_t* frames, size_t depth,
             uint64_t hash) const;

  // Constant after Prepare.
  MetadataArena& arena_;
  std::atomic<Site*>* buckets_ = nullptr;

  // Written by who makes sites.
  SharedCounter num_sites_;
};

}  // namespace tcmalloc
