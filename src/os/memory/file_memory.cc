// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/file_memory.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/text_writer.h"
#include "base/tuning.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

constexpr size_t kRandomCharacters = 6;
constexpr size_t kMaxName = 512;

// A process that grows a file beyond this limit is ended by a signal.
uint64_t FileSizeLimit() {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? uint64_t{limit.rlim_cur} : UINT64_MAX;
}

// Creates a new file whose name begins with `path`, and removes its name. The name need not be hard
// to guess: an existing file or link is never opened.
int CreateUnnamedFile(const char* path) {
  char name[kMaxName];
  timespec now = {};
  for (int i = 0; i < kTuning.backing_files.name_tries; ++i) {
    TextWriter writer(name, sizeof(name));
    writer.Text(path).Text(".");
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t bits = static_cast<uint64_t>(now.tv_nsec) ^ (static_cast<uint64_t>(getpid()) << 20);
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

}  // namespace tcmalloc
