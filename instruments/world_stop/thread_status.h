// SPDX-License-Identifier: BSD-3-Clause
// What /proc says of the threads of a process: which there are, how many, and the state of one.
// Allocates nothing; changes errno.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/text_fields.h"

namespace tcmalloc {

// Parses directory entries in the format of getdents64 (struct linux_dirent64), and calls f(id) for
// each whose name is a number. Stops and sets `*stopped` when f returns false. Returns false when
// an entry is malformed or cut off. A pure function.
template <typename F>
bool ForEachThreadEntry(std::string_view entries, bool* stopped, F f) {
  constexpr size_t kLengthAt = 16;
  constexpr size_t kNameAt = 19;
  // substr is not used, since it refers to a function that throws.
  const char* at = entries.data();
  size_t rest = entries.size();
  while (rest > 0) {
    uint16_t length;
    if (rest <= kNameAt) return false;
    memcpy(&length, at + kLengthAt, sizeof(length));
    if (length <= kNameAt || length > rest) return false;
    const char* const name = at + kNameAt;
    const void* const end = memchr(name, '\0', length - kNameAt);
    if (end == nullptr) return false;
    std::string_view digits(name, static_cast<size_t>(static_cast<const char*>(end) - name));
    uint64_t id;
    if (TakeNumber(&digits, &id) && digits.empty() && !f(static_cast<int>(id))) {
      *stopped = true;
      return true;
    }
    at += length;
    rest -= length;
  }
  return true;
}

// Calls f(id) for each thread in the list for which `directory` (/proc/self/task) is open, until f
// returns false. Returns 0, or an errno when the list cannot be read. The list may lack threads if
// one ends during the read. Thread safety: one reader per descriptor. Cost: a system call per 8 KiB
// of entries, some 340 threads; 8 KiB of stack.
template <typename F>
int ForEachThread(int directory, F f) {
  alignas(8) char entries[8192];
  if (syscall(SYS_lseek, directory, 0, SEEK_SET) != 0) return errno;
  for (bool stopped = false; !stopped;) {
    const long n = syscall(SYS_getdents64, directory, entries, sizeof(entries));
    if (n < 0) return errno;
    if (n == 0) return 0;
    if (!ForEachThreadEntry({entries, static_cast<size_t>(n)}, &stopped, f)) return EPROTO;
  }
  return 0;
}

// Fields of /proc/PID/status.
struct ThreadStatus {
  // True if the thread does not exist, or waits to be reaped.
  bool has_ended = false;
  // True if the thread sleeps in the kernel and does not react to signals: it waits for a disk, or
  // for the child of its vfork.
  bool is_uninterruptible = false;
  // The thread that traces this one, or 0.
  int tracer = 0;
};

// The name of a thread's file in the list of threads; `name` begins with a slash.
struct ThreadFile {
  char text[32];
};
ThreadFile ThreadFileOf(int id, std::string_view name);

// Reads the file `path` in the directory `directory`; parses the contents of that file.
ThreadStatus ReadThreadStatus(int directory, const char* path);
ThreadStatus ParseThreadStatus(std::string_view text);

// The number of threads of the process. `path` in `directory` is the file "stat" of one of them
// (proc(5)). Ended threads count until the OS has removed them. False when the file cannot be read.
bool CountThreads(int directory, const char* path, uint64_t* threads);
bool ParseThreadCount(std::string_view text, uint64_t* threads);

}  // namespace tcmalloc
