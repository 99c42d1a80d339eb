// SPDX-License-Identifier: BSD-3-Clause
// DeviceMemory: physical memory that the OS was told not to use, mapped from /dev/mem, or from
// another device or file. It is never zero-filled, cannot be released, and is shared with forked
// children, like that of MemfsMemory.
//
// Synchronization: call Open before the first Map. Any thread may call Map. Cost: system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/backing_file.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

class DeviceMemory {
 public:
  struct Options {
    const char* path = "/dev/mem";
    // The first address to use.
    uint64_t first = 0;
    // The first address not to use; 0 for no limit.
    uint64_t limit = 0;
  };

  // Opens the device; false and errno when that fails. Called once.
  bool Open(const Options& options, size_t hardware_page);

  // Maps `bytes` bytes at a multiple of `alignment`. Keeps errno. Requires: bytes a multiple of the
  // hardware page, alignment a power of two.
  Mapping Map(size_t bytes, size_t alignment);

  bool IsUsable() const { return file_.IsOpen(); }
  uint64_t Room() { return file_.Room(); }
  SpinLock& lock() { return file_.lock(); }

 private:
  // Provides its own synchronization.
  BackingFile file_;
};

}  // namespace tcmalloc
