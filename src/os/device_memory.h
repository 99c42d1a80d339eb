// SPDX-License-Identifier: BSD-3-Clause
// DeviceMemory: physical memory that the system was told to leave alone, mapped from /dev/mem, or
// from another device or file. It is never zero-filled, cannot be given back, and is shared with
// forked children, as MemfsMemory's.
//
// Synchronization. Open before the first Map. Any thread may Map. Cost: system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/backing_file.h"
#include "os/virtual_memory.h"

namespace tcmalloc {

class DeviceMemory {
 public:
  struct Options {
    const char* path = "/dev/mem";
    // The first address used.
    uint64_t first = 0;
    // The first one not used; 0 for none.
    uint64_t limit = 0;
  };

  // False when the device cannot be opened; errno says why. Called once.
  bool Open(const Options& options, size_t hardware_page);

  // Memory of `bytes` bytes at a multiple of `alignment`. Keeps errno. Requires: bytes a multiple
  // of the hardware page, alignment a power of two.
  Mapping Map(size_t bytes, size_t alignment);

  bool IsUsable() const { return file_.IsOpen(); }
  uint64_t Room() { return file_.Room(); }
  SpinLock& lock() { return file_.lock(); }

 private:
  // Provides its own synchronization.
  BackingFile file_;
};

}  // namespace tcmalloc
