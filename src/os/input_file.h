// SPDX-License-Identifier: BSD-3-Clause
// Reads text files of the kernel: a path in a buffer, the open file, its lines. Allocates nothing,
// is no cancellation point, changes errno. Not thread-safe.
#pragma once

#include <errno.h>

#include <cstddef>
#include <string_view>

#include "base/text_writer.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

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

// A file open for reading; if it is not open, errno says why.
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

}  // namespace tcmalloc
