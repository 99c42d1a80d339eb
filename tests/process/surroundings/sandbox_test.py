#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A sandbox that ends processes for calls that docs/settings.md does not list ends none for ours.

usage: sandbox_test.py PROGRAM LIBRARY SETTINGS_MD THREADS [NAME=VALUE...]

Runs PROGRAM (surroundings.c) with LIBRARY preloaded and the settings NAME=VALUE, which enters a seccomp filter after its
first allocations. The filter allows the allocator's calls after the start according to the page, and the program's own
calls. THREADS: alone, or new for threads that start and end, and a fork, after the filter. With TCMALLOC_MEMBARRIER=0, and
in a process with one thread, it does not allow membarrier.
"""
import os
import re
import subprocess
import sys

# The program's own calls: it writes messages, waits, and ends.
PROGRAM = {"alone": ["write", "exit_group"],
           # The C library's calls to start and end a thread, and to fork.
           "new": ["write", "exit_group", "futex", "mprotect", "mmap", "munmap", "madvise", "clone", "clone3", "exit",
                   "rseq", "rt_sigaction", "set_robust_list", "rt_sigprocmask", "gettid", "wait4"]}
STEPS = {"alone": ["allocate", "release"], "new": ["allocate", "threads", "fork", "release"]}
HEADING = "## System calls after start"


def documented(page):
    """The calls of each row of the section's first table, by the row's last column."""
    with open(page, encoding="utf-8") as text:
        section = text.read().split(HEADING, 1)[1].split("\n## ", 1)[0]
    table = section.split("\n\n|", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("|").split("|") for line in table.split("\n")[2:]]
    return [(re.findall(r"`(\w+)`", calls), why) for calls, why in rows]


def main():
    program, library, page, threads, *settings = sys.argv[1:]
    calls = [call for names, _ in documented(page) for call in names]
    if "membarrier" not in calls or "mmap" not in calls or "openat" in calls:
        print(f"FAILED: the page's list is {calls}")
        return 1
    if threads == "alone" or "TCMALLOC_MEMBARRIER=0" in settings:
        calls.remove("membarrier")
    if "TCMALLOC_BACKGROUND=1" in settings:
        # The thread may still be starting when the filter is installed.
        calls += ["rseq", "set_robust_list"]
    environment = {**os.environ, "LD_PRELOAD": library, "LIBRARY_UNDER_TEST": library,
                   **dict(setting.split("=", 1) for setting in settings)}
    rules = [f"{call}=allow" for call in sorted({*calls, *PROGRAM[threads]})]
    result = subprocess.run([program, *STEPS[threads]], env={**environment, "REFUSE_LATER": " ".join([*rules, "*=kill"])},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
    sys.stdout.write(result.stdout + result.stderr)
    if result.returncode == 0 and any(f"{step}: done\n" not in result.stdout for step in STEPS[threads]):
        print("FAILED: not every step was done")
        return 1
    print(f"allowed: {' '.join(calls)}; status {result.returncode}")
    return result.returncode if result.returncode in (0, 77) else 1


if __name__ == "__main__":
    sys.exit(main())
