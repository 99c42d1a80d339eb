// SPDX-License-Identifier: BSD-3-Clause
// Runs a part of a test in a forked child, for changes that cannot be undone: limits, sandboxes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace tcmalloc {

// Runs `body`, which returns 0 for success, in a child. Returns the result of `body`, or more than
// 1000 if the child ended before `body` returned.
inline int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

}  // namespace tcmalloc
