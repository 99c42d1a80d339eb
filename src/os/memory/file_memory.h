// SPDX-License-Identifier: BSD-3-Clause
// FileMemory: memory from a file, of one of two kinds:
//   * memfs: a file on a file system in memory: hugetlbfs, for hugepages, or tmpfs, which counts
//     the memory. The file has no name; it exists as long as the process and its children.
//   * a device: physical memory that the OS was told not to use, mapped from /dev/mem, or from
//     another device or file. It is never zero-filled, and cannot be released.
//
// Unless the mapping is private, a forked child shares the memory instead of a copy, and may only
// call exec or _exit.
//
// Synchronization: call one Open function before the first Map. Any thread may call Map. Cost:
// system calls. On tmpfs Map reserves the memory, so a full file system fails here and not when the
// memory is touched.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

// BackingFile: a file or device from which memory is mapped in consecutive pieces, from its
// beginning. It hands out the offsets and makes the mappings. FileMemory handles the kind of the
// file, and whether there is room.
//
// The descriptor stays open, because the program may give up the right to open the file. A program
// that closes descriptors that it did not open may then open another file with the same number, so
// each mapping first checks that the file is the same.
//
// Synchronization: call Use before the first mapping. LockRank::kFileMemory guards the offsets;
// system calls happen outside the lock. Cost: three system calls a mapping, five when the alignment
// must be forced.
class BackingFile {
 public:
  // A part of the file.
  struct Piece {
    uint64_t offset = 0;
    size_t bytes = 0;  // 0: there is none
  };

  // Takes ownership of the descriptor; pieces lie between the offsets `first` and `limit`. Returns
  // whether that worked. Requires: offsets are multiples of the hardware page.
  bool Use(int descriptor, uint64_t first, uint64_t limit);
  bool IsOpen() const { return descriptor_ >= 0; }

  // Takes the next piece.
  Piece Claim(size_t bytes) TC_EXCLUDES(lock_);
  // Makes the bytes of a claimed piece available again. Only for a piece that was not mapped;
  // has no effect if another piece was claimed after it.
  void Return(const Piece& piece) TC_EXCLUDES(lock_);
  // Returns the bytes that are left.
  uint64_t Room() TC_EXCLUDES(lock_);

  // Makes the file system reserve memory for a piece; on failure nothing is reserved. Only the
  // file's length is certain for a piece above kMaxReservedBytes, which may be meant to stay mostly
  // empty, and where the file system cannot reserve memory.
  [[nodiscard]] bool Reserve(const Piece& piece);

  // Maps a piece at a multiple of `alignment`; null when the OS refuses. Requires: `alignment` is a
  // power of two.
  void* Map(const Piece& piece, size_t alignment, bool is_private);

  SpinLock& lock() { return lock_; }

 private:
  bool IsSame() const;

  // Constant after Use.
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  uint64_t limit_ = 0;

  SpinLock lock_{LockRank::kFileMemory};
  uint64_t next_ TC_GUARDED_BY(lock_) = 0;
};

class FileMemory {
 public:
  struct MemfsOptions {
    // The file's path without its random suffix; empty: do not use this memory.
    const char* path = "";
    // The greatest length of the file; 0 for no limit.
    uint64_t limit_bytes = 0;
    // Whether to try again after a failure other than reaching the limit.
    bool ignore_failures = false;
    // Whether to map the file privately: then the process has its own copy of the pages that it
    // writes, and a forked child another copy.
    bool map_private = false;
  };

  struct DeviceOptions {
    const char* path = "/dev/mem";
    // The first address to use.
    uint64_t first = 0;
    // The first address not to use; 0 for no limit.
    uint64_t limit = 0;
  };

  // Creates the file; false and errno when that fails. Requires: the path is not empty; called
  // once.
  bool OpenMemfs(const MemfsOptions& options, size_t hardware_page);

  // Opens the device; false and errno when that fails. Called once.
  bool OpenDevice(const DeviceOptions& options, size_t hardware_page);

  // Maps at least `bytes` bytes, a multiple of unit(), at a multiple of unit() and of `alignment`.
  // Keeps errno. Requires: alignment a power of two.
  Mapping Map(size_t bytes, size_t alignment);

  // True if Map may succeed: there is a file, and no failure has ended its use.
  bool IsUsable() const { return file_.IsOpen() && !failed_.load(std::memory_order_relaxed); }
  bool is_private() const { return is_private_; }
  // The page size of the file system; of a device, the hardware page.
  size_t unit() const { return unit_; }
  uint64_t Room() { return file_.Room() & ~uint64_t{unit_ - 1}; }
  SpinLock& lock() { return file_.lock(); }

 private:
  // Constant after OpenMemfs or OpenDevice.
  size_t unit_ = 0;
  bool is_private_ = false;
  bool ignore_failures_ = false;
  // True if a mapping fails unless there is memory for it.
  bool mapping_reserves_ = false;

  // Any thread that meets a failure sets it, and it stays set. Relaxed, since it only decides what
  // is tried.
  std::atomic<bool> failed_{false};

  // Provides its own synchronization.
  BackingFile file_;
};

}  // namespace tcmalloc
