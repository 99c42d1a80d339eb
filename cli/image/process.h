// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says about a process: names, memory, mappings, who traces it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
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

  bool is_zombie() const { return state == 'Z' || state == 'X'; }
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

// Why memory of the process is not readable, and the remedy, in one line. `error` is an errno.
std::string ExplainDenial(pid_t pid, int error);

}  // namespace cli
