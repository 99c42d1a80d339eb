// SPDX-License-Identifier: BSD-3-Clause
// Files without the C library's functions for them, which are cancellation points: malloc and free
// must not be (POSIX, "Thread Cancellation"), or a thread ends in the middle of them. Results and
// errno as theirs.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace tcmalloc {

inline int OpenForReading(const char* path) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
}

inline ssize_t ReadFrom(int fd, void* buffer, size_t bytes) {
  return static_cast<ssize_t>(syscall(SYS_read, fd, buffer, bytes));
}

inline ssize_t WriteTo(int fd, const void* data, size_t bytes) {
  return static_cast<ssize_t>(syscall(SYS_write, fd, data, bytes));
}

inline void Close(int fd) { syscall(SYS_close, fd); }

}  // namespace tcmalloc
