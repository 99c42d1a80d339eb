// SPDX-License-Identifier: BSD-3-Clause
// The kernel's facts about a process: names, memory, mappings, its tracer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/image.h"

namespace cli {

struct User {
  uid_t user = 0;
  gid_t group = 0;
};

struct KernelFigures {
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  uint64_t swapped_bytes = 0;
  uint64_t peak_resident_bytes = 0;
};

struct ProcessInfo {
  pid_t pid = 0;
  std::string name;        // the kernel's, at most 15 characters
  std::string executable;  // empty if it is not readable
  char state = '?';        // as ps prints it
  pid_t tracer = 0;        // 0 if there is none
  size_t threads = 0;
  KernelFigures memory;
  // False for a core file, which lacks the kernel's figures.
  bool has_kernel_figures = true;
  std::string file;  // the core file or the snapshot; empty for a running process

  // The first thread stays in the list of threads while others run.
  bool first_thread_has_ended() const { return state == 'Z' || state == 'X'; }
  bool is_zombie() const { return first_thread_has_ended() && threads <= 1; }
};

// Returns nullopt when there is no such process.
std::optional<ProcessInfo> ReadProcessInfo(pid_t pid);
// Whether the process has ended, or is about to: the kernel removes its memory first.
bool HasEnded(pid_t pid);
std::vector<pid_t> AllProcesses();
// Returns the fields of /proc/PID/stat that follow the name: the third one, the state, is the
// first. Empty if there is no such process.
std::vector<std::string> StatFields(pid_t pid);
// Their indices. The addresses are those of the program's code and of its stack.
enum StatField : size_t { kStartTime = 19, kStartOfCode = 23, kStartOfStack = 25 };
// Returns the names of entries of `directory` that are numbers, in order.
std::vector<pid_t> NumbersIn(const std::string& directory);
std::vector<pid_t> ThreadsOf(pid_t pid);
// Returns the process of a thread; 0 if there is no such thread.
pid_t ProcessOf(pid_t thread);
// Returns the kernel's name of a thread, at most 15 characters; empty if there is no such thread.
std::string ThreadName(pid_t pid, pid_t thread);
// Returns the user and the group whose rights the process has for files; nullopt if there is no
// such process.
std::optional<User> UserOf(pid_t pid);
// Whether the thread has a filter for its system calls, or may make only four of them (strict
// mode).
bool HasSeccompFilter(pid_t pid, pid_t thread);
// Parses a line of /proc/PID/maps; nullopt when it is malformed.
std::optional<Mapping> ParseMapping(const std::string& line);
// Returns the mappings; empty when they are not readable.
std::vector<Mapping> ReadMappings(pid_t pid);

// Returns the mappings of files that a daemon may serve (FUSE): of file systems of that type, and
// of unknown ones, which are not mounted any more. A read of a page that is not in memory may wait
// for ever, and not even SIGKILL ends it.
std::vector<std::pair<Address, Address>> ServedRanges(pid_t pid,
                                                      const std::vector<Mapping>& mappings);

// The allocator of a process that does not run on this library, by the names of its mapped files.
std::string OtherAllocator(const std::vector<Mapping>& mappings);

// Returns the remedy for a user who may not read another process's memory. `yama_scope` is Yama's
// ptrace_scope; empty if there is no Yama.
std::string RemedyFor(std::string_view yama_scope, bool is_root);
// Returns the reason why the memory of the process cannot be read, or why another `action` is not
// possible, and the remedy, in one line. `error` is an errno.
std::string ExplainDenial(pid_t pid, int error, std::string_view action = "read");

// Returns the process's oldest thread that has not ended; `pid` if all have. The process's memory
// and files are in the directory /proc/THREAD of that thread. Those in /proc/PID are missing once
// the first thread has ended, by pthread_exit in main.
pid_t LivingThread(pid_t pid);
// Like LivingThread. Throws Failure when there is no such process.
pid_t ThreadWithMemory(pid_t pid);

}  // namespace cli
