// SPDX-License-Identifier: BSD-3-Clause
// CanReadOwnMemory: false on a system without process_vm_readv, by which the library reads memory
// that may be unmapped. User-mode emulators have none.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tcmalloc {

inline bool CanReadOwnMemory() {
  return syscall(SYS_process_vm_readv, getpid(), nullptr, 0L, nullptr, 0L, 0L) == 0 ||
         errno != ENOSYS;
}

}  // namespace tcmalloc

#define SKIP_IF_OWN_MEMORY_CANNOT_BE_READ() \
  if (!CanReadOwnMemory()) GTEST_SKIP() << "SKIP: this system has no process_vm_readv"
