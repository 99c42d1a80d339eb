// SPDX-License-Identifier: BSD-3-Clause
// Files without the C library's functions for them, which are cancellation points: malloc and free
// must not be (POSIX, "Thread Cancellation"), or a thread ends in the middle of them. Results and
// errno as theirs.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace tcmalloc {

inline constexpr int kStderr = STDERR_FILENO;

inline int OpenForReading(const char* path) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
}

inline int OpenForWriting(const char* path) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
}

// With any of open's flags but those that create a file.
inline int OpenFile(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC));
}

// Only a file that did not exist before; for this user alone.
inline int CreateForWriting(const char* path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0600));
}

// Empty, whether or not it was there. For whom the process's umask allows.
inline int CreateEmpty(const char* path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0664));
}

// For whom the process's umask allows; EEXIST when it was there, a symbolic link also.
inline int CreateNew(const char* path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0664));
}

// Writes go behind what it has, each in one piece; created when missing, as above.
inline int OpenForAppending(const char* path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0664));
}

// What a symbolic link names, at most `size` bytes without a zero behind them; 0 bytes when that
// cannot be read.
inline size_t ReadLink(const char* path, char* buffer, size_t size) {
  const long length = syscall(SYS_readlinkat, AT_FDCWD, path, buffer, size);
  return length > 0 ? static_cast<size_t>(length) : 0;
}

inline ssize_t ReadFrom(int fd, void* buffer, size_t bytes) {
  return static_cast<ssize_t>(syscall(SYS_read, fd, buffer, bytes));
}

inline ssize_t WriteTo(int fd, const void* data, size_t bytes) {
  return static_cast<ssize_t>(syscall(SYS_write, fd, data, bytes));
}

// Writes all of `data`, in as many pieces as it takes. False when that fails; some may have been
// written then.
inline bool WriteAllTo(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = WriteTo(fd, at, bytes);
    if (written > 0) {
      at += written;
      bytes -= static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

inline void Close(int fd) { syscall(SYS_close, fd); }

}  // namespace tcmalloc
