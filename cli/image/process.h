// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says about a process: names, memory, mappings, who traces it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"

namespace cli {

struct KernelFigures {
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  uint64_t swapped_bytes = 0;
  uint64_t peak_resident_bytes = 0;
};

struct ProcessInfo {
  pid_t pid = 0;
  std::string name;        // the kernel's, at most 15 characters
  std::string executable;  // empty: not readable
  char state = '?';        // as ps prints it
  pid_t tracer = 0;        // 0: none
  size_t threads = 0;
  KernelFigures memory;
  // False for a core file, which does not have them.
  bool has_kernel_figures = true;
  std::string file;  // the core file or the snapshot; empty: a running process

  // The first thread stays in the list of threads while others run.
  bool first_thread_has_ended() const { return state == 'Z' || state == 'X'; }
  bool is_zombie() const { return first_thread_has_ended() && threads <= 1; }
};

// Nothing when there is no such process.
std::optional<ProcessInfo> ReadProcessInfo(pid_t pid);
std::vector<pid_t> AllProcesses();
std::vector<pid_t> ThreadsOf(pid_t pid);
// A mapping from a line of /proc/PID/maps; nothing when the line is none.
std::optional<Mapping> ParseMapping(const std::string& line);
// Empty when they are not readable.
std::vector<Mapping> ReadMappings(pid_t pid);

// The allocator of a process that does not run on this library, by the names of its mapped files.
std::string OtherAllocator(const std::vector<Mapping>& mappings);

// What permits to read another process's memory, where Yama's ptrace_scope is this (empty: no
// Yama), to a user who is not permitted.
std::string RemedyFor(std::string_view yama_scope, bool is_root);
// Why memory of the process is not readable, and the remedy, in one line. `error` is an errno.
std::string ExplainDenial(pid_t pid, int error);

}  // namespace cli
