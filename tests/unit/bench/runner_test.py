# SPDX-License-Identifier: BSD-3-Clause
"""Checks the benchmark runner: its arithmetic, and whole runs on two allocators, or on two revisions, with a program
that reports given figures.

usage: runner_test.py PROJECT_FOLDER BIN_FOLDER STANDIN SPY_MALLOC_LIBRARY

The two allocators are the C library's malloc and the spy, which is the same malloc with counters. No time is measured
here. All random numbers come from fixed seeds.
"""
import contextlib
import glob
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT, BIN, STANDIN, SPY = map(os.path.abspath, sys.argv[1:5])
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import apps, peers, process, programs, statistics, verdict  # noqa: E402
from runner.statistics import Interval, Ratio  # noqa: E402

LIBC = peers.c_library_path()
PEERS = [name for name, _, _ in peers.PACKAGED] + ["mimalloc3", "snmalloc", "rpmalloc", "google", "google-percpu"]


class Arithmetic(unittest.TestCase):

    def test_a_paired_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(self):
        # The machine was four times as slow in the second round, for both allocators.
        ratio = statistics.paired_ratio([1.1, 4.4, 1.2], [1.0, 4.0, 1.0], seed=1)
        self.assertAlmostEqual(ratio.median, 1.1)
        with self.assertRaises(ValueError):
            statistics.paired_ratio([1, 2], [1], seed=1)

    def test_the_bootstrap_interval(self):
        # A resample of [1, 2, 3] has the median 1 with probability 7/27, 3 with the same: both are
        # far above the 2.5 % that the interval leaves out on each side.
        self.assertEqual(statistics.bootstrap_median([1, 2, 3], seed=1), (1, 3))
        # The median of a resample of [1, 2, ..., 9] is 1 with probability P(B(9, 1/9) >= 5) = 0.13
        # %, and 2 or less with P(B(9, 2/9) >= 5) = 3.1 %.
        for seed in (1, 2):
            self.assertEqual(statistics.bootstrap_median(range(1, 10), seed), (2, 8))


def wild(generator):
    """Noise whose variance is infinite: now and then a figure is far off."""
    return math.exp(0.02 * generator.gauss(0, 1) / max(generator.random(), 1e-3))


class Verdicts(unittest.TestCase):
    def test_a_library_beside_itself_is_neither_better_nor_worse(self):
        generator = random.Random(20)
        alarm = verdict.alarm_of_each(100)
        for noise in (lambda: math.exp(generator.gauss(0, 0.05)), lambda: wild(generator)):
            for _ in range(1200):
                ratio = verdict.signed_rank_ratio([noise() / noise() for _ in range(20)], alarm)
                self.assertIn(verdict.word_for(ratio, verdict.COST_MARGIN), (verdict.SAME, verdict.UNKNOWN))

    def test_what_decides_a_row(self):
        def ratio(low, high):
            return Ratio((low + high) / 2, Interval(low, high), 20)

        better, worse, same, unknown = (ratio(*ends) for ends in ((0.90, 0.92), (1.08, 1.10), (0.99, 1.01), (0.8, 1.2)))
        for cost, peak, counted, word, measures in (
                (same, same, None, verdict.SAME, ["cost", "peak"]),
                (worse, same, better, verdict.WORSE, ["cost"]),
                (same, same, worse, verdict.WORSE, ["instructions"]),
                (unknown, same, better, verdict.BETTER, ["instructions"]),
                (unknown, same, same, verdict.UNKNOWN, ["cost"]),
                (better, worse, None, verdict.WORSE, ["peak"]),
                (same, better, None, verdict.BETTER, ["peak"]),
                (None, None, worse, verdict.WORSE, ["instructions"]),
                (None, None, None, verdict.UNKNOWN, [])):
            found, reasons = verdict.of_row(cost, peak, counted)
            self.assertEqual((found, [reason.measure for reason in reasons]), (word, measures))


