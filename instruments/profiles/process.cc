// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

int AccessError(const char* path, int mode) {
  return syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0 ? 0 : errno;
}

}  // namespace

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

int ErrorOfCreatingIn(const char* directory) {
  const ErrnoKeeper keeper;
  const int error = AccessError(directory, W_OK | X_OK);
  if (error != 0) return error;
  const int fd = OpenFile(directory, O_PATH | O_DIRECTORY);
  if (fd < 0) return errno;
  Close(fd);
  return 0;
}

int ErrorOfCreating(const char* path) {
  const ErrnoKeeper keeper;
  // This finds errors of the name itself. It opens no file, and follows no link.
  const int fd = OpenFile(path, O_PATH | O_NOFOLLOW);
  if (fd >= 0) {
    Close(fd);
  } else if (errno != ENOENT) {
    return errno;
  }
  const char* slash = nullptr;
  for (const char* c = path; *c != '\0'; ++c) {
    if (*c == '/') slash = c;
  }
  if (slash == nullptr) return ErrorOfCreatingIn(".");
  char directory[kMaxPath];
  const size_t length = static_cast<size_t>(slash - path) + 1;
  if (length >= sizeof(directory)) return ENAMETOOLONG;
  memcpy(directory, path, length);
  directory[length] = '\0';
  return ErrorOfCreatingIn(directory);
}

int SignalNumber(std::string_view name) {
  struct Named {
    std::string_view name;
    int signal;
  };
  // Signals that a user may send. SIGKILL and SIGSTOP cannot be handled; fault signals must not be.
  constexpr Named kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},    {"QUIT", SIGQUIT},
                                {"USR1", SIGUSR1}, {"USR2", SIGUSR2},  {"ALRM", SIGALRM},
                                {"TERM", SIGTERM}, {"CONT", SIGCONT},  {"URG", SIGURG},
                                {"PROF", SIGPROF}, {"WINCH", SIGWINCH}};
  uint64_t number = 0;
  if (TakeNumber(&name, &number)) {
    constexpr uint64_t kMaxSignal = 64;
    constexpr uint64_t kFirstRealTime = 34;  // the C library reserves some lower ones
    if (!name.empty() || number > kMaxSignal) return 0;
    for (const Named& known : kSignals) {
      if (static_cast<uint64_t>(known.signal) == number) return known.signal;
    }
    return number >= kFirstRealTime ? static_cast<int>(number) : 0;
  }
  if (StartsWith(name, "SIG")) name.remove_prefix(3);
  for (const Named& known : kSignals) {
    if (known.name == name) return known.signal;
  }
  return 0;
}

}  // namespace tcmalloc
