// SPDX-License-Identifier: BSD-3-Clause
#include "image/stop.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "image/image.h"
#include "image/process.h"

namespace cli {

namespace {

// The longest time in which no further thread stops, while some still run.
constexpr auto kStopPatience = std::chrono::milliseconds(500);

// True for a thread that has ended and is still in the list of threads: the first thread of a
// process stays there until the others have ended, and its end is not reported before.
bool HasEnded(pid_t pid, pid_t thread) {
  std::ifstream stat(fmt::format("/proc/{}/task/{}/stat", pid, thread));
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= line.size() ||
         line[name_end + 2] == 'Z' || line[name_end + 2] == 'X';
}

[[noreturn]] void FailToSeize(pid_t pid, int error) {
  const auto info = ReadProcessInfo(pid);
  if (info.has_value() && info->tracer != 0) {
    const auto tracer = ReadProcessInfo(info->tracer);
    throw Failure(fmt::format("process {} is traced by process {} ({}): end that, or use --no-stop",
                              pid, info->tracer, tracer.has_value() ? tracer->name : "unknown"));
  }
  throw Failure(ExplainDenial(pid, error));
}

}  // namespace

std::optional<ThreadRegisters> ReadStoppedRegisters(pid_t thread) {
  constexpr size_t kMostBytes = 32768;  // including the registers for matrices
  // A 64-bit kernel returns the registers of a 32-bit process in the 32-bit layout.
  const auto read = [thread](uint32_t note) {
    std::string bytes(kMostBytes, '\0');
    iovec buffer = {bytes.data(), bytes.size()};
    const auto type = reinterpret_cast<void*>(uintptr_t{note});
    bytes.resize(ptrace(PTRACE_GETREGSET, thread, type, &buffer) == 0 ? buffer.iov_len : 0);
    return bytes;
  };
  std::string set = read(NT_PRSTATUS);
  const Machine* const machine = FindMachineOfSet(set.size());
  if (machine == nullptr) return std::nullopt;
  ThreadRegisters registers{.thread = thread, .machine = machine, .set = std::move(set)};
  if (machine->thread_pointer_note != 0) {
    registers.thread_pointer_note = read(machine->thread_pointer_note);
  }
  registers.vector_set = read(NT_X86_XSTATE);
  if (registers.vector_set.empty()) registers.vector_set = read(NT_FPREGSET);
  return registers;
}

StoppedThreads::StoppedThreads(pid_t pid, pid_t only) : pid_(pid), only_(only) {
  try {
    // A thread that runs may create others until it is stopped.
    for (bool first = true; SeizeNew(); first = false) {
      if (first) begin_ = std::chrono::steady_clock::now();
      InterruptAndWait();
    }
  } catch (...) {
    Resume();
    throw;
  }
  if (threads_.empty()) throw Failure(fmt::format("process {} has ended", pid));
}

bool StoppedThreads::SeizeNew() {
  bool any = false;
  for (const pid_t thread : ThreadsOf(pid_)) {
    if (threads_.contains(thread) || (only_ != 0 && thread != only_)) continue;
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      const int error = errno;
      if (error == ESRCH || HasEnded(pid_, thread)) continue;
      FailToSeize(pid_, error);
    }
    threads_.emplace(thread, Thread());
    any = true;
  }
  return any;
}

void StoppedThreads::InterruptAndWait() {
  std::vector<pid_t> waiting;
  for (const auto& [thread, state] : threads_) {
    if (state.stopped) continue;
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    waiting.push_back(thread);
  }
  // Threads may stop and end in any order, so the wait is for any of them.
  auto last_progress = std::chrono::steady_clock::now();
  while (!waiting.empty()) {
    const auto is_known = [this](pid_t thread) { return NoteStop(thread); };
    if (std::erase_if(waiting, is_known) > 0) {
      last_progress = std::chrono::steady_clock::now();
      continue;
    }
    if (std::chrono::steady_clock::now() - last_progress > kStopPatience) {
      const auto has_ended = [this](pid_t thread) {
        return HasEnded(pid_, thread) && threads_.erase(thread) == 1;
      };
      if (std::erase_if(waiting, has_ended) > 0) continue;
      throw Failure(
          fmt::format("thread {} of process {} does not stop, since it waits in the kernel (vfork, "
                      "or a slow device): try again, or use --no-stop",
                      waiting[0], pid_));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool StoppedThreads::NoteStop(pid_t thread) {
  int status = 0;
  const pid_t waited = waitpid(thread, &status, __WALL | WNOHANG);
  if (waited == 0) return false;
  if (waited == thread && WIFSTOPPED(status)) {
    threads_[thread] = {.stopped = true, .signal = status >> 16 == 0 ? WSTOPSIG(status) : 0};
  } else {
    threads_.erase(thread);
  }
  return true;
}

std::vector<ThreadRegisters> StoppedThreads::ReadRegisters() const {
  std::vector<ThreadRegisters> all;
  all.reserve(threads_.size());
  for (const auto& [thread, state] : threads_) {
    if (!state.stopped) continue;
    std::optional<ThreadRegisters> registers = ReadStoppedRegisters(thread);
    if (!registers.has_value()) continue;
    registers->signal.number = state.signal;
    all.push_back(std::move(*registers));
  }
  return all;
}

std::optional<RemoteCallResult> StoppedThreads::Call(const RemoteCall& call, uintptr_t options) {
  bool never = true;
  for (auto& [thread, state] : threads_) {
    // A thread that is about to get a signal does not return to the program directly.
    const MayCall may =
        !state.stopped || state.signal != 0 ? MayCall::kNotNow : CanMakeCall(pid_, thread);
    never = never && may == MayCall::kNever;
    if (may != MayCall::kYes) continue;
    const RemoteCallResult result = MakeCall(thread, call, options);
    state.signal = result.signal;
    if (result.made) return result;
  }
  if (never) {
    throw Failure(
        fmt::format("process {} has no thread that could make a system call without harm: each has "
                    "a seccomp filter, uses Syscall User Dispatch, or runs 32-bit code",
                    pid_));
  }
  return std::nullopt;
}

void StoppedThreads::Resume() {
  for (const auto& [thread, state] : threads_) {
    // Only a stopped thread can be detached; the others are detached when this program ends.
    if (!state.stopped) continue;
    if (ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(intptr_t{state.signal})) !=
        0) {
      waitpid(thread, nullptr, __WALL | WNOHANG);  // it was killed
    }
  }
  threads_.clear();
}

}  // namespace cli
