// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/process.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text_writer.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

bool ParentWasStartedWith(const char* name, const char* value) {
  char buffer[1024];
  TextWriter path(buffer, sizeof(buffer));
  path.Text("/proc/").Number(static_cast<uint64_t>(getppid())).Text("/environ");
  const int fd = OpenForReading(buffer);
  if (fd < 0) return false;
  // The number of characters of "name=value" that match so far; kNoMatch after a mismatch until the
  // next zero byte.
  constexpr size_t kNoMatch = SIZE_MAX;
  const size_t name_length = strlen(name);
  const size_t length = name_length + 1 + strlen(value);
  const auto expected = [&](size_t i) {
    return i < name_length ? name[i] : i == name_length ? '=' : value[i - name_length - 1];
  };
  size_t matched = 0;
  bool found = false;
  for (ssize_t n = 0; !found && (n = ReadFrom(fd, buffer, sizeof(buffer))) > 0;) {
    for (ssize_t i = 0; i < n && !found; ++i) {
      found = matched == length && buffer[i] == '\0';
      if (buffer[i] == '\0') {
        matched = 0;
      } else if (matched != kNoMatch) {
        matched = matched < length && buffer[i] == expected(matched) ? matched + 1 : kNoMatch;
      }
    }
  }
  Close(fd);
  return found;
}

bool RemoveFile(const char* path) { return unlink(path) == 0; }

bool RenameFile(const char* from, const char* to) { return rename(from, to) == 0; }

bool CallAtExit(void (*function)()) { return std::atexit(function) == 0; }

void EndWithFailure() {
#if defined(__GLIBC__)
  // Runs the remaining functions.
  exit(1);
#else
  fflush(nullptr);
  _exit(1);
#endif
}

}  // namespace tcmalloc
