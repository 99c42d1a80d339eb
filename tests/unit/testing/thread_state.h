// SPDX-License-Identifier: BSD-3-Clause
// The kernel's state of a thread of this process: a test can wait until a thread really sleeps, and
// interrupt it there, without sleeping itself.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace tcmalloc {

inline pid_t ThisThreadId() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// The rest of the line that starts with `field` in the thread's status file; empty when the thread
// is gone.
inline std::string ThreadStatusField(pid_t thread, const std::string& field) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field + ":\t", 0) == 0) return line.substr(field.size() + 2);
  }
  return "";
}

inline bool IsAsleepOrGone(pid_t thread) {
  const std::string state = ThreadStatusField(thread, "State");
  return state.empty() || state[0] == 'S';
}
inline void WaitUntilAsleep(pid_t thread) {
  while (!IsAsleepOrGone(thread)) sched_yield();
}

// Starts a thread that calls `f`, and returns when it sleeps there or has ended.
template <typename F>
std::thread StartUntilAsleep(F f) {
  std::atomic<pid_t> id{0};
  std::thread thread([&id, f] {
    id = ThisThreadId();
    f();
  });
  while (id == 0) sched_yield();
  WaitUntilAsleep(id);
  return thread;
}

// Sends a signal to a thread that sleeps in a system call, and returns when it has woken and sleeps
// again, or is gone.
inline void InterruptSleep(pid_t thread, pthread_t handle, int signal) {
  static const std::string kTimesAsleep = "voluntary_ctxt_switches";
  const std::string before = ThreadStatusField(thread, kTimesAsleep);
  EXPECT_EQ(pthread_kill(handle, signal), 0);
  while (!before.empty() && ThreadStatusField(thread, kTimesAsleep) == before) sched_yield();
  WaitUntilAsleep(thread);
}

}  // namespace tcmalloc
