// SPDX-License-Identifier: BSD-3-Clause
// SiteTable: the call sites of a program, each with the counts of allocated and freed objects.
//
// A site is a stack of return addresses. It is made when its stack is first seen, and is never
// moved or freed: pointers to it stay valid. The figures in use of a site are the allocated figures
// minus the freed ones. A session, which begins when a profiler starts, counts from the figures of
// that moment.
//
// Called by: the heap profiler, for every allocation. It uses the arena and the memory that it is
// given, and nothing else of the heap. Synchronization: only atomics. Buckets are lists that grow
// at the front and never shrink: a site is complete before its address is stored (release), and a
// thread that follows the list has loaded that address (acquire). If two threads insert the same
// stack, the store of the second one fails; it searches again and finds the first one's site. Cost:
// a hash over the stack, and a walk along a short list. Memory: a table of pointers; sizeof(Site)
// and the return addresses for each site.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "instruments/profiles/profile.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/metadata_arena.h"

namespace tcmalloc {

class Site {
 public:
  // Counts an object of this site. A thread that frees an object has seen its allocation.
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
  friend struct FieldTable;

  bool Is(const uintptr_t* frames, size_t depth, uint64_t hash) const;
  void Read(ProfileEntry* entry) const;

  // Constant once the site can be found.
  Site* next_ = nullptr;
  uint64_t hash_ = 0;
  size_t depth_ = 0;

  // Written by every thread that allocates or frees an object of the site. The freed figures are
  // written with release and read first, with acquire: a reader that sees a free sees its
  // allocation too, so the figures in use are never negative.
  std::atomic<uint64_t> allocated_objects_{0};
  std::atomic<uint64_t> allocated_bytes_{0};
  std::atomic<uint64_t> freed_objects_{0};
  std::atomic<uint64_t> freed_bytes_{0};
  // The freed figures when the session began. Relaxed: at that moment readers may see the old
  // figures.
  std::atomic<uint64_t> freed_objects_before_{0};
  std::atomic<uint64_t> freed_bytes_before_{0};
};

class SiteTable {
 public:
  explicit SiteTable(MetadataArena& arena) : arena_(arena) {}
  SiteTable(const SiteTable&) = delete;
  SiteTable& operator=(const SiteTable&) = delete;

  // Called before all other functions. False when there is no memory.
  [[nodiscard]] bool Prepare();

  // Returns the site of this stack, which is cut after Tuning::HeapProfiler::max_depth addresses;
  // null when there is no memory for a new site. Once there are max_stacks sites, a new stack
  // belongs to the site that has only its innermost address. Requires: no lock is held.
  Site* SiteOf(const uintptr_t* frames, size_t depth);

  // Begins a session. Requires: all objects in use were counted as freed. Objects that other
  // threads record at this moment may count for either session.
  void BeginSession();

  size_t num_sites() const { return num_sites_.value(); }

  // Writes the sites that have figures to `entries`, at most `max`, and returns how many. The
  // entries refer to the sites.
  size_t Read(ProfileEntry* entries, size_t max) const;

 private:
  static constexpr size_t kNumBuckets = size_t{1} << 15;

  Site* Find(std::atomic<Site*>& bucket, const uintptr_t* frames, size_t depth,
             uint64_t hash) const;

  // Constant after Prepare.
  MetadataArena& arena_;
  std::atomic<Site*>* buckets_ = nullptr;

  SharedCounter num_sites_;
};

}  // namespace tcmalloc
