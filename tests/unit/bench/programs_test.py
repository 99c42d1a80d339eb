#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts bench_micro and bench_memory as a user would and checks what they do.

usage: programs_test.py BIN_FOLDER SPY_MALLOC_LIBRARY

The spy is the C library's malloc with counters.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN = SPY = ""
PATTERNS = ("pair", "burst", "random")
PAIRS_PER_SLICE = {"pair": 3_000_000, "burst": 2_000_000, "random": 1_600_000}
QUICK = 20
# A run has one slice to warm up and nine that are timed.
SLICES = 10


def run(program, *arguments, **environment):
    return subprocess.run(
        [os.path.join(BIN, program), *arguments], env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def spied(program, *arguments):
    """Returns the calls of malloc and of free in one run with the spy."""
    with tempfile.NamedTemporaryFile() as output:
        result = run(program, *arguments, LD_PRELOAD=SPY, SPY_OUTPUT=output.name)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return [int(word) for word in output.read().split()[:2]]


class MicroChild(unittest.TestCase):
    def test_each_call_is_made(self):
        for pattern in PATTERNS:
            mallocs, frees = spied("bench_micro", "child", "0", "1", str(QUICK),
                                   str(PATTERNS.index(pattern)))
            expected = SLICES * PAIRS_PER_SLICE[pattern] // QUICK
            # The live objects, libstdc++ and the report cause a few more calls.
            for calls in (mallocs, frees):
                self.assertGreaterEqual(calls, expected, pattern)
                self.assertLess(calls, expected + 2000, pattern)


class Micro(unittest.TestCase):
    def compare(self, *arguments, **environment):
        return run("bench_micro", "--quick", "--rounds", "15", "--only", "pair", *arguments,
                   **environment)

    def test_complete_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "raw.json")
            result = self.compare("--ours", "mine=" + SPY, "--json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, encoding="utf-8") as file:
                raw = json.load(file)
        self.assertEqual([r["pilot"] for r in raw["rounds"]], [True] * 3 + [False] * 15)
        measured = {a["name"] for a in raw["allocators"] if not a["failure"]}
        self.assertLessEqual({"mine", "glibc"}, measured)
        orders = set()
        for number in raw["rounds"]:
            order = tuple(sample["allocator"] for sample in number["in_order"])
            self.assertEqual(sorted(order), sorted(measured))
            orders.add(order)
            for sample in number["in_order"]:
                self.assertEqual(len(sample["pair"]), SLICES - 1)
                self.assertTrue(all(time > 0 for time in sample["pair"]))
        self.assertGreater(len(orders), 1, "the order is shuffled")

    def test_a_library_that_does_not_serve_malloc_is_an_error(self):
        # This library has no malloc, so the child runs with the C library's.
        without_malloc = glob.glob("/lib/*/libm.so.6") + glob.glob("/lib*/libm.so.6")
        result = self.compare("--ours", "mine=" + without_malloc[0])
        self.assertEqual(result.returncode, 2)
        self.assertIn("was to be measured, but malloc is served by", result.stderr)

    def test_check_fails_when_ours_is_missing_or_crashes(self):
        result = self.compare("--check", "--ours", "mine=/nonexistent.so")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("check: mine missing (expected at /nonexistent.so)", result.stdout)
        result = self.compare("--check", "--ours", "mine=" + SPY, SPY_ABORT="1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("check: mine crashed (Aborted)", result.stdout)


class Memory(unittest.TestCase):
    def test_nothing_else_is_allocated(self):
        self.assertEqual(spied("bench_memory", "once"), [1, 0])
        self.assertEqual(spied("bench_memory", "live", "16", "1000"), [1000, 0])
        self.assertEqual(spied("bench_memory", "bursts", "48", "1000", "3"), [3000, 3000])


if __name__ == "__main__":
    BIN, SPY = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
