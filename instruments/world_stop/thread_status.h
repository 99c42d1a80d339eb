// SPDX-License-Identifier: BSD-3-Clause
// The state of a thread according to /proc: whether it has ended, which thread traces it, how many
// threads its process has. Reads short files into a buffer on the stack. Allocates nothing; changes
// errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

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
