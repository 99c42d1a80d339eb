// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/marker.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "formats/marker/marker.h"
#include "formats/marker/marker_scan.h"
#include "formats/marker/pagemap.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

constexpr unsigned long kPagemapScan = _IOWR('f', 16, pagemap::Scan);

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
    first_page_ = page;
    num_entries_ = 0;
    // Pages without information from the OS count as written.
    ssize_t bytes;
    do {
      bytes = ReadAt(fd_, entries_, sizeof(entries_), uint64_t{page} * sizeof(uint64_t));
    } while (bytes < 0 && errno == EINTR);
    if (bytes < ssize_t{sizeof(uint64_t)}) return pagemap::kPresent;
    num_entries_ = static_cast<size_t>(bytes) / sizeof(uint64_t);
  }
  return entries_[page - first_page_];
}

uintptr_t BackedPages::SkipOthers(uintptr_t page, uintptr_t end, Want want) {
  bool& may_scan = want == Want::kGuard ? may_scan_guards_ : may_scan_;
  if (!may_scan) return page;
  const ErrnoKeeper keeper;
  pagemap::Region region = {};
  pagemap::Scan arguments;
  arguments.start = uint64_t{page} * page_bytes_;
  arguments.end = uint64_t{end} * page_bytes_;
  arguments.num_regions = 1;
  arguments.max_pages = 1;
  arguments.regions = reinterpret_cast<uintptr_t>(&region);
  arguments.category_anyof_mask = arguments.return_mask =
      want == Want::kGuard ? pagemap::kScanGuard : pagemap::kScanPresent | pagemap::kScanSwapped;
  long n;
  do {
    n = syscall(SYS_ioctl, fd_, kPagemapScan, &arguments);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    // The kernel is older, a sandbox forbids the call, or the kernel does not support these
    // addresses.
    may_scan = false;
    return page;
  }
  if (n == 0) return end;
  return std::clamp<uintptr_t>(static_cast<uintptr_t>(region.start / page_bytes_), page, end);
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
    if (want == Want::kGuard || (entry & pagemap::kGuard) != 0) {
      return want == Want::kGuard && (entry & pagemap::kGuard) != 0;
    }
    if ((entry & (pagemap::kPresent | pagemap::kSwapped)) == 0) return false;
    return want == Want::kAny || (entry & pagemap::kOfFileOrShared) == 0;
  };
  const uintptr_t end_page = (range->end - 1) / page_bytes_ + 1;
  uintptr_t page = range->start / page_bytes_;
  const uintptr_t not_before = page + kEntries;
  while (page < end_page && !is_wanted(EntryAt(page))) {
    ++page;
    if (page >= not_before && page - first_page_ >= num_entries_) {
      page = SkipOthers(page, end_page, want);
    }
  }
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

template class MarkerOf<HeapGeometry, ProgramMemory>;

}  // namespace tcmalloc
