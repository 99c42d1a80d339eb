#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts bench_micro and bench_memory as a user would and checks what they do.

usage: programs_test.py BIN_FOLDER SPY_MALLOC_LIBRARY

The spy is the C library's malloc with counters: it shows that every call of a pattern happens, and that the same seed
leads to the same calls. These tests check no times.
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
    """Returns the calls of malloc, the calls of free and the hash of the sizes, from one run with the spy."""
    with tempfile.NamedTemporaryFile() as output:
        result = run(program, *arguments, LD_PRELOAD=SPY, SPY_OUTPUT=output.name)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return [int(word) for word in output.read().split()[:3]]


def child(pattern, seed):
    return "child", "0", str(seed), str(QUICK), str(PATTERNS.index(pattern))


class MicroChild(unittest.TestCase):
    def test_each_call_is_made(self):
        for pattern in PATTERNS:
            mallocs, frees, _ = spied("bench_micro", *child(pattern, 1))
            expected = SLICES * PAIRS_PER_SLICE[pattern] // QUICK
            # The live objects, libstdc++ and the report cause a few more calls.
            for calls in (mallocs, frees):
                self.assertGreaterEqual(calls, expected, pattern)
                self.assertLess(calls, expected + 2000, pattern)

    def test_the_seed_fixes_the_sizes(self):
        _, _, first = spied("bench_micro", *child("random", 1))
        _, _, again = spied("bench_micro", *child("random", 1))
        _, _, other = spied("bench_micro", *child("random", 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)


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
        self.assertIn("not slower: ", result.stdout)
        self.assertIn("seed 1", result.stdout)
        self.assertEqual(raw["command"][-1], path)
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

    def test_the_environments_preload_is_not_inherited(self):
        result = self.compare("--ours", "mine=" + SPY, LD_PRELOAD=SPY)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_crashed_peer_is_shown(self):
        # The spy aborts when this variable is set; nothing else reads it.
        result = self.compare("--ours", "none=/nonexistent.so", "--peer", "bad=" + SPY,
                              SPY_ABORT="1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"bad +crashed \(Aborted\)")
        self.assertIn("missing (expected at /nonexistent.so)", result.stdout)

    def test_check_fails_when_ours_is_missing_or_crashes(self):
        result = self.compare("--check", "--ours", "mine=/nonexistent.so")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("check: mine missing (expected at /nonexistent.so)", result.stdout)
        result = self.compare("--check", "--ours", "mine=" + SPY, SPY_ABORT="1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("check: mine crashed (Aborted)", result.stdout)

    def test_bad_arguments(self):
        for arguments in (["--rounds", "14"], ["--rounds", "x"], ["--only", "none"],
                          ["--ours", "name"], ["extra"], ["--json", "/nonexistent/file"]):
            result = run("bench_micro", "--quick", *arguments)
            self.assertEqual(result.returncode, 2, arguments)


class Memory(unittest.TestCase):
    def test_nothing_else_is_allocated(self):
        self.assertEqual(spied("bench_memory", "once")[:2], [1, 0])
        self.assertEqual(spied("bench_memory", "live", "16", "1000")[:2], [1000, 0])
        self.assertEqual(spied("bench_memory", "bursts", "48", "1000", "3")[:2], [3000, 3000])

    def test_live_counts_the_bytes_of_the_objects(self):
        # The C library's objects of 1000 bytes take 1008 bytes each.
        result = run("bench_memory", "live", "1000", "100000", LD_PRELOAD="")
        name, bytes_per_object = result.stdout.split()
        self.assertEqual(name, "bytes_per_object")
        self.assertAlmostEqual(float(bytes_per_object), 1008, delta=1)

    def test_bursts_tell_full_from_freed(self):
        # The C library merges adjacent free objects of this size and releases the whole heap.
        result = run("bench_memory", "bursts", "1000", "100000", "3", LD_PRELOAD="")
        rounds = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual([words[1] for words in rounds], ["1", "2", "3"])
        for words in rounds:
            self.assertAlmostEqual(int(words[3]) - int(words[5]), 1008 * 100_000 / 1024, delta=500)

    def test_bad_arguments(self):
        for arguments in ([], ["once", "1"], ["live", "0", "1"], ["live", "8", "x"],
                          ["bursts", "8", "1"]):
            self.assertEqual(run("bench_memory", *arguments).returncode, 1, arguments)


if __name__ == "__main__":
    BIN, SPY = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
