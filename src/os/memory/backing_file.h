// SPDX-License-Identifier: BSD-3-Clause
// BackingFile: a file or device from which memory is mapped in consecutive pieces, from its
// beginning. It hands out the offsets and makes the mappings. The kind of the file, and whether
// there is room, are left to FileMemory.
//
// The descriptor stays open, because the program may give up the right to open the file. A program
// that closes descriptors that it did not open may open another file under the number: each mapping
// checks first that the file is the same.
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

  // Takes ownership of the descriptor; pieces lie between two offsets. Returns whether that worked.
  // Requires: offsets are multiples of the hardware page.
  bool Use(int descriptor, uint64_t first, uint64_t limit);
  bool IsOpen() const { return descriptor_ >= 0; }

  // The next piece.
  Piece Claim(size_t bytes) TC_EXCLUDES(lock_);
  // Returns a piece that was not mapped, if it was the last.
  void Return(const Piece& piece) TC_EXCLUDES(lock_);
  // Bytes left.
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
