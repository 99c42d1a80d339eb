// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/red_zones/protection.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

long ReadAt(int fd, void* to, size_t bytes, uint64_t offset) {
  if constexpr (sizeof(long) == 8) {
    return syscall(SYS_pread64, fd, to, bytes, static_cast<long>(offset));
  } else {
    return syscall(SYS_pread64, fd, to, bytes, static_cast<long>(offset & 0xffffffff),
                   static_cast<long>(offset >> 32));
  }
}

}  // namespace

bool SetAccess(void* start, size_t bytes, PageAccess access) {
  const ErrnoKeeper keeper;
  const int protection = access == PageAccess::kNone   ? PROT_NONE
                         : access == PageAccess::kRead ? PROT_READ
                                                       : PROT_READ | PROT_WRITE;
  return syscall(SYS_mprotect, start, bytes, protection) == 0;
}

bool CopyProtected(void* to, const void* from, size_t bytes) {
  const ErrnoKeeper keeper;
  // A read of this file ignores the protection of pages, as a debugger's read does.
  const int file = OpenForReading("/proc/self/mem");
  if (file < 0) return false;
  const long copied = ReadAt(file, to, bytes, reinterpret_cast<uintptr_t>(from));
  Close(file);
  return copied == static_cast<long>(bytes);
}

}  // namespace tcmalloc
