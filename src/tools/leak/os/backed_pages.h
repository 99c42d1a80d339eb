// SPDX-License-Identifier: BSD-3-Clause
// BackedPages: finds the pages of this process's memory that are backed and that the process may
// have written. An untouched page holds zeroes, or what its file has. Reading it would make the OS
// back it, or end the process where the file was truncated or the page is a guard page.
//
// Reads /proc/self/pagemap. Never allocates. Thread safety: as an int. Cost: a system call for
// 2 MiB of pages of 4 KiB, a few nanoseconds per page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapped_ranges.h"

namespace tcmalloc {

class BackedPages {
 public:
  explicit BackedPages(size_t hardware_page_size) : page_bytes_(hardware_page_size) {}
  BackedPages(const BackedPages&) = delete;
  BackedPages& operator=(const BackedPages&) = delete;
  ~BackedPages() { Close(); }

  // False where the OS does not tell; all pages then count as backed.
  bool Open();
  void Close();

  // The pages to look for.
  enum class Want : uint8_t {
    kAny,      // backed
    kWritten,  // backed by private memory, neither a file's nor shared
    kGuard,    // a guard page, whose access ends the process (MADV_GUARD_INSTALL)
  };

  // Sets `part` to the first wanted part of `range`, as long as possible, and `range` to the rest
  // after it; false when there is none. Parts end at ends of pages or of `range`. Where the OS does
  // not tell, all pages count as backed and written, and none as a guard page.
  bool TakeFirst(AddressRange* range, Want want, AddressRange* part);

 private:
  static constexpr size_t kEntries = 512;

  // The entry of the page at `address`; reads ahead.
  uint64_t EntryAt(uintptr_t page);

  const size_t page_bytes_;
  int fd_ = -1;
  // Entries of the pages [first_page_, first_page_ + num_entries_).
  uintptr_t first_page_ = 0;
  size_t num_entries_ = 0;
  uint64_t entries_[kEntries];
};

}  // namespace tcmalloc
