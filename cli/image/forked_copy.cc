// SPDX-License-Identifier: BSD-3-Clause
#include "image/forked_copy.h"

#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "image/memory_room.h"
#include "image/process.h"
#include "image/process_image.h"
#include "image/remote_call.h"
#include "image/stop.h"

namespace cli {
std::optional<uint64_t> ParseCommitRoom(std::istream& meminfo) {
  const auto limit = FigureOf(meminfo, "CommitLimit:");
  const auto used = FigureOf(meminfo, "Committed_AS:");
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

ForkCost FindForkCost(const ProcessInfo& process, const std::vector<MappingUse>& uses) {
  ForkCost cost{.shared_bytes = process.memory.anonymous_bytes + process.memory.swapped_bytes};
  for (const MappingUse& use : uses) {
    const Mapping& mapping = use.mapping;
    // If another program has requested events for forks, the fork would wait until it handles the
    // event.
    for (const char* const flag : {"um", "uw", "ui"}) {
      if (!use.HasFlag(flag)) continue;
      throw Failure(
          fmt::format("process {} has memory whose page faults a program handles (userfaultfd, at "
                      "{:#x}), which may not expect a fork: use leaks without --snapshot",
                      process.pid, mapping.start));
    }
    if (mapping.shared) continue;
    cost.shared_bytes += use.hugetlb_bytes;
    if (use.HasFlag("ac")) cost.committed_bytes += mapping.end - mapping.start;
  }
  std::ifstream status(fmt::format("/proc/{}/status", LivingThread(process.pid)));
  cost.page_table_bytes = FigureOf(status, "VmPTE:").value_or(0);
  if (NumberIn("/proc/sys/vm/overcommit_memory") == uint64_t{2}) {
    std::ifstream meminfo("/proc/meminfo");
    cost.commit_room = ParseCommitRoom(meminfo);
  }
  cost.group_room = GroupRoom(std::to_string(LivingThread(process.pid)));
  return cost;
}

std::vector<std::string> ForkCostLines(const ProcessInfo& process, const ForkCost& cost) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "--snapshot forks process {} ({}), which is stopped while the kernel copies {} of page "
      "tables. Until the fork has been copied, each page that the process writes is doubled: at "
      "most {} more memory ({} pages)",
      process.pid, process.name, MiB(cost.page_table_bytes), MiB(cost.shared_bytes),
      cost.shared_bytes / page_bytes));
  if (cost.group_room.has_value() && *cost.group_room < cost.shared_bytes) {
    lines.push_back(fmt::format(
        "its control group has room for {} only: if it writes more than that meanwhile, "
        "the kernel may kill it",
        MiB(*cost.group_room)));
  }
  if (cost.commit_room.has_value() && *cost.commit_room < cost.committed_bytes) {
    lines.push_back(fmt::format(
        "vm.overcommit_memory is 2, and {} of the {} that the fork needs may be committed: the "
        "kernel will refuse it",
        MiB(*cost.commit_room), MiB(cost.committed_bytes)));
  }
  return lines;
}

namespace {

// Returns the target of a link in /proc/PID/task/TID/ns; empty if it is unknown, or does not exist
// yet.
std::string NamespaceOf(pid_t pid, pid_t thread, const char* name) {
  std::array<char, 64> text;
  const ssize_t n = readlink(fmt::format("/proc/{}/task/{}/ns/{}", pid, thread, name).c_str(),
                             text.data(), text.size());
  return n <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(n));
}

// Throws if children get new namespaces: the copy would be the first process of a namespace, which
// ends with it.
void RequireNamespaces(pid_t pid, pid_t thread) {
  for (const auto& [own, of_children] : {std::pair("pid", "pid_for_children"),  //
                                         std::pair("time", "time_for_children")}) {
    const std::string name = NamespaceOf(pid, thread, own);
    if (name.empty() || name == NamespaceOf(pid, thread, of_children)) continue;
    throw Failure(
        fmt::format("process {} has prepared a {} namespace for its children, which a fork would "
                    "enter: use leaks without --snapshot",
                    pid, own));
  }
}

void RequireNoFilter(pid_t pid, pid_t thread) {
  if (!HasSeccompFilter(pid, thread)) return;
  throw Failure(
      fmt::format("process {} has a seccomp filter (thread {}), which may end it for the fork: use "
                  "leaks without --snapshot",
                  pid, thread));
}

Address RequireInstruction(pid_t pid, Image& image) {
  const std::optional<Address> found = FindCallInstruction(image);
  if (found.has_value()) return *found;
  throw Failure(fmt::format(
      "process {} cannot be forked from here: this needs a machine of the kind x86-64", pid));
}

[[noreturn]] void FailToFork(pid_t pid, int error) {
  const char* remedy = "";
  if (error == EAGAIN) {
    remedy = ": it has as many processes as it may (ulimit -u, or pids.max of its control group)";
  } else if (error == ENOMEM) {
    remedy = ": there is not enough memory for its private pages once more (vm.overcommit_memory)";
  }
  throw Failure(
      fmt::format("the kernel does not fork process {}: {}{}", pid, strerror(error), remedy));
}

