// SPDX-License-Identifier: BSD-3-Clause
#include "image/stop.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <vector>

#include "image/image.h"
#include "image/process.h"

namespace cli {

StoppedThreads::StoppedThreads(pid_t pid) : pid_(pid) {
  try {
    // A thread that runs may create others until it is stopped.
    while (SeizeNew()) InterruptAndWait();
  } catch (...) {
    Resume();
    throw;
  }
  if (threads_.empty()) throw Failure(fmt::format("process {} has ended", pid));
}

bool StoppedThreads::SeizeNew() {
  bool any = false;
  for (const pid_t thread : ThreadsOf(pid_)) {
    if (threads_.contains(thread)) continue;
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      if (errno == ESRCH) continue;  // it has ended
      const int error = errno;
      const auto info = ReadProcessInfo(pid_);
      if (info.has_value() && info->tracer != 0) {
        const auto tracer = ReadProcessInfo(info->tracer);
        throw Failure(
            fmt::format("process {} is traced by process {} ({}): end that, or use --no-stop", pid_,
                        info->tracer, tracer.has_value() ? tracer->name : "unknown"));
      }
      throw Failure(ExplainDenial(pid_, error));
    }
    threads_.emplace(thread, Thread());
    any = true;
  }
  return any;
}

void StoppedThreads::InterruptAndWait() {
  for (const auto& [thread, state] : threads_) {
    if (!state.stopped) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
  for (auto at = threads_.begin(); at != threads_.end();) {
    auto& [thread, state] = *at;
    int status = 0;
    if (!state.stopped) {
      const pid_t waited = waitpid(thread, &status, __WALL);
      if (waited != thread || !WIFSTOPPED(status)) {
        at = threads_.erase(at);  // it has ended
        continue;
      }
      state.stopped = true;
      if (status >> 16 == 0) state.signal = WSTOPSIG(status);
    }
    ++at;
  }
}

void StoppedThreads::Resume() {
  for (auto& [thread, state] : threads_) {
    // Only a stopped thread can be detached.
    if (!state.stopped) {
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      int status = 0;
      if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) continue;
      if (status >> 16 == 0) state.signal = WSTOPSIG(status);
    }
    ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(intptr_t{state.signal}));
  }
  threads_.clear();
}

}  // namespace cli
