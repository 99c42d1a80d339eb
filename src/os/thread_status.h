// SPDX-License-Identifier: BSD-3-Clause
// What /proc says about a thread: whether it runs, who traces it, how many others its process has.
// The texts are short and read into a buffer on the stack. Nothing allocates; errno changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// What a file /proc/PID/status says.
struct ThreadStatus {
  // There is no such thread, or it waits to be reaped.
  bool has_ended = false;
  // It waits in the kernel and takes no notice of a signal until that is over: for a disk, or for
  // the child of its vfork.
  bool is_uninterruptible = false;
  // The thread that traces it, 0 where none does.
  int tracer = 0;
};

// The name of the file `name` (with the slash before it) of a thread, in the list of threads.
struct ThreadFile {
  char text[32];
};
ThreadFile ThreadFileOf(int id, std::string_view name);

// Reads the file `path` from the directory `directory`, or what such a file contains.
ThreadStatus ReadThreadStatus(int directory, const char* path);
ThreadStatus ParseThreadStatus(std::string_view text);

// The number of threads of the process, of which `path` in `directory` is a thread's file "stat"
// (proc(5)): those that have ended count until the system has forgotten them. False when the file
// cannot be read.
bool CountThreads(int directory, const char* path, uint64_t* threads);
bool ParseThreadCount(std::string_view text, uint64_t* threads);

}  // namespace tcmalloc
