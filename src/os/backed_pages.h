// SPDX-License-Identifier: BSD-3-Clause
// BackedPages: which parts of this process's memory have anything behind them that the process may
// have written. What nobody has touched holds zeroes, or what its file says; a look at it would
// make the system give it memory, or end the process where the file has been cut short or the page
// is a guard.
//
// Reads /proc/self/pagemap. Never allocates. Thread safety: as an int. Cost: a system call for
// 2 MiB of pages of 4 KiB, a few nanoseconds per page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapped_ranges.h"

namespace tcmalloc {

class BackedPages {
 public:
  explicit BackedPages(size_t hardware_page_size) : page_bytes_(hardware_page_size) {}
  BackedPages(const BackedPages&) = delete;
  BackedPages& operator=(const BackedPages&) = delete;
  ~BackedPages() { Close(); }

  // False where the system does not tell; then all is taken for backed.
  bool Open();
  void Close();

  // What a page may be.
  enum class Want : uint8_t {
    kAny,      // has memory behind it
    kWritten,  // and that memory is the process's own, not a file's, nor shared
    kGuard,    // it is one that ends the process (MADV_GUARD_INSTALL)
  };

  // Sets `part` to the first part of `range` that is backed and as long as can be; false when there
  // is none. `range` becomes what lies behind it. The ends of parts are those of pages or of
  // `range`. Where the system does not tell, all is backed and written, and nothing a guard.
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
