// SPDX-License-Identifier: BSD-3-Clause
// MemfsMemory: memory from a file of its own on a file system that lies in memory: hugetlbfs, for
// hugepages, or tmpfs, to have the memory counted there. The file has no name any more; it goes
// with the process, and with its children.
//
// By default the mapping is shared. A forked child then has the very same memory, not a copy: it
// may do nothing but call exec or _exit.
//
// Synchronization. Open before the first Map. Any thread may Map. Cost: system calls; on tmpfs the
// memory is reserved at once, so that a file system that is full is met here and not when the
// memory is touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/backing_file.h"
#include "os/virtual_memory.h"

namespace tcmalloc {

class MemfsMemory {
 public:
  struct Options {
    // The file's name without its end; empty: there is no such memory.
    const char* path = "";
    // So long may the file be; 0 for any length.
    uint64_t limit_bytes = 0;
    // Try again after a failure that is not the limit's.
    bool ignore_failures = false;
    // What is written is the process's own, and a copy after fork.
    bool map_private = false;
  };

  // Creates the file. False when that is not possible; errno says why. Requires: the path is not
  // empty; called once.
  bool Open(const Options& options, size_t hardware_page);

  // Memory of at least `bytes` bytes, a multiple of unit(), at a multiple of unit() and of
  // `alignment`. Keeps errno. Requires: alignment a power of two.
  Mapping Map(size_t bytes, size_t alignment);

  // Map may work: there is a file, and no failure yet that ends its use.
  bool IsUsable() const { return file_.IsOpen() && !failed_.load(std::memory_order_relaxed); }
  bool is_private() const { return is_private_; }
  // The page size of the file system.
  size_t unit() const { return unit_; }
  uint64_t Room() { return file_.Room() & ~uint64_t{unit_ - 1}; }
  SpinLock& lock() { return file_.lock(); }

 private:
  // Constant after Open.
  size_t unit_ = 0;
  bool is_private_ = false;
  bool ignore_failures_ = false;
  // The file system itself sees to it that there is memory for a mapping, or refuses it.
  bool mapping_reserves_ = false;

  // Set for good by whoever meets a failure; decides what is tried, nothing else, so relaxed
  // suffices.
  std::atomic<bool> failed_{false};

  // Provides its own synchronization.
  BackingFile file_;
};

}  // namespace tcmalloc
