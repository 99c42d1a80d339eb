// SPDX-License-Identifier: BSD-3-Clause
// HeapMemory: where the memory of the program's objects comes from: an allocator that the program
// brings, if it does; else, in this order, a file on hugetlbfs or tmpfs, a device, and anonymous
// memory. It knows afterwards what may be done with which address. Records of the allocator's own
// never come from here.
//
// Synchronization. Configure before the first Map; then any thread. The parts have locks. Cost:
// without files, a device or an allocator of the program's that of AnonymousMemory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/anonymous_memory.h"
#include "os/device_memory.h"
#include "os/memfs_memory.h"
#include "os/memory_ranges.h"
#include "os/virtual_memory.h"

namespace tcmalloc {

// What the program brings.
class CustomMemory {
 public:
  // Memory of at least `bytes` bytes, a multiple of the page, at a multiple of `alignment`;
  // `*actual_bytes` says how much. Null when there is none. Called without locks, by several
  // threads at once. It stays the heap's for good.
  virtual void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) = 0;

 protected:
  ~CustomMemory() = default;
};

class HeapMemory final : public VirtualMemory {
 public:
  struct Options {
    MemfsMemory::Options memfs;  // an empty path: none
    // End the process when memfs has no memory.
    bool memfs_aborts = false;
    // Use nothing else when memfs has none, and try it again each time.
    bool memfs_only = false;
    DeviceMemory::Options device;  // 0 as first address: none
  };

  explicit HeapMemory(AnonymousMemory& anonymous) : anonymous_(anonymous) {}

  // Opens what the options name. A file or device that cannot be opened costs a line on stderr.
  void Configure(const Options& options);

  Mapping Map(size_t bytes, size_t alignment) override;
  // False for all but what mmap made as anonymous memory.
  bool Unmap(void* start, size_t bytes) override;
  // The range may consist of parts from several sources. A part of hugetlbfs goes only when it is
  // whole hugepages.
  bool Release(void* start, size_t bytes) override;
  size_t Room() override;
  // Of any memory: what is not private anonymous memory does not care.
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override {
    anonymous_.AdviseHugepages(start, bytes, wanted);
  }
  bool Populate(void* start, size_t bytes) override { return anonymous_.Populate(start, bytes); }
  // Only where all memory is anonymous.
  bool MayMove(const void* start, size_t bytes) override {
    return custom() == nullptr && !memfs_wanted_ && !device_.IsUsable() &&
           anonymous_.MayMove(start, bytes);
  }
  bool Move(void* from, size_t bytes, void* to, size_t total) override {
    return anonymous_.Move(from, bytes, to, total);
  }
  size_t hardware_page_size() const override { return anonymous_.hardware_page_size(); }

  // The same as Map without the program's allocator, which may want to fall back to it.
  Mapping MapWithoutCustom(size_t bytes, size_t alignment);

  // From now on memory comes from `custom`, and from nowhere else; null for what there was before.
  // What it gives is not assumed to be zero-filled, and never unmapped. It is released only if it
  // comes from MapWithoutCustom. Requires: it lives as long as the process.
  void SetCustom(CustomMemory* custom) { custom_.store(custom, std::memory_order_release); }
  CustomMemory* custom() const { return custom_.load(std::memory_order_acquire); }

  // In a forked child: what comes from a shared file is the parent's too, which may use what is
  // free here. None of it is given back from now on.
  void NoteForkedChild() { in_forked_child_.store(true, std::memory_order_relaxed); }

  // Calls f(start, end) for all memory that is not anonymous, with a lock held. More than one range
  // may have the same address.
  template <typename F>
  void ForEachListedRange(F f) {
    ranges_.ForEach(f);
  }

  // Calls f(lock) for every lock but those of the anonymous memory, in the order of the ranks.
  template <typename F>
  void ForEachLock(F f) {
    f(memfs_.lock());
    f(device_.lock());
    f(ranges_.lock());
  }

 private:
  Mapping MapFromMemfs(size_t bytes, size_t alignment);
  Mapping MapFromCustom(CustomMemory& custom, size_t bytes, size_t alignment);
  // Notes what kind of memory it is; none when there is no memory for the note, and the memory is
  // lost.
  Mapping Listed(const Mapping& mapping, MemoryKind kind);
  bool ReleasePart(uintptr_t start, const MemoryRanges::Part& part);

  // Constant after construction.
  AnonymousMemory& anonymous_;
  // Constant after Configure.
  bool memfs_wanted_ = false;
  bool memfs_aborts_ = false;
  bool memfs_only_ = false;

  // Written by SetCustom (release: the object is complete), read by Map (acquire).
  std::atomic<CustomMemory*> custom_{nullptr};

  // Written by a child's only thread, read by those that it starts: relaxed.
  std::atomic<bool> in_forked_child_{false};

  // Provide their own synchronization.
  MemfsMemory memfs_;
  DeviceMemory device_;
  MemoryRanges ranges_;
};

}  // namespace tcmalloc
