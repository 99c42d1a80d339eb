#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests two allocators in a process: each serves its own objects, and the tools name what they leave out.

usage: two_allocators_test.py WHAT PROGRAM OWN LIBRARY SECOND COMMAND

PROGRAM is two_allocators.c, OWN the same with a malloc of its own, LIBRARY is preloaded, SECOND is
another copy of the library, COMMAND the tcmalloc command. WHAT: copies, linked.
"""

import os
import signal
import subprocess

import harness
from harness import INCOMPLETE, TIMEOUT_S, Process, clean_environment, run_test


class Test(harness.Test):

    def __init__(self, program, own, library, second, command):
        super().__init__(command, program, library)
        self.own, self.second = own, second

    def run(self, *command, **variables):
        """Runs a program to its end."""
        return subprocess.run(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                              env=clean_environment(LD_PRELOAD=self.library, LIBRARY_UNDER_TEST=self.library, **variables))

    def process(self, *command):
        return Process(self.library, *command, LIBRARY_UNDER_TEST=self.library)

    def expect_words(self, text, *words):
        self.expect(all(each in text for each in words), f"not {words}: {text}")


def end(test, process):
    process.process.communicate(timeout=TIMEOUT_S)
    test.expect_equal(process.process.returncode, 0, "the program's status")


def test_copies(test):
    for how in ("copy", "space"):
        with test.process(test.program, how, test.second, "wait") as process:
            for report in ("stats", "objects", "doctor"):
                run = test.ask(report, process.pid)
                test.expect_words(run.stdout + run.stderr, f"incomplete: process {process.pid} (process_two_all", ") has another copy of "
                                  "this TCMalloc, in ", ", whose heap is left out: this is about the heap of ")
            end(test, process)
        # Neither copy knows the other's objects.
        run = test.run(test.program, how, test.second, "cross")
        test.expect_equal(run.returncode, -signal.SIGABRT, f"{how}: the status")
        test.expect_words(run.stderr, "tcmalloc: free of 0x", ": not an object of this allocator")


def test_linked(test):
    with test.process(test.own, "own", "wait") as process:
        test.expect_words(test.ask("doctor", process.pid).stdout, "0 B ", " objects that the program holds",
                          "memory that the program maps itself, without malloc", "other allocators in the process")
        run = test.ask("leaks", process.pid, status=INCOMPLETE)
        test.expect_words(run.stdout + run.stderr, "incomplete: the heap has no object: the program may have another malloc")
        end(test, process)
    if "minimal" not in os.path.basename(test.library):
        run = test.run(test.own, "own", "end", HEAPCHECK="normal")
        test.expect_words(run.stderr, "no object is in use, so nothing was checked")


if __name__ == "__main__":
    run_test(globals(), Test)
