// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/page_access.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {

bool SetAccess(void* start, size_t bytes, PageAccess access) {
  const ErrnoKeeper keeper;
  const int protection = access == PageAccess::kNone   ? PROT_NONE
                         : access == PageAccess::kRead ? PROT_READ
                                                       : PROT_READ | PROT_WRITE;
  return syscall(SYS_mprotect, start, bytes, protection) == 0;
}

bool MakeInaccessible(void* start, size_t bytes) {
  const ErrnoKeeper keeper;
  if (!SetAccess(start, bytes, PageAccess::kNone)) return false;
  // Locked memory is not released, which does no harm: what uses the pages next fills and clears
  // them.
  static_cast<void>(madvise(start, bytes, MADV_DONTNEED));
  return true;
}

bool CopyProtected(void* to, const void* from, size_t bytes) {
  const ErrnoKeeper keeper;
  // A read of this file ignores the protection of pages, as a debugger's read does.
  const int file = OpenForReading("/proc/self/mem");
  if (file < 0) return false;
  const ssize_t copied = ReadAt(file, to, bytes, reinterpret_cast<uintptr_t>(from));
  Close(file);
  return copied == static_cast<ssize_t>(bytes);
}

}  // namespace tcmalloc