// Records a child before any other operation on it.
void Remember(pid_t process, pid_t here, pid_t there) {
  StrangeChildren& children = RememberedChildren();
  if (here <= 0) throw Failure(fmt::format("process {} was forked without a trace", process));
  if (children.count == StrangeChildren::kMost) {
    throw Failure(fmt::format("process {} was forked too often", process));
  }
  children.process = process;
  children.children[children.count] = {.here = here, .there = there};
  children.count = children.count + 1;
}

// Kills a child and waits for it, as its tracer. The process whose child it is must still wait for
// it, too.
void Kill(StrangeChildren::Child* child) {
  if (child->ended) return;
  kill(child->here, SIGKILL);
  int status = 0;
  pid_t waited;
  do {
    waited = waitpid(child->here, &status, __WALL);
  } while ((waited == child->here && WIFSTOPPED(status)) || (waited < 0 && errno == EINTR));
  child->ended = true;
}

// Makes one thread wait for the children. True when none is left.
bool WaitIn(pid_t thread, Address instruction, StrangeChildren* children) {
  StoppedThreads stopped(children->process, thread);
  while (children->count > 0) {
    const StrangeChildren::Child& child = children->children[children->count - 1];
    const RemoteCall wait = {
        instruction, SYS_wait4, {static_cast<uint64_t>(child.there), 0, WNOHANG | __WALL}};
    const std::optional<RemoteCallResult> result = stopped.Call(wait, 0);
    // Until the process knows of its end, there is no child to wait for.
    if (!result.has_value() || result->value == 0) return false;
    children->count = children->count - 1;
  }
  return true;
}

}  // namespace

std::string EndChildren(StrangeChildren* children) {
  const int count = children->count;
  if (count == 0) return std::string();
  for (int i = 0; i < count; ++i) Kill(&children->children[i]);
  const pid_t process = children->process;
  std::string reason = "it has no thread that can be stopped";
  try {
    const UndoFirst undo_first;
    LiveImage image(process);
    const Address instruction = RequireInstruction(process, image);
    for (const Patience patience; !patience.IsOver(); std::this_thread::sleep_for(kStopPause)) {
      for (const pid_t thread : ThreadsOf(process)) {
        try {
          if (WaitIn(thread, instruction, children)) return std::string();
        } catch (const Failure& failure) {
          reason = failure.what();
        }
      }
    }
  } catch (const Failure& failure) {
    reason = failure.what();
  }
  // The children of a process that has ended no longer belong to it.
  const std::optional<ProcessInfo> info = ReadProcessInfo(process);
  if (!info.has_value() || info->is_zombie()) return std::string();
  return fmt::format(
      "process {} keeps {} ended child processes (zombies) until it ends itself, since it could "
      "not "
      "be made to wait for them: {}",
      process, int{children->count}, reason);
}

ForkedCopy::ForkedCopy(pid_t pid, Image& image)
    : process_(pid), instruction_(RequireInstruction(pid, image)) {
  const bool first_lives = LivingThread(pid) == pid;
  for (const pid_t thread : ThreadsOf(pid)) {
    if (thread == pid && !first_lives) continue;
    RequireNoFilter(pid, thread);
    RequireNamespaces(pid, thread);
  }
}

// Makes the process A; returns 0 if that is not possible at this moment.
pid_t ForkedCopy::MakeHelper(StoppedThreads& stopped) {
  const RemoteCall clone = {instruction_, SYS_clone, {CLONE_VM | CLONE_FILES}};
  const std::optional<RemoteCallResult> made = stopped.Call(clone, PTRACE_O_TRACECLONE);
  if (!made.has_value()) return 0;
  if (made->value < 0) FailToFork(process_, static_cast<int>(-made->value));
  Remember(process_, made->child, static_cast<pid_t>(made->value));
  AwaitNextStop(made->child);
  return made->child;
}

bool ForkedCopy::Make(StoppedThreads& stopped) {
  const pid_t helper = MakeHelper(stopped);
  if (helper == 0) return false;
  StrangeChildren& children = RememberedChildren();
  StrangeChildren::Child& killed = children.children[children.count - 1];
  constexpr uintptr_t kOptions = PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, helper, nullptr, kOptions);
  MakeCall(helper, {instruction_, SYS_close_range, {0, UINT_MAX, CLOSE_RANGE_UNSHARE}}, kOptions);
  const RemoteCallResult made =
      MakeCall(helper, {instruction_, SYS_clone, {CLONE_PARENT | CLONE_FILES}}, kOptions);
  if (made.made && made.value > 0) {
    Remember(process_, made.child, static_cast<pid_t>(made.value));
    SetHeldChild(made.child);
    copy_ = made.child;
    AwaitNextStop(copy_);
  }
  Kill(&killed);
  // The fork failed because a signal for the process group was pending.
  if (!made.made) return false;
  if (made.value < 0) FailToFork(process_, static_cast<int>(-made.value));
  return true;
}

bool ForkedCopy::IsAlive() const {
  // A process that is ending has another state.
  const std::optional<ProcessInfo> info = ReadProcessInfo(copy_);
  return info.has_value() && info->state == 't';
}

void ForkedCopy::End() {
  SetHeldChild(0);
  copy_ = 0;
  const std::string left = EndChildren(&RememberedChildren());
  if (!left.empty()) fmt::print(stderr, "tcmalloc: {}\n", left);
}

}  // namespace cli
