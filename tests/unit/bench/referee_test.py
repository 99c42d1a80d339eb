# SPDX-License-Identifier: BSD-3-Clause
"""Tests the comparison of two revisions: its statistic, its rounds on made-up rows, and whole runs with a program that
reports given figures.

usage: referee_test.py PROJECT_FOLDER BIN_FOLDER STANDIN SPY_MALLOC_LIBRARY

No time is measured here. All random numbers come from fixed seeds.
"""
import collections
import contextlib
import io
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest

PROJECT, BIN, STANDIN, SPY = map(os.path.abspath, sys.argv[1:5])
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import (machine_state, peers, process, programs, progress, referee,  # noqa: E402
                    verdict)
from runner.statistics import Interval, Ratio  # noqa: E402

BASE, NEW = referee.BASE, referee.NEW


def wild(generator):
    """Noise whose variance is infinite: now and then a figure is far off."""
    return math.exp(0.02 * generator.gauss(0, 1) / max(generator.random(), 1e-3))


class Words(unittest.TestCase):
    def test_a_library_beside_itself_is_neither_better_nor_worse(self):
        generator = random.Random(20)
        alarm = verdict.alarm_of_each(100)
        for noise in (lambda: math.exp(generator.gauss(0, 0.05)), lambda: wild(generator)):
            for _ in range(1200):
                ratio = verdict.signed_rank_ratio([noise() / noise() for _ in range(20)], alarm)
                self.assertIn(verdict.word_for(ratio, verdict.COST_MARGIN),
                              (verdict.SAME, verdict.UNKNOWN))

    def test_words_by_interval(self):
        for low, high, word in ((1.011, 1.5, verdict.WORSE), (1.009, 1.04, verdict.SAME),
                                (1.009, 1.06, verdict.UNKNOWN), (0.96, 1.04, verdict.SAME),
                                (0.5, 0.98, verdict.BETTER), (0.94, 1.0, verdict.UNKNOWN)):
            ratio = Ratio(1, Interval(low, high), 20)
            self.assertEqual(verdict.word_for(ratio, 0.01), word, (low, high))

    def test_what_decides_a_row(self):
        def ratio(low, high):
            return Ratio((low + high) / 2, Interval(low, high), 20)

        better, worse, same, unknown = (ratio(*ends) for ends in (
            (0.90, 0.92), (1.08, 1.10), (0.99, 1.01), (0.8, 1.2)))
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


class FakeRow:
    """`figure` returns cost and peak for a side and the number of its run."""

    group, nominal_s = "programs", 0.1

    def __init__(self, name, figure):
        self.name, self.figure, self.runs = name, figure, collections.Counter()

    def missing(self, context):
        return ""

    def measure(self, allocator, context, prove):
        made = self.figure(allocator.name, self.runs[allocator.name])
        self.runs[allocator.name] += 1
        if made is None:
            raise process.ProcessFailed("crashed (SIGSEGV)")
        cost, peak = made
        return {"metrics": [{"name": "time_s", "value": cost, "unit": "s", "better": "lower"}],
                "wall_s": cost, "user_s": cost, "sys_s": 0, "minor_faults": 10, "major_faults": 0,
                "peak_rss_kib": peak}


class FakeCounted:
    def __init__(self, base, new):
        self.counts = {BASE: base, NEW: new}

    def missing(self, context):
        return ""

    def count(self, allocator, context, processor):
        if self.counts[allocator.name] is None:
            raise process.ProcessFailed("crashed (SIGSEGV)")
        return self.counts[allocator.name]


class FakeSides:
    @contextlib.contextmanager
    def copies(self, kind):
        yield {side: peers.Allocator(side, "/l", kind) for side in (BASE, NEW)}


class Passes(unittest.TestCase):
    def judge(self, entries):
        judge = referee.Referee(
            entries, FakeSides(), (), programs.Context(pathlib.Path(), pathlib.Path()), 1,
            time.monotonic() + 3600, progress.Progress(io.StringIO()),
            types.SimpleNamespace(probe=lambda: machine_state.Probe(200, 600, 100, 0.02)))
        judge.run()
        return judge

    @staticmethod
    def noisy(sigma, effect=1.0, peak=1.0, seed=3):
        generator = random.Random(seed)

        def figure(side, number):
            new = side == NEW
            return (generator.lognormvariate(0, sigma) * (effect if new else 1),
                    100_000 * (peak if new else 1))

        return figure

    def outcome(self, figure=None, counted=None):
        entry = referee.Entry("a", "minimal", figure and FakeRow("a", figure), counted)
        (outcome,) = self.judge([entry]).outcomes()
        return outcome

    def test_verdicts(self):
        for changed, word in (({}, verdict.SAME), ({"effect": 1.05}, verdict.WORSE),
                              ({"effect": 0.9}, verdict.BETTER), ({"peak": 1.1}, verdict.WORSE)):
            self.assertEqual(self.outcome(self.noisy(0.01, **changed)).word, word, changed)

    def test_a_side_that_fails(self):
        for failing, word in ((NEW, verdict.WORSE), (BASE, verdict.BETTER)):
            outcome = self.outcome(
                lambda side, number, failing=failing: None if side == failing and number == 3
                else (1, 1))
            self.assertEqual((outcome.word, outcome.failures),
                             (word, {failing: "crashed (SIGSEGV)"}))

    def test_instructions_decide_where_time_cannot(self):
        for figure, new, word in ((self.noisy(0.5), 51_000, verdict.WORSE),
                                  (None, 50_001, verdict.SAME), (None, None, verdict.WORSE)):
            self.assertEqual(self.outcome(figure, FakeCounted(50_000, new)).word, word)


class WholeRun(unittest.TestCase):
    """Runs scripts/compare.py as a user starts it; the stand-in takes the place of the program 'graph'."""

    def test_a_setting_that_makes_it_slower_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            binaries, libraries = folder / "build" / "bin", folder / "build" / "lib"
            binaries.mkdir(parents=True)
            libraries.mkdir()
            shutil.copy(STANDIN, binaries / "graph")
            for name in ("bench_probe_machine", "bench_launch", "bench_memory"):
                shutil.copy(os.path.join(BIN, name), binaries / name)
            for name in ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"):
                shutil.copy(SPY, libraries / name)
            for setting, status, word in (("STANDIN_PRELOADED=1", 0, "same"), ("STANDIN_PRELOADED=2", 1, "worse")):
                result = subprocess.run(
                    [sys.executable, os.path.join(PROJECT, "scripts", "compare.py"), "--bin", binaries, "--rows",
                     "^graph", "--json", folder / "out.json", "--with", setting],
                    env={**os.environ, "STANDIN_COUNTER": tempfile.mkdtemp(dir=folder), "STANDIN_TIMES": "2",
                         "STANDIN_PRELOADED": "1"},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, status, result.stderr)
                data = json.loads((folder / "out.json").read_text())
                self.assertEqual([each["word"] for each in data["verdicts"]], [word])
                self.assertGreater(data["probes"][0]["touch_4k_ns"], 0)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        unittest.main(argv=sys.argv[:1], verbosity=2)
