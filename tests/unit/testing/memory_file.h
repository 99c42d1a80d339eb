// SPDX-License-Identifier: BSD-3-Clause
// Shared by tests of memory that comes from files.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace tcmalloc {

inline bool HoldsOnly(const void* start, size_t bytes, char value) {
  const char* const p = static_cast<const char*>(start);
  for (size_t i = 0; i < bytes; ++i) {
    if (p[i] != value) return false;
  }
  return true;
}

// A folder on tmpfs. It is removed with the object, and must be empty then.
class MemoryFolder {
 public:
  MemoryFolder() {
    if (mkdtemp(path_) == nullptr) abort();
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder() { EXPECT_EQ(rmdir(path_), 0) << path_ << " is not empty"; }
  std::string Path(const char* name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/dev/shm/tcmalloc.XXXXXX";
};

// The descriptor of the process's open file whose name begins with `path`, or -1.
inline int DescriptorOf(const std::string& path) {
  for (int descriptor = 0; descriptor < 2048; ++descriptor) {
    char name[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t length = readlink(link.c_str(), name, sizeof(name));
    if (length > 0 && std::string(name, static_cast<size_t>(length)).rfind(path, 0) == 0) {
      return descriptor;
    }
  }
  return -1;
}

// Bytes of memory that the file of a descriptor takes.
inline size_t BytesOfFile(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) abort();
  return static_cast<size_t>(status.st_blocks) * 512;
}

// An ordinary file full of `value`.
inline void WriteFile(const std::string& path, size_t bytes, char value) {
  FILE* const file = fopen(path.c_str(), "w");
  const std::vector<char> contents(bytes, value);
  if (file == nullptr || fwrite(contents.data(), 1, bytes, file) != bytes || fclose(file) != 0) {
    abort();
  }
}

}  // namespace tcmalloc
