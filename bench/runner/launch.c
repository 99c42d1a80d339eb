// SPDX-License-Identifier: BSD-3-Clause

// bench_launch: runs a program that cannot report on itself and reports for it.
//
//   bench_launch [NAME=VALUE...] PROGRAM [ARGUMENT...]
//
// The variables are set for the program alone, so that an allocator preloaded into it is not
// preloaded here. When the program has ended well, one line of JSON is written to the file
// descriptor in BENCH_REPORT_FD: the wall time; and the CPU time, the page faults and the largest
// peak of resident memory of the program and of the processes that it waited for. The exit status
// is the program's, or 128 + the number of the signal that ended it, or 127 if it could not be
// started.
//
// This is a program of its own because Linux counts a process's peak from its fork on: a child of
// the much larger runner would have the runner's size.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double Seconds(struct timeval time) {
  return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

int main(int argc, char** argv) {
  int first = 1;
  while (first < argc && strchr(argv[first], '=') != NULL) ++first;
  if (first == argc) {
    fprintf(stderr, "usage: bench_launch [NAME=VALUE...] PROGRAM [ARGUMENT...]\n");
    return 2;
  }

  const double start = Now();
  const pid_t child = fork();
  if (child < 0) {
    perror("bench_launch: fork");
    return 2;
  }
  if (child == 0) {
    for (int i = 1; i < first; ++i) putenv(argv[i]);
    execvp(argv[first], argv + first);
    perror(argv[first]);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child) {
    perror("bench_launch: wait4");
    return 2;
  }
  const double wall_s = Now() - start;
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);

  const char* const descriptor = getenv("BENCH_REPORT_FD");
  if (descriptor != NULL &&
      dprintf(atoi(descriptor),
              "{\"wall_s\": %.6f, \"user_s\": %.6f, \"sys_s\": %.6f, \"minor_faults\": %ld, "
              "\"major_faults\": %ld, \"peak_rss_kib\": %ld}\n",
              wall_s, Seconds(usage.ru_utime), Seconds(usage.ru_stime), usage.ru_minflt,
              usage.ru_majflt, usage.ru_maxrss) < 0) {
    perror("bench_launch: report");
    return 2;
  }
  return 0;
}
