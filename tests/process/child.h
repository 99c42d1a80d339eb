// SPDX-License-Identifier: BSD-3-Clause
// Runs a piece of the test in a forked child and reports how it ended and what it wrote to stderr.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

struct ChildResult {
  bool timed_out = false;
  bool exited = false;
  int exit_code = -1;  // When exited.
  int signal = 0;      // When killed by a signal.
  std::string err;     // Everything that the child wrote to stderr.
};

// Runs `body` in a child, which then exits with 0. A child that neither ends nor closes its stderr
// within the limit is killed.
template <typename Body>
ChildResult RunInChild(Body body, int limit_seconds = 20) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  ChildResult result;
  char chunk[4096];
  for (;;) {
    pollfd waiting = {ends[0], POLLIN, 0};
    if (poll(&waiting, 1, limit_seconds * 1000) == 0) {
      result.timed_out = true;
      kill(child, SIGKILL);
      break;
    }
    const ssize_t length = read(ends[0], chunk, sizeof(chunk));
    if (length <= 0) break;
    result.err.append(chunk, length);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    result.exited = true;
    result.exit_code = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  }
  return result;
}
