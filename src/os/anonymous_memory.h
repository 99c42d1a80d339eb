// SPDX-License-Identifier: BSD-3-Clause
// AnonymousMemory: private, zero-filled memory of the process's own, from mmap, and from sbrk when
// mmap gives none. The allocator's own records are always here, and the program's objects unless
// they are to lie elsewhere (heap_memory.h).
//
// Synchronization. Configure before the first Map; SbrkMemory has a lock. Cost: see its parts.
#pragma once

#include <cstddef>

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
  bool Move(void* from, size_t bytes, void* to, size_t total) override {
    return mmap_.Move(from, bytes, to, total);
  }
  size_t hardware_page_size() const override { return mmap_.hardware_page_size(); }

  // Calls f(lock) for every lock.
  template <typename F>
  void ForEachLock(F f) {
    f(sbrk_.lock());
  }

 private:
  // Constant after Configure.
  Options options_;

  SystemVirtualMemory mmap_;
  SbrkMemory sbrk_;
};

}  // namespace tcmalloc
