#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts one of the benchmark programs with tiny arguments and checks what it does and reports.

usage: workloads_test.py PROGRAM BIN_FOLDER SPY_MALLOC BROKEN_MALLOC [LIBRARY_TO_PRELOAD]

These tests check no times.
"""
import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

# arguments: for a short run. metric: the first metric of the report, its unit, and what is better. mallocs: the least
# number of calls of malloc with `arguments`. broken: sizes for which the program must notice a malloc that hands
# objects out twice, or None
# where the program does not look at contents.
Case = collections.namedtuple("Case", "arguments metric unit better mallocs broken")
ANY_SIZE = "1-1000000000"


def time(arguments, mallocs, broken=ANY_SIZE):
    return Case(arguments, "time_s", "s", "lower", mallocs, broken)


def memory(arguments, metric, unit, mallocs, broken=ANY_SIZE):
    return Case(arguments, metric, unit, "lower", mallocs, broken)


def rate(arguments, metric, mallocs):
    return Case(arguments, metric, "1/s", "higher", mallocs, ANY_SIZE)


CASES = {
    "cache-scratch": time("2 100 8 100", 202, None),
    "cache-thrash": time("2 100 8 100", 200, None),
    # The containers' nodes have other sizes, too.
    "containers": time("2 300 2", 2 * 2 * 300 * 4, "85-101"),
    "fork-cost": memory("2 5", "fork_and_wait_us", "us", 2 * 24 * 60, None),
    "fragmentation": memory("5000 1", "regrown_ratio", "1", 5000 + 1800),
    # Objects of these sizes are neither nodes nor edges.
    "graph": time("2000 1000", 3 * 2000 + 1000, "41-47"),
    # Objects of these sizes are not the arrays of strings. Text that fits into a string object is not allocated.
    "growing-strings": time("2 20 200 5000", 2 * 20 * 4, "31-481"),
    "idle-threads": memory("10 0.01", "kib_per_thread", "KiB", 10 * 10),
    # Objects of these sizes are neither the words of documents nor the program's own allocations.
    "index-build": memory("1 1 1 2 4 1", "rss_to_live", "1", 2 * 2 * 100, "96-600000"),
    "large-buffers": time("2 4 50", 2 * 50),
    "large-objects": time("2 16384 300 1", 2 * 300),
    "larson": rate("0.02 8 1000 100 2 1 2", "ops_per_s", 500),
    "larson-sized": rate("0.02 8 1000 100 2 1 2", "ops_per_s", 500),
    "linux-scalability": time("512 1000 2 2", 4000, None),
    # Objects of these sizes are not the entries.
    "lru": time("2 1 5000", 2 * 2 * 1000, "100-1000000"),
    "malloc-large": time("3 6", 6),
    # Objects of these sizes are not the messages' headers.
    "message-batches": time("2 2 20 50", 2 * 2 * 20 * 50, "100-1000"),
    "mixed-churn": time("2 100 500", 2 * 600),
    "mstress": time("2 5 4", 4 * 5 * 100 * 3),
    "phases": time("4 4 2", 50_000),
    "ramp": memory("4 10 0.05 0.05", "idle_rss_kib", "KiB", 5000 + 2000),
    "rptest": time("2 0 1 2 20 100 10 8 16000", 2 * 20 * 10 + 2 * 10 * 11),
    # The program checks the contents of nodes only.
    "scattered-nodes": time("2000 3000", 2000 + 200, "48-48"),
    "shared-lines": memory("2 8 500 3 2 2", "write_ns", "ns", 2 * 500 * 2),
    "short-threads": time("40 2 100", 40 * 100),
    "t-test1": time("3 2 5000 1000 50", 3 * 2000),
    "threadtest": time("2 10 1000 0 8", 10 * 1000),
    # Each thread allocates 500 objects, and 500 more in each of 9 + 2 turns.
    "turns": memory("3 2", "pair_ns", "ns", 3 * 500 * 12, "16-4096"),
    "vector-growth": time("2 3 1 2", 0),
    "xmalloc-test": rate("-w 2 -t 0.02 -s 0", "objects_per_s", 2 * 4096),
}

KEYS = {"program": str, "args": list, "metrics": list, "wall_s": float, "user_s": float,
        "sys_s": float, "minor_faults": int, "major_faults": int, "peak_rss_kib": int,
        "malloc_library": str}

PROGRAM = BIN = SPY = BROKEN = LIBRARY = ""


def start(arguments, **environment):
    return subprocess.run([os.path.join(BIN, PROGRAM), *arguments],
                          env={**os.environ, "LD_PRELOAD": "", **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


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
        for key, kind in KEYS.items():
            self.assertIsInstance(made[key], (int, float) if kind is float else kind, key)
        self.assertEqual(set(made) - {"series"}, set(KEYS))
        self.assertEqual(made["program"], PROGRAM)
        self.assertEqual(made["args"], self.arguments)
        first = made["metrics"][0]
        self.assertEqual([first["name"], first["unit"], first["better"]],
                         [self.case.metric, self.case.unit, self.case.better])
        names = [metric["name"] for metric in made["metrics"]]
        self.assertEqual(len(set(names)), len(names))
        for metric in made["metrics"]:
            self.assertEqual(set(metric), {"name", "value", "unit", "better"})
            self.assertIn(metric["better"], ("higher", "lower"))
            self.assertTrue(math.isfinite(metric["value"]))
        if self.case.metric != "kib_per_thread":  # may be 0
            self.assertGreater(first["value"], 0)
        if self.case.metric == "time_s":
            self.assertEqual(first["value"], made["wall_s"])
        self.assertGreater(made["wall_s"], 0)
        self.assertGreaterEqual(made["minor_faults"], 0)
        self.assertGreater(made["peak_rss_kib"], 500)

    def test_with_the_c_library(self):
        made, said = report(self.arguments)
        self.check(made)
        self.assertEqual(said, "")
        self.assertIn("libc.so", made["malloc_library"])
        self.assertEqual(made["malloc_library"], os.path.realpath(made["malloc_library"]))

    def test_with_the_library(self):
        if not LIBRARY:
            self.skipTest("SKIP: no library to preload was given")
        made, _ = report(self.arguments, LD_PRELOAD=LIBRARY)
        self.check(made)
        self.assertEqual(made["malloc_library"], os.path.realpath(LIBRARY))

    def test_one_line_on_standard_output(self):
        result = start(self.arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1)
        self.check(json.loads(result.stdout))

    def test_each_call_is_made(self):
        with tempfile.NamedTemporaryFile() as output:
            report(self.arguments, LD_PRELOAD=SPY, SPY_OUTPUT=output.name)
            mallocs, frees, _, sized_deletes = [int(word) for word in output.read().split()]
        self.assertGreaterEqual(mallocs, self.case.mallocs)
        # Objects that the library and the report keep are not freed.
        self.assertGreaterEqual(frees + 200, mallocs)
        if PROGRAM in ("larson", "larson-sized"):
            self.assertEqual(sized_deletes > 200, PROGRAM == "larson-sized", sized_deletes)

    def test_corruption_is_noticed(self):
        if self.case.broken is None:
            self.skipTest("SKIP: the program does not look at what it wrote, or not always")
        result = start(self.arguments, LD_PRELOAD=BROKEN, BROKEN_SIZES=self.case.broken)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn(": corrupt: ", result.stderr)

    def test_bad_arguments(self):
        for arguments in (["x"], ["-1"], self.arguments + ["1"] * 10):
            result = start(arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        result = start(self.arguments, BENCH_REPORT_FD="x")
        self.assertEqual(result.returncode, 2)



class Instrumented(unittest.TestCase):
    """cache-thrash and cache-scratch --instrumented: threads, iterations, size, repetitions."""

    ARGUMENTS = "3 50 8 10".split()

    def lines(self, arguments=ARGUMENTS, flags=(), **environment):
        """The counts of the report, checked against the table."""
        threads, rounds = int(arguments[0]), int(arguments[1])
        made, table = report(["--instrumented", *flags, *arguments], **environment)
        counts = {metric["name"]: metric["value"] for metric in made["metrics"]}
        owners = collections.defaultdict(set)
        marked = set()
        iterations = collections.Counter()
        for row in table.splitlines()[1:]:
            found = re.fullmatch(r"(0x\w+) +(\d+) +(\d+)  (\d+) \((\d+)-(\d+)\)(  shared)?", row)
            line, thread, offset, rounds, first, last = (int(x, 0) for x in found.groups()[:6])
            self.assertEqual(line % 64, 0)
            self.assertLess(offset, 64)
            self.assertLessEqual(first, last)
            owners[line].add(thread)
            iterations[thread] += rounds
            if found[7]:
                marked.add(line)
        for thread in range(threads):
            # An object may lie on two lines.
            self.assertGreaterEqual(iterations[thread], rounds)
        self.assertEqual(counts["lines"], len(owners))
        self.assertEqual(counts["shared_lines"], len(marked))
        for line in marked:
            self.assertGreater(len(owners[line]), 1)
        self.assertEqual(made["metrics"][0]["name"], "shared_lines")
        return counts

    def test_separate_lines(self):
        # In the C library, each thread has a heap of its own while there are only a few threads.
        counts = self.lines()
        if PROGRAM == "cache-scratch":
            # The main thread's objects are adjacent, and free returns them to its heap.
            self.assertGreater(counts["shared_lines"], 0)
            self.assertGreater(counts["iterations_with_sharing"], 0)
        else:
            self.assertEqual(counts["shared_lines"], 0)
            self.assertEqual(counts["iterations_with_sharing"], 0)
            self.assertEqual(counts["most_threads_on_a_line"], 1)

    def test_this_library_keeps_threads_apart(self):
        if not LIBRARY:
            self.skipTest("no library of ours was given")
        for flags in ((), ("--after-disorder",)):
            for size in (1, 8, 16, 24, 40, 48, 72, 100, 200):
                for threads in (2, 8):
                    with self.subTest(flags=flags, size=size, threads=threads):
                        counts = self.lines([str(threads), "40", str(size), "1"], flags,
                                            LD_PRELOAD=LIBRARY)
                        self.assertEqual(counts["most_threads_on_a_line"], 1)
                        self.assertEqual(counts["shared_lines"], 0)

    def test_shared_lines(self):
        # Objects 48 bytes apart, in the order of the requests: one line in three has two of them,
        # and every third such pair belongs to two iterations.
        counts = self.lines(LD_PRELOAD=BROKEN, BROKEN_SIZES="1000-1000")
        for name in ("shared_lines", "iterations_with_sharing"):
            self.assertAlmostEqual(counts[name], 25, delta=1)
        self.assertEqual(counts["most_threads_on_a_line"], 2)


class TTest1(unittest.TestCase):
    def test_operations_per_second(self):
        made, _ = report("4 2 50000 100 100".split())
        values = {metric["name"]: metric["value"] for metric in made["metrics"]}
        self.assertAlmostEqual(values["million_operations"], 0.2)
        self.assertAlmostEqual(values["mops_per_elapsed_s"] * made["wall_s"], 0.2, places=6)
        self.assertAlmostEqual(values["cpu_s"], made["user_s"] + made["sys_s"], places=6)
        self.assertAlmostEqual(values["mops_per_cpu_s"] * values["cpu_s"], 0.2, places=6)


class LargeObjects(unittest.TestCase):
    def test_a_process_holds_what_it_is_told(self):
        for flags in ([], ["--held"]):
            made, _ = report([*flags, *"2 65536 400 8".split()])
            values = {metric["name"]: metric["value"] for metric in made["metrics"]}
            self.assertAlmostEqual(values["allocations_per_s"] * made["wall_s"], 800, places=3)
            # The program holds 128 objects with a mean size of 48 KiB.
            self.assertGreaterEqual(made["peak_rss_kib"], 5 * 1024)


class VectorGrowth(unittest.TestCase):
    def test_the_vectors_are_there(self):
        made, _ = report("1 3 4 1".split())
        self.assertGreaterEqual(made["peak_rss_kib"], 3 * 4 * 1024)


class Ramp(unittest.TestCase):
    def test_course(self):
        made, _ = report("20 10 0.2 0.2".split())
        values = {metric["name"]: metric["value"] for metric in made["metrics"]}
        series = made["series"]
        self.assertEqual([series["name"], series["columns"]], ["rss", ["time_s", "rss_kib"]])
        times = [row[0] for row in series["rows"]]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[-1], 0.4)
        self.assertGreaterEqual(len(times), 8)
        self.assertGreaterEqual(values["full_rss_kib"] - series["rows"][0][1], 20 * 1024)
        self.assertAlmostEqual(values["live_kib"], 2048, delta=300)
        self.assertEqual(series["rows"][-1][1], values["woken_rss_kib"])


EXTRA = {"cache-scratch": Instrumented, "cache-thrash": Instrumented, "t-test1": TTest1,
         "large-objects": LargeObjects, "vector-growth": VectorGrowth, "ramp": Ramp}


def load_tests(loader, *_):
    suite = loader.loadTestsFromTestCase(Workload)
    if PROGRAM in EXTRA:
        suite.addTests(loader.loadTestsFromTestCase(EXTRA[PROGRAM]))
    return suite


if __name__ == "__main__":
    PROGRAM, BIN, SPY, BROKEN, *library = sys.argv[1:]
    LIBRARY = library[0] if library else ""
    unittest.main(argv=sys.argv[:1], verbosity=2)
