// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/file_memory.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include <algorithm>
#include <bit>

#include "base/config.h"
#include "base/text.h"
#include "base/units.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

constexpr size_t kRandomCharacters = 6;
constexpr size_t kMaxName = 512;
// The longest piece for which the file system must reserve memory. A longer one may be meant to
// stay mostly empty.
constexpr size_t kMaxReservedBytes = 1_GiB;
// The most bytes that one system call reserves. Before Linux 6.0 a signal undoes the whole call,
// which a periodic timer could repeat forever.
constexpr size_t kReservedAtOnceBytes = 2_MiB;
// How many random file names are tried: others may be in use.
constexpr int kNameTries = 100;

// A process that grows a file beyond this limit is ended by a signal.
uint64_t FileSizeLimit() {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? uint64_t{limit.rlim_cur} : UINT64_MAX;
}

// Creates a new file whose name begins with `path`, and removes its name. The name need not be hard
// to guess: an existing file or link is never opened.
int CreateUnnamedFile(const char* path) {
  char name[kMaxName];
  for (int i = 0; i < kNameTries; ++i) {
    TextWriter writer(name, sizeof(name));
    writer.Text(path).Text(".");
    uint64_t bits = static_cast<uint64_t>(Nanoseconds()) ^ (static_cast<uint64_t>(getpid()) << 20);
    for (size_t j = 0; j < kRandomCharacters; ++j, bits /= 36) {
      const char c = "0123456789abcdefghijklmnopqrstuvwxyz"[bits % 36];
      writer.Text({&c, 1});
    }
    if (writer.truncated()) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int descriptor = CreateForWriting(name);
    if (descriptor >= 0) {
      unlink(name);
      return descriptor;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

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

bool FileMemory::OpenMemfs(const MemfsOptions& options, size_t hardware_page) {
  const int descriptor = CreateUnnamedFile(options.path);
  if (descriptor < 0) return false;
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0) {
    const ErrnoKeeper keeper;
    Close(descriptor);
    return false;
  }
  const size_t page = static_cast<size_t>(status.f_bsize);
  unit_ = std::has_single_bit(page) ? std::max(page, hardware_page) : hardware_page;
  mapping_reserves_ = static_cast<uint32_t>(status.f_type) == HUGETLBFS_MAGIC;
  is_private_ = options.map_private;
  ignore_failures_ = options.ignore_failures;
  uint64_t limit = FileSizeLimit();
  if (options.limit_bytes != 0) limit = std::min(limit, options.limit_bytes);
  return file_.Use(descriptor, 0, limit & ~uint64_t{unit_ - 1});
}

bool FileMemory::OpenDevice(const DeviceOptions& options, size_t hardware_page) {
  const int descriptor = OpenForWriting(options.path);
  if (descriptor < 0) return false;
  unit_ = hardware_page;
  mapping_reserves_ = true;
  ignore_failures_ = true;
  uint64_t limit = options.limit == 0 ? UINT64_MAX : options.limit;
  struct stat status;
  // A file has no memory beyond its end. The end of a device is unknown.
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    limit = std::min(limit, static_cast<uint64_t>(status.st_size));
  }
  return file_.Use(descriptor, options.first, limit & ~uint64_t{unit_ - 1});
}

Mapping FileMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  if (!IsUsable() || bytes > SIZE_MAX - unit_) return {};
  const ErrnoKeeper keeper;
  const BackingFile::Piece piece = file_.Claim((bytes + unit_ - 1) & ~(unit_ - 1));
  if (piece.bytes == 0) return {};
  void* start = nullptr;
  if (mapping_reserves_ || file_.Reserve(piece)) {
    start = file_.Map(piece, std::max(alignment, unit_), is_private_);
  }
  if (start == nullptr) {
    file_.Return(piece);
    if (!ignore_failures_) failed_.store(true, std::memory_order_relaxed);
    return {};
  }
  return {start, piece.bytes, is_private_};
}

bool BackingFile::Use(int descriptor, uint64_t first, uint64_t limit) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  const long moved = syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, kFirstDescriptor);
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
  if (room == UINT64_MAX || piece.bytes > kMaxReservedBytes) return Extend(descriptor_, end);
  for (uint64_t at = piece.offset; at < end; at += kReservedAtOnceBytes) {
    const uint64_t bytes = end - at < kReservedAtOnceBytes ? end - at : kReservedAtOnceBytes;
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
