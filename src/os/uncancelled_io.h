// SPDX-License-Identifier: BSD-3-Clause
// File calls that, unlike the C library's, are no cancellation points. malloc and free must not be
// cancellation points (POSIX, "Thread Cancellation"), or a thread could end inside them. Results
// and errno are those of the C library's functions.
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

// Accepts any flags of open except those that create a file.
inline int OpenFile(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC));
}

// Creates a file that only this user can read and write. Fails if it exists.
inline int CreateForWriting(const char* path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0600));
}

// Creates a file with the permissions that the umask allows. Fails with EEXIST when the name
// exists, even as a symbolic link.
inline int CreateNew(const char* path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags, 0664));
}

// Reads the target of a symbolic link, at most `size` bytes, not zero-terminated; 0 bytes when it
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

// Writes all of `data`, in as many calls as necessary. False on failure, after which a part may be
// written.
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
