#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the reports of large allocations: the calls of the callback, and what goes to stderr, by the environment.

usage: large_allocations_test.py large PROGRAM LIBRARY

PROGRAM is the program of statistics.c.
"""
import json
import os
import re

import process_test

GIB = 1 << 30
THRESHOLD = "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD"
# The requests of statistics.c that must be reported, and the number that must be counted: the six of the program
# itself, and one for each report.
REPORTED = [GIB // 2 * 3, GIB // 10 * 12, GIB // 10 * 20, GIB // 10 * 19]
COUNTED = 6 + len(REPORTED)


def test_large(test):
    for variables, told, lines in (({}, True, False),
                                   ({THRESHOLD: str(GIB)}, True, True),
                                   ({THRESHOLD: "0"}, False, False),
                                   ({THRESHOLD: "-1"}, False, False)):
        done = test.run("large", **variables)
        test.expect_equal(done.returncode, 0, f"exit status ({done.stderr})")
        callbacks = [int(n) for n in re.findall(r"^callback (\d+)$", done.stdout, re.MULTILINE)]
        test.expect_equal(callbacks, REPORTED if told else [], f"told with {variables}")
        written = re.findall(r"^tcmalloc: large alloc (\d+) bytes == 0x[0-9a-f]+; next report at "
                             r"(\d+) bytes or more((?: @(?: 0x[0-9a-f]+)+)?)\n((?:    .*\n)*)",
                             done.stderr, re.MULTILINE)
        test.expect_equal(sum(1 + names.count("\n") for *_, names in written),
                          done.stderr.count("\n"), f"lines on stderr: {done.stderr}")
        # The report has at least the frames of the program's main and of main's caller, each with
        # its name and its file.
        full = "minimal" not in test.library
        test.expect_equal([trace.count(" 0x") >= 2 for _, _, trace, _ in written],
                          [full] * len(written), "stack traces")
        program = re.escape(os.path.realpath(test.program))
        for _, _, trace, names in written:
            test.expect_equal(names.count("\n"), trace.count(" 0x"), f"frames: {trace} {names}")
            test.expect_equal(
                re.search(rf"^    main\+0x[0-9a-f]+ \({program}\+0x[0-9a-f]+\)$", names,
                          re.MULTILINE) is not None, full, f"main is named: {names}")
        test.expect_equal([int(n) for n, *_ in written], REPORTED if lines else [], f"lines with {variables}")
        threshold = GIB
        for _, following, *_ in written:
            threshold += threshold // 8
            test.expect_equal(int(following), threshold, "the next threshold")
        figures = json.loads(done.stdout[done.stdout.index("{"):])
        test.expect_equal(figures["large_allocations_total"], COUNTED if told else 0, "counted")
        test.expect_equal(figures["large_allocation_reports_total"], len(REPORTED) if told else 0, "reported")


if __name__ == "__main__":
    process_test.main(globals())