class WholeRun(unittest.TestCase):
    """Runs scripts/bench.py as a user starts it; the stand-in takes the place of the program 'graph'."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "build" / "bin"
        self.bin.mkdir(parents=True)
        shutil.copy(STANDIN, self.bin / "graph")
        self.output = self.folder / "out"

    def bench(self, *arguments, ours=SPY, **variables):
        counter = tempfile.mkdtemp(dir=self.folder)
        environment = {**os.environ, "STANDIN_COUNTER": counter, "STANDIN_TIMES": "2",
                       "STANDIN_PRELOADED": "1", **variables}
        without = [word for name in PEERS for word in ("--without", name)]
        return subprocess.run(
            [sys.executable, os.path.join(PROJECT, "scripts", "bench.py"), "--no-setup",
             "--no-build", "--no-peer-builds", "--bin", self.bin, "--output", self.output,
             "--ours", f"mine={ours}", "--only", "graph", *without, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def data(self):
        (path,) = self.output.glob("*.json")
        return json.loads(path.read_text())

    def test_two_allocators(self):
        # The first two runs of each allocator are the warm-up and the pilot.
        result = self.bench("--rounds", "3", "--max-rounds", "3",
                            STANDIN_PRELOADED="9 9 1 2 3", STANDIN_TIMES="9 9 2 2 2")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = self.data()
        entries = data["summary"]["rows"]["graph"]
        self.assertEqual(entries["mine"]["median"], 2)
        self.assertEqual(entries["mine"]["to_reference"],
                         {"median": 1, "interval": {"low": 0.5, "high": 1.5}, "rounds": 3})
        self.assertEqual(entries["mine"]["peak_to_reference"]["median"], 2)
        self.assertEqual(len(data["records"]), 2 * (1 + 1 + 3))
        for made in data["records"]:
            self.assertEqual(made["malloc_library"], os.path.basename(SPY) if made["allocator"] == "mine" else LIBC)
            self.assertEqual((made["user_s"], made["sys_s"], made["minor_faults"]), (0.5, 0.25, 7))
        self.assertTrue(data["rows"][0]["noise"])
        # Results say what was measured, not where this repository or a named library lies.
        for path in self.output.glob("*.[jm]*"):
            self.assertNotIn(str(peers.ROOT), path.read_text())

    def test_a_crash_of_a_peer_is_shown_and_one_of_ours_fails_the_run(self):
        result = self.bench("--rounds", "2", "--peer", f"bad={SPY}", ours=LIBC, SPY_ABORT="1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bad in graph: crashed (SIGABRT)", result.stdout)
        result = self.bench("--rounds", "2", STANDIN_CRASH_IN="2")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("mine in graph: crashed (SIGABRT)", result.stdout)

    def test_another_library_than_intended_is_an_error(self):
        without_malloc = (glob.glob("/lib/*/libm.so.6") + glob.glob("/lib*/libm.so.6"))[0]
        result = self.bench(ours=without_malloc)
        self.assertEqual(result.returncode, 2)
        self.assertIn("was to be measured, but malloc is served by", result.stderr)

    def test_a_program_that_cannot_tell_is_proved_by_the_linker(self):
        context = programs.Context(pathlib.Path(BIN), self.folder, quick=True)
        row = apps.CommandRow("sh", "sh", ("-c", "exit 0"), ("-c", "exit 0"))
        spy = peers.Allocator("spy", SPY, "", preload=SPY)
        measured = row.measure(spy, context, prove=True)
        self.assertGreater(measured["peak_rss_kib"], 100)
        self.assertGreater(measured["minor_faults"], 10)
        pretended = peers.Allocator("pretended", SPY, "", preload="")
        with self.assertRaises(process.WrongLibrary):
            row.measure(pretended, context, prove=True)

    def test_of_two_revisions_a_setting_that_makes_it_slower_is_found(self):
        libraries = self.folder / "build" / "lib"
        libraries.mkdir()
        for name in ("bench_probe_machine", "bench_launch", "bench_memory"):
            shutil.copy(os.path.join(BIN, name), self.bin / name)
        for name in ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"):
            shutil.copy(SPY, libraries / name)
        file = self.folder / "out.json"
        for setting, status, word in (("STANDIN_PRELOADED=1", 0, "same"), ("STANDIN_PRELOADED=2", 1, "worse")):
            result = subprocess.run(
                [sys.executable, os.path.join(PROJECT, "scripts", "compare.py"), "--bin", self.bin, "--rows",
                 "^graph", "--json", file, "--with", setting],
                env={**os.environ, "STANDIN_COUNTER": tempfile.mkdtemp(dir=self.folder), "STANDIN_TIMES": "2",
                     "STANDIN_PRELOADED": "1"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, status, result.stderr)
            data = json.loads(file.read_text())
            self.assertEqual([each["word"] for each in data["verdicts"]], [word])
            self.assertGreater(data["probes"][0]["touch_4k_ns"], 0)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        unittest.main(argv=sys.argv[:1], verbosity=2)
