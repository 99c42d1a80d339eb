// SPDX-License-Identifier: BSD-3-Clause
// Files: calls that are no cancellation points, readers of the kernel's text files, opening a file
// to append to it, and whether a file could be created. malloc and free must not be cancellation
// points (POSIX, "Thread Cancellation"), or a thread could end inside them. Never allocates.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace tcmalloc {

// The results and errno of the calls below are those of the C library's functions.

inline constexpr int kStderr = STDERR_FILENO;

// The lowest number of the library's descriptors that stay open, where programs expect none.
inline constexpr int kFirstDescriptor = 512;

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

// Reads from `offset` on, in one call, and does not move the file's position.
inline ssize_t ReadAt(int fd, void* buffer, size_t bytes, uint64_t offset) {
  if constexpr (sizeof(long) == 8) {
    return syscall(SYS_pread64, fd, buffer, bytes, static_cast<long>(offset));
  } else {
    return static_cast<ssize_t>(syscall(SYS_pread64, fd, buffer, bytes,
                                        static_cast<long>(offset & 0xffffffff),
                                        static_cast<long>(offset >> 32)));
  }
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

// The longest path that the kernel accepts, including the final zero (PATH_MAX).
inline constexpr size_t kMaxPath = 4096;

// A path of two parts: a directory, which may be empty, and the rest, which begins with the slash.
class FilePath {
 public:
  FilePath(std::string_view front, std::string_view rest) : writer_(text_, sizeof(text_)) {
    writer_.Text(front).Text(rest);
  }
  FilePath(const FilePath&) = delete;
  FilePath& operator=(const FilePath&) = delete;

  // True if the path was not cut off. A path that was cut off would name another file.
  bool is_whole() const { return !writer_.truncated(); }
  const char* c_str() const { return text_; }
  std::string_view text() const { return writer_.text(); }

 private:
  char text_[kMaxPath];
  TextWriter writer_;
};

// Whether the thread with this file `statm` in /proc has ended: then it has no memory. The first
// thread ends before others if main calls pthread_exit. Changes errno.
inline bool ThreadHasEnded(const char* statm) {
  const int file = OpenForReading(statm);
  if (file < 0) return false;
  char size;
  const bool has_ended = ReadFrom(file, &size, 1) == 1 && size == '0';
  Close(file);
  return has_ended;
}

// The path of a file of /proc about this process, like /proc/self/maps.
//
// /proc/self is the process's first thread. Once that has ended, its files are empty or cannot be
// opened, so the path is then of the calling thread: /proc/thread-self, from Linux 3.17 on. Cost:
// three system calls. Changes errno.
class ProcessPath {
 public:
  explicit ProcessPath(std::string_view name) : writer_(text_, sizeof(text_)) {
    const bool has_ended = ThreadHasEnded("/proc/self/statm");
    writer_.Text(has_ended ? "/proc/thread-self/" : "/proc/self/").Text(name);
  }
  ProcessPath(const ProcessPath&) = delete;
  ProcessPath& operator=(const ProcessPath&) = delete;

  const char* c_str() const { return text_; }

 private:
  char text_[32];
  TextWriter writer_;
};

// A file open for reading, piece by piece; if it is not open, errno says why. Changes errno. Not
// thread-safe.
class InputFile {
 public:
  explicit InputFile(const char* path) {
    do {
      fd_ = OpenForReading(path);
    } while (fd_ < 0 && errno == EINTR);
  }
  ~InputFile() {
    if (fd_ >= 0) Close(fd_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  bool is_open() const { return fd_ >= 0; }

  // Returns 0 at the end, and when reading fails.
  size_t Read(char* buffer, size_t bytes) {
    for (;;) {
      const ssize_t n = ReadFrom(fd_, buffer, bytes);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) return 0;
    }
  }

 private:
  int fd_;
};

// The lines of a file, without their newlines. Lines of more than kMaxLine characters are omitted.
template <size_t kMaxLine>
class LineReader {
 public:
  using LineVisitor = void (*)(std::string_view line, void* context);

  // False when the file cannot be opened.
  bool ForEachLine(const char* path, LineVisitor visit, void* context) {
    InputFile file(path);
    if (!file.is_open()) return false;
    size_t length = 0;
    while (const size_t n = file.Read(chunk_, sizeof(chunk_))) {
      for (size_t i = 0; i < n; ++i) {
        if (chunk_[i] != '\n') {
          if (length < sizeof(line_)) line_[length] = chunk_[i];
          ++length;
          continue;
        }
        if (length <= sizeof(line_)) visit({line_, length}, context);
        length = 0;
      }
    }
    if (length > 0 && length <= sizeof(line_)) visit({line_, length}, context);
    return true;
  }

 private:
  char line_[kMaxLine];
  char chunk_[1024];
};

// Opens a file to which the library appends.
//
// The name may be predictable, and lie in a directory like /tmp, where another user may have put a
// link with this name to a file of the victim, or a hard link, or a FIFO that never has a reader.
// The kernel refuses such names only where fs.protected_symlinks and its like are set. So the
// library refuses them: in a directory into which another user can write, it appends only to a
// regular file with one name that the process's user owns, or to a FIFO of that user, and follows
// no link. In other directories the user alone (or root) makes the names, and every file is
// accepted: /dev/stdout is a link.
//
// The directory is opened once and the file relative to it, so it is the tested directory. The file
// is tested again after it was opened: what another user changes in between is found.
//
// Opens the file such that each write appends in one piece. Creates a missing file with the
// permissions that the umask allows. Negative, with errno set, if it cannot be opened; EPERM: the
// file may be another user's. Never allocates, is no cancellation point.
int OpenForAppending(const char* path);

// Removes a file. False if it does not exist or cannot be removed. Changes errno.
bool RemoveFile(const char* path);

// Renames the file `from` to `to` and replaces a file of that name. On failure returns false and
// sets errno.
bool RenameFile(const char* from, const char* to);

// Checks at the start of the process whether files can be written at the path of a setting: the
// user who starts the process can read the message, while the file may be due hours later. Never
// allocate, are no cancellation points, keep errno. Cost: one to three system calls.
//
// 0 when files like that one can be created in its directory; otherwise the error number. A file
// that exists is no error: the caller replaces it or takes another name. Creates and changes
// nothing. Cannot predict later failures, for example a full disk.
int ErrorOfCreating(const char* path);

// Like ErrorOfCreating, for any file in `directory`.
int ErrorOfCreatingIn(const char* directory);

}  // namespace tcmalloc
