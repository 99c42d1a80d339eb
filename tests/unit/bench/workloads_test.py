#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts one of the benchmark programs with tiny arguments and checks what it does and reports.

usage: workloads_test.py PROGRAM BIN_FOLDER SPY_MALLOC LIBRARY_TO_PRELOAD

These tests check no times.
"""
import collections
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

# arguments: for a short run. metric: the first one of the report, with its unit and what is better. mallocs: the least
# number of calls of malloc.
Case = collections.namedtuple("Case", "arguments metric unit better mallocs")


def time(arguments, mallocs):
    return Case(arguments, "time_s", "s", "lower", mallocs)


def memory(arguments, metric, unit, mallocs):
    return Case(arguments, metric, unit, "lower", mallocs)


def rate(arguments, metric, mallocs):
    return Case(arguments, metric, "1/s", "higher", mallocs)


CASES = {
    "cache-scratch": time("2 100 8 100", 202),
    "cache-thrash": time("2 100 8 100", 200),
    "call-latency": memory("2 100 1000", "malloc_p999_ns", "ns", 2 * 1000),
    "containers": time("2 300 2", 2 * 2 * 300 * 4),
    "fork-cost": memory("2 5", "fork_and_wait_us", "us", 2 * 24 * 60),
    "fragmentation": memory("5000 1", "regrown_ratio", "1", 5000 + 1800),
    "graph": time("2000 1000", 3 * 2000 + 1000),
    "growing-strings": time("2 20 200 5000", 2 * 20 * 4),
    "idle-threads": memory("10 0.01", "kib_per_thread", "KiB", 10 * 10),
    "index-build": memory("1 1 1 2 4 1", "rss_to_live", "1", 2 * 2 * 100),
    "large-buffers": time("2 4 50", 2 * 50),
    "large-objects": time("2 16384 300 1", 2 * 300),
    "larson": rate("0.02 8 1000 100 2 1 2", "ops_per_s", 500),
    "larson-sized": rate("0.02 8 1000 100 2 1 2", "ops_per_s", 500),
    "linux-scalability": time("512 1000 2 2", 4000),
    "lru": time("2 1 5000", 2 * 2 * 1000),
    "malloc-large": time("3 6", 6),
    "message-batches": time("2 2 20 50", 2 * 2 * 20 * 50),
    "mixed-churn": time("2 100 500", 2 * 600),
    "mstress": time("2 5 4", 4 * 5 * 100 * 3),
    "phases": time("4 4 2", 50_000),
    "ramp": memory("4 10 0.05 0.05", "idle_rss_kib", "KiB", 5000 + 2000),
    "rptest": time("2 0 1 2 20 100 10 8 16000", 2 * 20 * 10 + 2 * 10 * 11),
    "scattered-nodes": time("2000 3000", 2000 + 200),
    "shared-lines": memory("2 8 500 3 2 2", "write_ns", "ns", 2 * 500 * 2),
    "short-threads": time("40 2 100", 40 * 100),
    "t-test1": time("3 2 5000 1000 50", 3 * 2000),
    "threadtest": time("2 10 1000 0 8", 10 * 1000),
    # Each thread allocates 500 objects, and 500 more in each of 9 + 2 turns.
    "turns": memory("3 2", "pair_ns", "ns", 3 * 500 * 12),
    "vector-growth": time("2 3 1 2", 0),
    "xmalloc-test": rate("-w 2 -t 0.02 -s 0", "objects_per_s", 2 * 4096),
}

KEYS = {"program", "args", "metrics", "wall_s", "user_s", "sys_s", "minor_faults", "major_faults", "peak_rss_kib",
        "malloc_library"}

PROGRAM = BIN = SPY = LIBRARY = ""


def report(arguments, **environment):
    """The report on a run that must succeed, and what went to standard output besides."""
    with tempfile.TemporaryFile("w+") as file:
        os.set_inheritable(file.fileno(), True)
        result = subprocess.run(
            [os.path.join(BIN, PROGRAM), *arguments], close_fds=False,
            env={**os.environ, "LD_PRELOAD": "", "BENCH_REPORT_FD": str(file.fileno()),
                 **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode != 0 or result.stderr:
            raise AssertionError(f"{PROGRAM}: {result.returncode}: {result.stderr}")
        file.seek(0)
        lines = file.read().splitlines()
    if len(lines) != 1:
        raise AssertionError(f"{len(lines)} lines of report")
    return json.loads(lines[0]), result.stdout


class Workload(unittest.TestCase):
    def setUp(self):
        self.case = CASES[PROGRAM]
        self.arguments = self.case.arguments.split()

    def check(self, made):
        self.assertEqual(set(made) - {"series"}, KEYS)
        self.assertEqual(made["program"], PROGRAM)
        self.assertEqual(made["args"], self.arguments)
        first = made["metrics"][0]
        self.assertEqual([first["name"], first["unit"], first["better"]],
                         [self.case.metric, self.case.unit, self.case.better])
        for metric in made["metrics"]:
            self.assertEqual(set(metric), {"name", "value", "unit", "better"})
            self.assertIn(metric["better"], ("higher", "lower"))
            self.assertTrue(math.isfinite(metric["value"]))
        if self.case.metric != "kib_per_thread":  # may be 0
            self.assertGreater(first["value"], 0)
        if self.case.metric == "time_s":
            self.assertEqual(first["value"], made["wall_s"])
        self.assertGreater(made["wall_s"], 0)
        self.assertGreater(made["peak_rss_kib"], 500)

    def test_with_the_library(self):
        made, _ = report(self.arguments, LD_PRELOAD=LIBRARY)
        self.check(made)
        self.assertEqual(made["malloc_library"], os.path.realpath(LIBRARY))

    def test_with_the_c_librarys_malloc_each_call_is_made(self):
        with tempfile.NamedTemporaryFile() as output:
            made, said = report(self.arguments, LD_PRELOAD=SPY, SPY_OUTPUT=output.name)
            mallocs, frees, sized_deletes = [int(word) for word in output.read().split()]
        self.check(made)
        self.assertEqual(said, "")
        self.assertGreaterEqual(mallocs, self.case.mallocs)
        # Objects that the library and the report keep are not freed.
        self.assertGreaterEqual(frees + 200, mallocs)
        if PROGRAM in ("larson", "larson-sized"):
            self.assertEqual(sized_deletes > 200, PROGRAM == "larson-sized", sized_deletes)


class Instrumented(unittest.TestCase):
    """cache-thrash and cache-scratch --instrumented: threads, iterations, size, repetitions."""

    def counts(self, arguments, **environment):
        made, _ = report(["--instrumented", *arguments.split()], **environment)
        return {metric["name"]: metric["value"] for metric in made["metrics"]}

    def test_the_c_library_shares_lines_that_one_thread_allocated(self):
        counts = self.counts("3 50 8 10")
        self.assertEqual(counts["shared_lines"] > 0, PROGRAM == "cache-scratch")
        self.assertEqual(counts["iterations_with_sharing"] > 0, PROGRAM == "cache-scratch")

    def test_this_library_keeps_threads_apart(self):
        for flags in ("", "--after-disorder"):
            for size in (1, 8, 16, 24, 40, 48, 72, 100, 200):
                for threads in (2, 8):
                    with self.subTest(flags=flags, size=size, threads=threads):
                        counts = self.counts(f"{flags} {threads} 40 {size} 1", LD_PRELOAD=LIBRARY)
                        self.assertEqual((counts["most_threads_on_a_line"], counts["shared_lines"]), (1, 0))


def load_tests(loader, *_):
    tests = [Workload, Instrumented] if PROGRAM.startswith("cache-") else [Workload]
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, tests))


if __name__ == "__main__":
    PROGRAM, BIN, SPY, LIBRARY = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
