// SPDX-License-Identifier: BSD-3-Clause
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
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/spinlock.h"

namespace tcmalloc {

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
  // Returns a piece that was not mapped, if it was the last.
  void Return(const Piece& piece) TC_EXCLUDES(lock_);
  // Returns the bytes that are left.
  uint64_t Room() TC_EXCLUDES(lock_);

  // Makes the file system reserve memory for a piece; on failure nothing is reserved. Only the
  // file's length is certain for a piece above Tuning::BackingFiles::max_reserved_bytes, which may
  // be meant to stay mostly empty, and where the file system cannot reserve memory.
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

}  // namespace tcmalloc
