// SPDX-License-Identifier: BSD-3-Clause
// Runs a part of a test in a forked child, for changes that cannot be undone: limits, sandboxes.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

namespace tcmalloc {

// Runs `body`, which returns 0 for success, in a child. Returns the result of `body`, or more than
// 1000 if the child ended before `body` returned. A child that hangs ends with the test's process.
inline int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// Like InChild, but `body` runs in a second thread of the child, when the first one has ended.
inline int InChildWithoutFirstThread(const std::function<int()>& body) {
  return InChild([&body] {
    std::thread([&body] {
      while (std::ifstream("/proc/self/statm").get() != '0') usleep(1000);
      _exit(body());
    }).detach();
    return static_cast<int>(syscall(SYS_exit, 0));
  });
}

}  // namespace tcmalloc
