// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/backing_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>

#include "base/tuning.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// The largest offset: less than 2 GiB if offsets have 32 bits.
constexpr uint64_t kMaxOffset = (uint64_t{1} << (sizeof(off_t) * 8 - 1)) - (uint64_t{1} << 20);

bool Allocate(int descriptor, int mode, uint64_t offset, uint64_t bytes) {
  long result;
  do {
#if __SIZEOF_LONG__ >= 8
    result = syscall(SYS_fallocate, descriptor, mode, offset, bytes);
#else
    // A register holds half of an offset, the lower half first on little-endian machines.
    result = syscall(SYS_fallocate, descriptor, mode, static_cast<uint32_t>(offset),
                     static_cast<uint32_t>(offset >> 32), static_cast<uint32_t>(bytes),
                     static_cast<uint32_t>(bytes >> 32));
#endif
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

// Returns the free room of the file system; UINT64_MAX when it has no limit of its own.
uint64_t RoomInFileSystem(int descriptor) {
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0 || status.f_blocks == 0) return UINT64_MAX;
  return uint64_t{status.f_bavail} * static_cast<uint64_t>(status.f_bsize);
}

// Makes the file longer, never shorter, even if other threads do so at the same time.
bool Extend(int descriptor, uint64_t end) {
#if __SIZEOF_LONG__ >= 8
  return syscall(SYS_pwrite64, descriptor, "", 1, end - 1) == 1;
#else
  return syscall(SYS_pwrite64, descriptor, "", 1, static_cast<uint32_t>(end - 1),
                 static_cast<uint32_t>((end - 1) >> 32)) == 1;
#endif
}

}  // namespace

bool BackingFile::Use(int descriptor, uint64_t first, uint64_t limit) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  const long moved =
      syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, kTuning.backing_files.first_descriptor);
  if (moved >= 0) {
    Close(descriptor);
    descriptor = static_cast<int>(moved);
  }
  descriptor_ = descriptor;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  limit_ = std::min(limit, kMaxOffset);
  const SpinLockHolder holder(lock_);
  next_ = first;
  return true;
}

bool BackingFile::IsSame() const {
  struct stat status;
  return IsOpen() && fstat(descriptor_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

BackingFile::Piece BackingFile::Claim(size_t bytes) {
  const SpinLockHolder holder(lock_);
  if (next_ > limit_ || bytes > limit_ - next_) return {};
  const Piece piece = {next_, bytes};
  next_ += bytes;
  return piece;
}

void BackingFile::Return(const Piece& piece) {
  const SpinLockHolder holder(lock_);
  if (next_ == piece.offset + piece.bytes) next_ = piece.offset;
}

uint64_t BackingFile::Room() {
  const SpinLockHolder holder(lock_);
  return next_ > limit_ ? 0 : limit_ - next_;
}

bool BackingFile::Reserve(const Piece& piece) {
  if (!IsSame()) return false;
  // The room is checked first, since an attempt that fills the file system would take the memory
  // from all other users.
  const uint64_t room = RoomInFileSystem(descriptor_);
  if (piece.bytes > room) return false;
  const uint64_t end = piece.offset + piece.bytes;
  if (room == UINT64_MAX || piece.bytes > kTuning.backing_files.max_reserved_bytes)
    return Extend(descriptor_, end);
  for (uint64_t at = piece.offset; at < end; at += kTuning.backing_files.reserved_at_once_bytes) {
    const uint64_t bytes = end - at < kTuning.backing_files.reserved_at_once_bytes
                               ? end - at
                               : kTuning.backing_files.reserved_at_once_bytes;
    if (Allocate(descriptor_, 0, at, bytes)) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return Extend(descriptor_, end);
    if (at > piece.offset) {
      Allocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, piece.offset,
               at - piece.offset);
    }
    return false;
  }
  return true;
}

void* BackingFile::Map(const Piece& piece, size_t alignment, bool is_private) {
  if (!IsSame()) return nullptr;
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  const int flags = is_private ? MAP_PRIVATE : MAP_SHARED;
  const off_t offset = static_cast<off_t>(piece.offset);
  void* const anywhere = mmap(nullptr, piece.bytes, kProtection, flags, descriptor_, offset);
  if (anywhere == MAP_FAILED) return nullptr;
  if (reinterpret_cast<uintptr_t>(anywhere) % alignment == 0) return anywhere;
  munmap(anywhere, piece.bytes);
  // Reserve addresses with room for the alignment, then map the file at the aligned ones.
  const size_t padded = piece.bytes + alignment;
  if (padded < alignment) return nullptr;
  void* const raw = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t raw_start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t start = (raw_start + alignment - 1) & ~(alignment - 1);
  const uintptr_t end = start + piece.bytes;
  void* const fixed = mmap(reinterpret_cast<void*>(start), piece.bytes, kProtection,
                           flags | MAP_FIXED, descriptor_, offset);
  // The addresses are leaked: others may have mapped them already.
  if (fixed == MAP_FAILED) return nullptr;
  if (start != raw_start) munmap(raw, start - raw_start);
  if (end != raw_start + padded) {
    munmap(reinterpret_cast<void*>(end), raw_start + padded - end);
  }
  return fixed;
}

}  // namespace tcmalloc
