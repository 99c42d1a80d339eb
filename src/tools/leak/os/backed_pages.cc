// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/os/backed_pages.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// Bits of an entry (Documentation/admin-guide/mm/pagemap.rst of Linux).
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kOfFileOrShared = uint64_t{1} << 61;
constexpr uint64_t kGuard = uint64_t{1} << 58;

bool ReadAt(int fd, void* to, size_t bytes, uint64_t offset, size_t* read) {
  for (;;) {
    long n;
    if constexpr (sizeof(long) == 8) {
      n = syscall(SYS_pread64, fd, to, bytes, static_cast<long>(offset));
    } else {
      n = syscall(SYS_pread64, fd, to, bytes, static_cast<long>(offset & 0xffffffff),
                  static_cast<long>(offset >> 32));
    }
    if (n < 0 && errno == EINTR) continue;
    *read = n > 0 ? static_cast<size_t>(n) : 0;
    return n > 0;
  }
}

}  // namespace

bool BackedPages::Open() {
  const ErrnoKeeper keeper;
  Close();
  fd_ = OpenForReading("/proc/self/pagemap");
  return fd_ >= 0;
}

void BackedPages::Close() {
  if (fd_ < 0) return;
  const ErrnoKeeper keeper;
  tcmalloc::Close(fd_);
  fd_ = -1;
  num_entries_ = 0;
}

uint64_t BackedPages::EntryAt(uintptr_t page) {
  if (page - first_page_ >= num_entries_) {
    const ErrnoKeeper keeper;
    size_t bytes;
    first_page_ = page;
    num_entries_ = 0;
    // Pages without information from the OS count as written.
    if (!ReadAt(fd_, entries_, sizeof(entries_), uint64_t{page} * sizeof(uint64_t), &bytes) ||
        bytes < sizeof(uint64_t)) {
      return kPresent;
    }
    num_entries_ = bytes / sizeof(uint64_t);
  }
  return entries_[page - first_page_];
}

bool BackedPages::TakeFirst(AddressRange* range, Want want, AddressRange* part) {
  if (range->start >= range->end) return false;
  if (fd_ < 0) {
    if (want == Want::kGuard) return false;
    *part = *range;
    range->start = range->end;
    return true;
  }
  const auto is_wanted = [want](uint64_t entry) {
    if (want == Want::kGuard || (entry & kGuard) != 0) {
      return want == Want::kGuard && (entry & kGuard) != 0;
    }
    if ((entry & (kPresent | kSwapped)) == 0) return false;
    return want == Want::kAny || (entry & kOfFileOrShared) == 0;
  };
  const uintptr_t end_page = (range->end - 1) / page_bytes_ + 1;
  uintptr_t page = range->start / page_bytes_;
  while (page < end_page && !is_wanted(EntryAt(page))) ++page;
  if (page == end_page) {
    range->start = range->end;
    return false;
  }
  const uintptr_t first = page;
  while (page < end_page && is_wanted(EntryAt(page))) ++page;
  part->start = std::max(range->start, first * page_bytes_);
  part->end = page == end_page ? range->end : page * page_bytes_;
  range->start = part->end;
  return true;
}

}  // namespace tcmalloc
