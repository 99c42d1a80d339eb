// SPDX-License-Identifier: BSD-3-Clause
// A fork of another process, and what it costs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/process.h"
#include "image/resident.h"
#include "image/stop.h"
#include "image/worker.h"

namespace cli {

// The cost of a fork for a process, computed from the kernel's figures before the fork is made.

struct ForkCost {
  uint64_t shared_bytes = 0;      // private pages, shared with the fork until they are written
  uint64_t page_table_bytes = 0;  // copied while the process is stopped
  uint64_t committed_bytes = 0;   // the memory that the fork may write, for vm.overcommit_memory
  // How much more memory may be committed; nullopt if the kernel does not count it.
  std::optional<uint64_t> commit_room;
  // How much more memory the control group of the process, and those above it, may use; nullopt if
  // there is no limit.
  std::optional<uint64_t> group_room;
};

// Throws Failure when it must not be forked because another program handles its page faults.
ForkCost FindForkCost(const ProcessInfo& process, const std::vector<MappingUse>& uses);

// Returns lines: first the costs, then the dangers.
std::vector<std::string> ForkCostLines(const ProcessInfo& process, const ForkCost& cost);

// Returns the rest of the commit limit, from /proc/meminfo.
std::optional<uint64_t> ParseCommitRoom(std::istream& meminfo);

// ForkedCopy is a fork of another process: it has the memory of that process at one moment. The two
// share each page until the process writes to it. The process is stopped while the kernel copies
// its page tables. The copy never runs.
//
// How: a thread of the stopped process makes a child A that shares the memory (clone, CLONE_VM),
// which takes the same time for a process of any size. A then makes the copy B, which is also a
// child of the process (CLONE_PARENT), and A is killed. So the process's own thread has other
// registers only for a moment (remote_call.cc). Afterwards it waits for A and B (wait4).
//
//   process --clone--> A --clone--> B
//
// * This program traces A and B from their first moment: both are stopped before their first
//   instruction. Before A runs, it is set to die with this program (PTRACE_O_EXITKILL); B inherits
//   that.
// * Both have the exit signal 0: the process gets no SIGCHLD, and its wait, waitpid and waitid do
//   not see them, unless it requests such children by __WALL or __WCLONE.
//   getrusage(RUSAGE_CHILDREN) counts them.
// * Neither has file descriptors (close_range; before Linux 5.9 they share the process's): a file
//   that the process closes meanwhile is closed.
// * No handler of pthread_atfork runs.
//
// The copy lacks memory that the process excluded (MADV_DONTFORK, MADV_WIPEONFORK). Memory that the
// process shares with others continues to change.
class ForkedCopy {
 public:
  // Throws Failure when the process must not be forked.
  ForkedCopy(pid_t pid, Image& image);
  ~ForkedCopy() { End(); }
  ForkedCopy(const ForkedCopy&) = delete;
  ForkedCopy& operator=(const ForkedCopy&) = delete;

  // Requires: `stopped` has all threads of the process. False if that is not possible at this
  // moment. Throws Failure when the kernel refuses. Called once.
  bool Make(StoppedThreads& stopped);
  // The copy, which is stopped; 0 if there is none.
  pid_t pid() const { return copy_; }
  // False when it was killed.
  bool IsAlive() const;
  // Kills the copy and makes the process wait for it. One of the process's threads is stopped for
  // that. Reports on stderr any children that are left.
  void End();

 private:
  pid_t MakeHelper(StoppedThreads& stopped);

  const UndoFirst undo_first_;
  const pid_t process_;
  const Address instruction_;
  pid_t copy_ = 0;
};

// Kills these children, unless they have ended, and makes the process wait for them. Returns a line
// about those that are left; empty if there are none.
std::string EndChildren(StrangeChildren* children);

}  // namespace cli
