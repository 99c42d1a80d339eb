#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what it costs a program to start with the library and allocate once.

  startup_size_test.py memory PROGRAM LIBRARY_FOLDER [KIB]
  startup_size_test.py system_calls PROGRAM LIBRARY_FOLDER STUB_LIBRARY

"memory" compares the process's own memory and its address space with those on the C library's
malloc. It also limits what the library's file maps for reading and executing, where KIB more are
allowed. "system_calls" counts the system calls and compares them with those of a preloaded library
that does nothing: the calls of the dynamic linker to load a library are in both.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# KiB more than on the C library's malloc: own memory, address space. Then KiB that the file maps.
BOUNDS = {"libtcmalloc_minimal.so.4": (96, 16384, 320), "libtcmalloc.so.4": (108, 16384, 592)}
RUNS = 3  # of the least figure: addresses are random, and tables that cross a page's end take one more
# System calls more than with a library that does nothing. Seen: 8 to 13, depending on whether
# addresses happen to be aligned. Four of them ask for the system's hugepage settings, at the start because a sandbox
# that is set up later may end the process for that. One asks whether there is a sandbox. The full library records the
# stack that made the heap grow: for each further page of the stack it checks whether the page is mapped, 1 to 3 times.
MOST_SYSTEM_CALLS = {"libtcmalloc_minimal.so.4": 14, "libtcmalloc.so.4": 17}
# Hugepages of 32-bit x86 have two sizes: the library opens, reads and closes a file to find out which one is in use.
MORE_ON_32_BITS = 3
# These calls only query the system, and change nothing.
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
    """(KiB of pages that only this process has, KiB of address space). How much of a file is resident depends on the page
    cache, so that does not count."""
    run = subprocess.run([program, "print"], env=environment(library), stdout=subprocess.PIPE, text=True, check=True)
    own = sum(map(int, re.findall(r"^Anonymous:\s+(\d+) kB$", run.stdout, re.MULTILINE)))
    return own, int(re.search(r"^VmSize:\s+(\d+) kB$", run.stdout, re.MULTILINE)[1])


def least_sizes(program, library):
    return [min(column) for column in zip(*(sizes(program, library) for _ in range(RUNS)))]


def mapped_kib(library):
    """KiB of the segments that are not writable."""
    run = subprocess.run(["readelf", "-lW", library], stdout=subprocess.PIPE, text=True, check=True)
    segments = re.findall(r"^\s+LOAD\s+(?:0x\w+\s+){3}0x(\w+)\s+0x\w+\s+R[ E]* 0x", run.stdout, re.MULTILINE)
    return sum(int(size, 16) for size in segments) / 1024


def check_memory(program, folder, allowance=0):
    failed = 0
    without = least_sizes(program, None)
    print(f"C library's malloc: {without[0]} KiB of its own, {without[1]} KiB of addresses")
    for name, bounds in BOUNDS.items():
        library = pathlib.Path(folder).resolve() / name
        own, addresses = least_sizes(program, library)
        for figure, bound, what in ((own - without[0], bounds[0], "more of its own"),
                                    (addresses - without[1], bounds[1], "more of addresses"),
                                    (mapped_kib(library), bounds[2] + int(allowance), "mapped of the file")):
            print(f"{name}: {figure:.0f} KiB {what}, {bound} allowed")
            if not 0 < figure <= bound:
                failed += 1
                print("FAILED")
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
