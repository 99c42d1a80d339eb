#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what it costs a program to start with the library and allocate once.

  startup_size_test.py memory PROGRAM LIBRARY_FOLDER [KIB]
  startup_size_test.py system_calls PROGRAM LIBRARY_FOLDER STUB_LIBRARY

"memory" compares resident memory and address space with those on the C library's malloc. The resident memory may exceed
the bound by KIB.
"system_calls" counts the system calls and compares them with those of a preloaded library that does nothing: the calls
of the dynamic linker to load a library are in both.
"""

import collections
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

SKIPPED = 77
# Enough for a mean that is known to 1 KiB: single runs differ by up to 80.
ROUNDS = 101
# KiB more than on the C library's malloc: resident, address space.
BOUNDS = {"libtcmalloc_minimal.so.4": (352, 16384), "libtcmalloc.so.4": (512, 16384)}
# System calls more than with a library that does nothing. Seen: 8 to 13, depending on whether
# addresses happen to be aligned. Four of them ask for the system's hugepage settings, at the start because a sandbox
# that is set up later may end the process for that. One asks whether there is a sandbox. The full library records the
# stack that made the heap grow: for each further page of the stack it checks whether the page is mapped, 1 to 3 times.
MOST_SYSTEM_CALLS = {"libtcmalloc_minimal.so.4": 14, "libtcmalloc.so.4": 17}
# Hugepages of 32-bit x86 have two sizes: the library opens, reads and closes a file to find out which one is in use.
MORE_ON_32_BITS = 3
# These calls only ask, and change nothing.
QUESTIONS = re.compile("PR_GET_(THP_DISABLE|SECCOMP)")
# The library must make no call that starts a thread or process, communicates, or changes how the process runs.
NEVER = {"clone", "clone3", "fork", "vfork", "execve", "socket", "connect", "rt_sigaction",
         "sigaltstack", "write", "writev", "prctl", "setrlimit", "nanosleep", "clock_nanosleep",
         "sched_yield", "timer_create", "setitimer", "rseq", "kill", "tgkill"}


def environment(library):
    variables = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
    if library:
        variables["LD_PRELOAD"] = str(library)
    return variables


def sizes(program, library):
    """(resident KiB, KiB of address space)"""
    run = subprocess.run([program, "print"], env=environment(library), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=True)
    resident = 0
    file = ""
    for line in run.stdout.splitlines():
        mapping = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)", line)
        if mapping:
            file = mapping[1]
        # For files that the program maps in any case, only its own copies of pages count. The rest lies in the page
        # cache, and how much of it is mapped around a touched page depends on the state of the page cache: 70 KiB of
        # the C library were seen.
        counted = "Anonymous" if file.startswith("/") and file != str(library) else "Rss"
        figure = re.match(rf"{counted}:\s+(\d+) kB$", line)
        if figure:
            resident += int(figure[1])
    return resident, int(re.search(r"^VmSize:\s+(\d+) kB$", run.stdout, re.MULTILINE)[1])


def check_memory(program, folder, allowance=0):
    libraries = [None] + [pathlib.Path(folder).resolve() / name for name in BOUNDS]
    figures = {library: [] for library in libraries}
    for _ in range(ROUNDS):
        for library in libraries:
            figures[library].append(sizes(program, library))
    # Compares means: how much of a file is mapped around a touched page depends on the file's address, which is random.
    # The amount is bounded: there are no outliers, but several peaks.
    means = {library: [statistics.mean(column) for column in zip(*rows)]
             for library, rows in figures.items()}
    failed = 0
    print(f"C library's malloc: {means[None][0]:.0f} KiB resident, "
          f"{means[None][1]:.0f} KiB of addresses")
    for library in libraries[1:]:
        for column, what in ((0, "resident"), (1, "of addresses")):
            more = means[library][column] - means[None][column]
            bound = BOUNDS[library.name][column] + (int(allowance) if column == 0 else 0)
            spread = sorted(row[column] for row in figures[library])
            print(f"{library.name}: {more:.0f} KiB more {what}, {bound} allowed "
                  f"(runs: {spread[0]} to {spread[-1]})")
            if more > bound:
                failed += 1
                print(f"FAILED: {more - bound:.0f} KiB too much")
    return 1 if failed else 0


def is_for_32_bits(library):
    """Reads the class in the header of an ELF file."""
    return library.read_bytes()[4] == 1


def system_calls(program, library):
    with tempfile.NamedTemporaryFile("r") as log:
        # The preload is for the program alone: strace itself must not run on the library.
        subprocess.run(["strace", "-f", "-o", log.name, "-E", f"LD_PRELOAD={library}", program],
                       env=environment(None), stdout=subprocess.DEVNULL, check=True)
        lines = log.read().split("\n")
    calls = [match for match in (re.match(r"\d+\s+(\w+)\((.*)", line) for line in lines) if match]
    return collections.Counter(match[1] for match in calls), [match[0] for match in calls]


def check_system_calls(program, folder, stub):
    if not shutil.which("strace"):
        print("SKIP: strace is not installed")
        return SKIPPED
    failed = 0
    without, _ = system_calls(program, stub)
    for name in BOUNDS:
        counts, lines = system_calls(program, pathlib.Path(folder) / name)
        more = counts - without
        allowed = MOST_SYSTEM_CALLS[name]
        if is_for_32_bits(pathlib.Path(folder) / name):
            allowed += MORE_ON_32_BITS
        print(f"{name}: {sum(more.values())} system calls, {allowed} allowed: "
              + ", ".join(f"{call} {n}" for call, n in more.most_common()))
        if sum(more.values()) > allowed:
            failed += 1
            print("FAILED: too many")
        for call in sorted(set(more) & NEVER):
            if all(QUESTIONS.search(line) for line in lines if re.search(rf" {call}\(", line)):
                continue
            failed += 1
            print(f"FAILED: {call} is not for a malloc library to call at its start:")
            print("".join(f"    {line}\n" for line in lines if f" {call}(" in line))
    return 1 if failed else 0


if __name__ == "__main__":
    check = {"memory": check_memory, "system_calls": check_system_calls}[sys.argv[1]]
    sys.exit(check(*sys.argv[2:]))
