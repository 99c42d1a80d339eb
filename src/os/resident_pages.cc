// SPDX-License-Identifier: BSD-3-Clause
#include "os/resident_pages.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

ResidentPages::ResidentPages() : page_size_(getauxval(AT_PAGESZ)) {
  const ErrnoKeeper keeper;
  fd_ = OpenForReading("/proc/self/pagemap");
}

ResidentPages::~ResidentPages() {
  const ErrnoKeeper keeper;
  if (fd_ >= 0) Close(fd_);
}

size_t ResidentPages::Read(uintptr_t page, size_t n, uint64_t* entries) const {
  if (fd_ < 0) return 0;
  const ErrnoKeeper keeper;
  // A long has room for it also on 32-bit machines.
  const long offset = static_cast<long>(page * sizeof(uint64_t));
  if (syscall(SYS_lseek, fd_, offset, SEEK_SET) < 0) return 0;
  ssize_t bytes;
  do {
    bytes = ReadFrom(fd_, entries, n * sizeof(uint64_t));
  } while (bytes < 0 && errno == EINTR);
  return bytes <= 0 ? 0 : static_cast<size_t>(bytes) / sizeof(uint64_t);
}

}  // namespace tcmalloc
