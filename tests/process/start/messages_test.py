#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the messages on stderr for variables of the environment.

usage: messages_test.py MESSAGES LIBRARY [full]

MESSAGES is the program of messages.c. All of stderr is compared. With "full" the library is the full one, whose
settings are tried as well.
"""
import os
import re
import subprocess
import sys
import tempfile


class Test:
    def __init__(self, program, library):
        self.program, self.library = program, library
        self.failed = 0

    def expect(self, what, variables, pattern, arguments=(), status=0):
        environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": self.library, "LIBRARY_UNDER_TEST": self.library,
                       **variables}
        run = subprocess.run([self.program, *arguments], env=environment, stderr=subprocess.PIPE, text=True,
                             timeout=60, check=False)
        if run.returncode == status and re.fullmatch(pattern, run.stderr):
            return
        self.failed += 1
        print(f"FAILED: {what}: status {run.returncode}, stderr:\n{run.stderr}expected:\n{pattern}")


def everywhere(test):
    none = {}
    test.expect("no variable", none, "")
    limit = (r"tcmalloc: hard limit: an allocation of 209715200 bytes failed: the limit is 64\.0 MiB, and the heap has "
             r"\d+\.\d MiB; raise TCMALLOC_HEAP_LIMIT_MB; later failures are not reported" "\n")
    test.expect("a limit", {"TCMALLOC_HEAP_LIMIT_MB": "64"}, limit, ["fail"])
    test.expect("a limit with a suffix", {"TCMALLOC_HEAP_LIMIT_MB": "64m"}, limit, ["fail"])
    test.expect("a limit that is not met", {"TCMALLOC_HEAP_LIMIT_MB": "64"}, "")
    for name, meant in (("MALLOCSTAT", "MALLOCSTATS"), ("HEAPCHEK", "HEAPCHECK"),
                        ("TCMALLOC_RELEASERATE", "TCMALLOC_RELEASE_RATE")):
        test.expect(name, {name: "1"},
                    rf"tcmalloc: {name} is ignored: there is no such setting; did you mean {meant}\?" "\n")
    test.expect("variables of others", {"MALLOC_ARENA_MAX": "1", "MALLOC_CONF": "x", "HEAP_SIZE": "1G"}, "")
    others = {"MALLOC_ARENA_MAX": "1", "HARD_LIMIT": "1G", "TCMALLOC_SOFT_LIMIT": "512"}
    test.expect("mistakes without hints", others, "")
    test.expect("hints", {**others, "TCMALLOC_HINTS": "1"},
                r"(tcmalloc: hint: [A-Z].*\n){3}")
    # Without both sources no allocation succeeds; without the last one every allocation does.
    test.expect("an empty boolean", {"TCMALLOC_SKIP_SBRK": "", "TCMALLOC_HINTS": "", "MALLOC_ARENA_MAX": "1"},
                "tcmalloc: hint: MALLOC_ARENA_MAX .*\n")


def in_full_library(test):
    missing = "No such file or directory"
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/no/app"
        cannot = rf"tcmalloc: HEAPPROFILE: cannot create {prefix}\.0001\.heap: {missing}" "\n"
        test.expect("HEAPPROFILE", {"HEAPPROFILE": prefix}, cannot)
        # The library would otherwise try to write a file for each period, and each would fail.
        test.expect("HEAPPROFILE with more files", {"HEAPPROFILE": prefix, "HEAP_PROFILE_ALLOCATION_INTERVAL": "1"},
                    cannot)
        good = f"{folder}/app"
        test.expect("HEAPPROFILE in a folder that there is", {"HEAPPROFILE": good},
                    rf"tcmalloc: heap profile {good}\.0001\.heap \(exit, .*\)" "\n")
        directory = f"{folder}/no"
        checked = r'tcmalloc: leak check "_main_" of .*: no leaks found, \d+ objects, \d+ bytes checked' "\n"
        test.expect("HEAP_CHECK_DUMP_DIRECTORY", {"HEAPCHECK": "normal", "HEAP_CHECK_DUMP_DIRECTORY": directory},
                    rf"tcmalloc: HEAP_CHECK_DUMP_DIRECTORY: cannot create files in {directory}: {missing}" "\n"
                    + checked)
        test.expect("HEAP_CHECK_DUMP_DIRECTORY that there is",
                    {"HEAPCHECK": "normal", "HEAP_CHECK_DUMP_DIRECTORY": folder}, checked)
    test.expect("an invalid threshold", {"TCMALLOC_PRESSURE": "auto,level3=4X,thread=off"},
                'tcmalloc: TCMALLOC_PRESSURE is ignored: syntax error at "level3=4X", expected auto, or words like level1=80%, '
                r"level2=3G, interval=5s \(docs/pressure\.md\)" "\n")


def main():
    program, library, *full = sys.argv[1:]
    test = Test(program, library)
    everywhere(test)
    if full:
        in_full_library(test)
    print(f"{test.failed} failed")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
