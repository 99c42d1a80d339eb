#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the messages on stderr for variables of the environment.

usage: messages_test.py everywhere|full MESSAGES LIBRARY

MESSAGES is the program of messages.c. All of stderr is compared. With "full" the library is the full one, whose
settings are tried. heap_profiler_test.py has those of the heap profiler.
"""
import re

import process_test


class Test(process_test.Test):

    def says(self, variables, pattern, *arguments):
        run = self.run(*arguments, **variables)
        self.expect(run.returncode == 0 and re.fullmatch(pattern, run.stderr),
                    f"{variables}: status {run.returncode}, stderr:\n{run.stderr}expected:\n{pattern}")


def test_everywhere(test):
    test.says({}, "")
    limit = (r"tcmalloc: hard limit: an allocation of 209715200 bytes failed: the limit is 64\.0 MiB, and the heap has "
             r"\d+\.\d MiB; raise TCMALLOC_HEAP_LIMIT_MB; later failures are not reported" "\n")
    test.says({"TCMALLOC_HEAP_LIMIT_MB": "64"}, limit, "fail")
    test.says({"TCMALLOC_HEAP_LIMIT_MB": "64m"}, limit, "fail")
    test.says({"TCMALLOC_HEAP_LIMIT_MB": "64"}, "")
    for name, meant in (("MALLOCSTAT", "MALLOCSTATS"), ("HEAPCHEK", "HEAPCHECK"),
                        ("TCMALLOC_RELEASERATE", "TCMALLOC_RELEASE_RATE")):
        test.says({name: "1"}, rf"tcmalloc: {name} is ignored: there is no such setting; did you mean {meant}\?" "\n")
    # Variables of others.
    test.says({"MALLOC_ARENA_MAX": "1", "MALLOC_CONF": "x", "HEAP_SIZE": "1G"}, "")
    # Mistakes cause messages only if hints are requested.
    others = {"MALLOC_ARENA_MAX": "1", "HARD_LIMIT": "1G", "TCMALLOC_SOFT_LIMIT": "512"}
    test.says(others, "")
    test.says({**others, "TCMALLOC_HINTS": "1"}, r"(tcmalloc: hint: [A-Z].*\n){3}")
    # An empty boolean. Without both sources no allocation succeeds; without the last one every allocation does.
    test.says({"TCMALLOC_SKIP_SBRK": "", "TCMALLOC_HINTS": "", "MALLOC_ARENA_MAX": "1"}, "tcmalloc: hint: MALLOC_ARENA_MAX .*\n")


def test_full(test):
    directory = f"{test.folder}/no"
    checked = r'tcmalloc: leak check "_main_" of .*: no leaks found, \d+ objects, \d+ bytes checked' "\n"
    test.says({"HEAPCHECK": "normal", "HEAP_CHECK_DUMP_DIRECTORY": directory},
              rf"tcmalloc: HEAP_CHECK_DUMP_DIRECTORY: cannot create files in {directory}: No such file or directory" "\n" + checked)
    test.says({"HEAPCHECK": "normal", "HEAP_CHECK_DUMP_DIRECTORY": test.folder}, checked)
    test.says({"TCMALLOC_PRESSURE": "auto,level3=4X,thread=off"},
              'tcmalloc: TCMALLOC_PRESSURE is ignored: syntax error at "level3=4X", expected auto, or words like level1=80%, '
              r"level2=3G, interval=5s \(docs/pressure\.md\)" "\n")


if __name__ == "__main__":
    process_test.main(globals(), Test)
