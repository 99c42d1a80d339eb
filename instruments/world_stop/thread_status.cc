// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text_fields.h"
#include "base/text_writer.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// The beginning of a thread's file, which contains all fields that are needed here.
struct ThreadText {
  char bytes[1024];
  ssize_t length = -1;
  // The errno if the file could not be read.
  int error = 0;

  // Reads the file `path` in the directory `directory`.
  ThreadText(int directory, const char* path) {
    const int fd = static_cast<int>(syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC));
    if (fd >= 0) length = ReadFrom(fd, bytes, sizeof(bytes));
    if (length < 0) error = errno;
    if (fd >= 0) Close(fd);
  }
  std::string_view view() const { return {bytes, length < 0 ? 0 : static_cast<size_t>(length)}; }
};

}  // namespace

ThreadFile ThreadFileOf(int id, std::string_view name) {
  ThreadFile file;
  TextWriter(file.text, sizeof(file.text)).Number(static_cast<uint64_t>(id)).Text(name);
  return file;
}

ThreadStatus ParseThreadStatus(std::string_view text) {
  ThreadStatus status;
  while (!text.empty()) {
    std::string_view line = TakeField(&text, '\n');
    const std::string_view name = TakeField(&line, '\t');
    uint64_t number;
    if (name == "State:") {
      const char state = line.empty() ? '\0' : line[0];
      status.has_ended = state == 'Z' || state == 'X';
      status.is_uninterruptible = state == 'D';
    } else if (name == "TracerPid:" && TakeNumber(&line, &number)) {
      status.tracer = static_cast<int>(number);
    }
  }
  return status;
}

ThreadStatus ReadThreadStatus(int directory, const char* path) {
  const ThreadText file(directory, path);
  if (file.length <= 0) {
    return {.has_ended = file.error == 0 || file.error == ENOENT || file.error == ESRCH};
  }
  return ParseThreadStatus(file.view());
}

bool ParseThreadCount(std::string_view text, uint64_t* threads) {
  // The second field is the program's name in parentheses, which may contain any characters.
  text.remove_prefix(text.rfind(')') + 1);
  constexpr int kFieldsBetween = 18;
  for (int i = 0; i < kFieldsBetween; ++i) TakeField(&text, ' ');
  return TakeNumber(&text, threads);
}

bool CountThreads(int directory, const char* path, uint64_t* threads) {
  const ThreadText file(directory, path);
  return ParseThreadCount(file.view(), threads);
}

}  // namespace tcmalloc
