#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starting and ending a thread that allocates costs no system call of the allocator's.

usage: thread_system_calls_test.py PROGRAM LIBRARY

Counts system calls with strace, by name. The calls of a thousand more threads must be the same
whether they allocate or not, except for a few that the C library makes now and then. Calls of futex
are left out: whether pthread_join has to wait is chance. A setting prevents releases of free memory,
which depend on what is freed, whichever thread frees it.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

FEW, MANY = 200, 1200
NOW_AND_THEN = 5
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)")


def calls(program, library, threads, allocates):
    """How often each system call was made."""
    environment = {**os.environ, "LIBRARY_UNDER_TEST": library}
    environment.pop("LD_PRELOAD", None)
    with tempfile.NamedTemporaryFile("r") as log:
        # The preload is for the program alone: strace itself must not run on the library.
        subprocess.run(["strace", "-f", "-o", log.name, "-E", f"LD_PRELOAD={library}",
                        "-E", "TCMALLOC_RELEASE_RATE=0",
                        # A growing heap pre-faults memory; that does not count as a cost of the threads.
                        # The start and end of the background thread, once in ten seconds, does not count either.
                        "-E", "TCMALLOC_HUGEPAGES=0", "-E", "TCMALLOC_BACKGROUND=0", program,
                        str(threads), str(allocates)], env=environment, check=True, timeout=100)
        counts = collections.Counter()
        for line in log:
            found = CALL.match(line)
            # An interrupted line and its continuation are one call.
            if found and "<unfinished" not in line:
                counts[found[1]] += 1
    del counts["futex"]
    return counts


def main():
    program, library = sys.argv[1:]
    if not shutil.which("strace"):
        print("SKIP: strace is not installed")
        return 77
    added = []
    for allocates in (0, 1):
        many = calls(program, library, MANY, allocates)
        many.subtract(calls(program, library, FEW, allocates))
        added.append(many)
    without, allocating = added
    print(f"{MANY - FEW} threads add {dict(without)} without allocating, {dict(allocating)} with")
    if without["clone3"] + without["clone"] < MANY - FEW:
        print("FAILED: the threads were not seen")
        return 1
    more = {name: allocating[name] - without[name] for name in allocating
            if allocating[name] - without[name] > NOW_AND_THEN}
    print(f"FAILED: {more} more" if more else "none more")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
