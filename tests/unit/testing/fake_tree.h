// SPDX-License-Identifier: BSD-3-Clause
// A folder that stands for the root of a system, with files like /proc/self/cgroup below it; and
// helpers for tests of functions that open files. The object removes its folder at its end.
#pragma once

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

namespace tcmalloc {

class FakeTree {
 public:
  FakeTree() {
    if (mkdtemp(root_) == nullptr) abort();
  }
  ~FakeTree() { std::filesystem::remove_all(root_); }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  std::string root() const { return root_; }
  // Returns the file's path outside of the tree, and creates the folder that contains it.
  std::string Path(const std::string& path) const {
    const std::filesystem::path file(root_ + path);
    std::filesystem::create_directories(file.parent_path());
    return file;
  }
  void Write(const std::string& path, std::string_view text) const {
    std::ofstream(Path(path), std::ios::binary) << text;
  }
  std::string Read(const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(Path(path), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  char root_[32] = "/tmp/tree_test.XXXXXX";
};

// The number of descriptors of the process: unchanged by a function that leaks none.
inline int NumDescriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

inline bool IsClosedByExec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }
inline bool NeverBlocks(int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

}  // namespace tcmalloc
