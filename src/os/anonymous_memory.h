// SPDX-License-Identifier: BSD-3-Clause
// AnonymousMemory: private, zero-filled memory of the process's own, from mmap, and from sbrk when
// mmap gives none. The allocator's own records are always here, and the program's objects unless
// they are to lie elsewhere (heap_memory.h). It lists what it has mapped.
//
// Synchronization. Configure before the first Map; its parts have locks. Cost: see its parts.
#pragma once

#include <cstddef>

#include "os/mapped_ranges.h"
#include "os/sbrk_memory.h"
#include "os/virtual_memory.h"

namespace tcmalloc {

class AnonymousMemory final : public VirtualMemory {
 public:
  struct Options {
    bool use_mmap = true;
    bool use_sbrk = true;
  };

  void Configure(const Options& options) { options_ = options; }

  Mapping Map(size_t bytes, size_t alignment) override;
  Mapping MapAt(uintptr_t wanted, size_t bytes) override;
  // False for what sbrk returned.
  bool Unmap(void* start, size_t bytes) override;
  bool Release(void* start, size_t bytes) override { return mmap_.Release(start, bytes); }
  // Of any memory: what is not private anonymous memory does not care.
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override {
    mmap_.AdviseHugepages(start, bytes, wanted);
  }
  bool Populate(void* start, size_t bytes) override { return mmap_.Populate(start, bytes); }
  // False for what sbrk returned.
  bool MayMove(const void* start, size_t bytes) override {
    return options_.use_mmap && !sbrk_.MayHold(start, bytes) && mmap_.MayMove(start, bytes);
  }
  bool Move(void* from, size_t bytes, void* to, size_t total) override;
  size_t hardware_page_size() const override { return mmap_.hardware_page_size(); }

  // All that is mapped from here: complete whenever Map has returned, or nothing has been written
  // to what is missing. What is being unmapped or moved to is missing.
  MappedRanges& mapped() { return mapped_; }

  // Calls f(lock) for every lock, in the order of the ranks.
  template <typename F>
  void ForEachLock(F f) {
    f(sbrk_.lock());
    f(mapped_.lock());
  }

 private:
  // Memory for a long list comes from mmap, used for objects or not.
  void List(const void* start, size_t bytes) { mapped_.Add(start, bytes, mmap_); }
  void Unlist(const void* start, size_t bytes) { mapped_.Remove(start, bytes, mmap_); }

  // Constant after Configure.
  Options options_;

  SystemVirtualMemory mmap_;
  SbrkMemory sbrk_;
  MappedRanges mapped_;
};

}  // namespace tcmalloc
