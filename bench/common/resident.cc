// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/resident.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/common/fail.h"

namespace tcmalloc::bench {
namespace {

class ProcFile {
 public:
  explicit ProcFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) Fail("%s: %s", path, strerror(errno));
    size_t length = 0;
    for (;;) {
      const ssize_t count = read(file, text_.data() + length, text_.size() - 1 - length);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) Fail("%s: %s", path, strerror(errno));
      if (count == 0) break;
      length += static_cast<size_t>(count);
    }
    close(file);
    text_[length] = '\0';
  }

  // Returns the number after `key` at the beginning of a line.
  long Number(std::string_view key) const {
    for (const char* line = text_.data(); line != nullptr; line = strchr(line, '\n')) {
      if (*line == '\n') ++line;
      if (strncmp(line, key.data(), key.size()) == 0) return strtol(line + key.size(), nullptr, 10);
    }
    Fail("no %s in /proc", key.data());
  }

 private:
  std::array<char, 8192> text_;
};

}  // namespace

long ResidentKib() { return ProcFile("/proc/self/smaps_rollup").Number("Rss:"); }

long AnonymousKib() { return ProcFile("/proc/self/smaps_rollup").Number("Anonymous:"); }

long PeakResidentKib() { return ProcFile("/proc/self/status").Number("VmHWM:"); }

}  // namespace tcmalloc::bench
