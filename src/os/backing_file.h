// SPDX-License-Identifier: BSD-3-Clause
// BackingFile: a file, or a device, that memory is mapped from, one piece behind the other from its
// beginning. It hands out the file's addresses and makes the mappings; what kind of file it is, and
// whether there is room, is for MemfsMemory and DeviceMemory to know.
//
// The descriptor stays open, because the program may give up the right to open the file. A program
// that closes descriptors that it did not open may put a file of its own in its place: each mapping
// looks first whether the file is still the same.
//
// Synchronization. Use before the first mapping. LockRank::kFileSpace guards what is handed out;
// system calls happen outside. Cost: three system calls a mapping, five when the alignment has to
// be forced.
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

  // Takes the descriptor over; what is mapped lies between two offsets. Returns whether that
  // worked. Requires: offsets are multiples of the hardware page.
  bool Use(int descriptor, uint64_t first, uint64_t limit);
  bool IsOpen() const { return descriptor_ >= 0; }

  // The next piece.
  Piece Claim(size_t bytes) TC_EXCLUDES(lock_);
  // Gives one back that was not mapped, provided that it was the last.
  void Return(const Piece& piece) TC_EXCLUDES(lock_);
  // Bytes left.
  uint64_t Room() TC_EXCLUDES(lock_);

  // Makes sure that the file system has memory for a piece; nothing is taken when it does not. Of a
  // piece above Tuning::BackingFiles::max_reserved_bytes, which may be meant to stay empty for the
  // most part, and where the file system cannot promise memory, only the file's length is certain
  // then.
  [[nodiscard]] bool Reserve(const Piece& piece);

  // The address of a piece, mapped at a multiple of `alignment`; null when the system refuses.
  // Requires: `alignment` is a power of two.
  void* Map(const Piece& piece, size_t alignment, bool is_private);

  SpinLock& lock() { return lock_; }

 private:
  bool IsSame() const;

  // Constant after Use.
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  uint64_t limit_ = 0;

  SpinLock lock_{LockRank::kFileSpace};
  uint64_t next_ TC_GUARDED_BY(lock_) = 0;
};

}  // namespace tcmalloc
