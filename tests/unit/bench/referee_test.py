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


class SignedRanks(unittest.TestCase):
    def test_critical_values_of_the_tables(self):
        # These are the two-sided critical values for 5 % in any table of the signed-rank test.
        for pairs, critical in ((6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52),
                                (25, 89)):
            self.assertEqual(verdict._outside(pairs, 0.05), critical, pairs)

    def test_an_interval_worked_out_by_hand(self):
        # With six pairs the 5 % interval leaves none out: it goes from the smallest to the largest ratio.
        ratios = [math.exp(x) for x in (0.00, 0.01, 0.02, 0.03, 0.04, 0.10)]
        ratio = verdict.signed_rank_ratio(ratios, 0.05)
        self.assertAlmostEqual(math.log(ratio.interval.low), 0.0)
        self.assertAlmostEqual(math.log(ratio.interval.high), 0.10)
        # The median is the 11th of the 21 averages of two figures, a figure with itself included.
        self.assertAlmostEqual(math.log(ratio.median), 0.025)
        # At 2 * 2 / 64 the interval leaves out one average at each end: 0.00 with itself and 0.10 with itself.
        ratio = verdict.signed_rank_ratio(ratios, 4 / 64)
        self.assertAlmostEqual(math.log(ratio.interval.low), 0.005)
        self.assertAlmostEqual(math.log(ratio.interval.high), 0.07)


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

    def test_instructions(self):
        def word(base, new):
            return verdict.of_row(instructions=verdict.span_ratio(base, new))[0]

        self.assertEqual(word([1000, 1001], [1000, 1001]), verdict.SAME)
        # The new revision needs one instruction more in fifty.
        self.assertEqual(word([50_000, 50_010], [51_000, 51_010]), verdict.WORSE)
        self.assertEqual(word([51_000, 51_010], [50_000, 50_010]), verdict.BETTER)
        # The counts prove nothing when they differ more within one side than between the sides.
        self.assertNotIn(word([1000, 1020], [1010, 1030]), (verdict.BETTER, verdict.WORSE))

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


def probe(ping_pong_ns=200, touch_4k_ns=600, touch_2m_us=100, others=0.02):
    return machine_state.Probe(ping_pong_ns, touch_4k_ns, touch_2m_us, others)


class MachineState(unittest.TestCase):
    def test_rounds_in_which_the_state_changed_are_odd(self):
        self.assertEqual(machine_state.odd_rounds([probe()] * 6), [[]] * 5)
        # The processors moved apart in round 1 and together again in round 3. The state did not change in round 2.
        apart = probe(ping_pong_ns=420)
        self.assertEqual(machine_state.odd_rounds([probe()] * 2 + [apart] * 2 + [probe()] * 2),
                         [[], ["ping_pong_ns"], [], ["ping_pong_ns"], []])


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


class FakeProber:
    def __init__(self, probes=()):
        self.probes = list(probes)

    def probe(self):
        return self.probes.pop(0) if self.probes else probe()


class Passes(unittest.TestCase):
    def judge(self, entries, probes=()):
        judge = referee.Referee(
            entries, FakeSides(), (), programs.Context(pathlib.Path(), pathlib.Path()), 1,
            time.monotonic() + 3600, progress.Progress(io.StringIO()), FakeProber(probes))
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

    def outcome(self, figure=None, counted=None, **options):
        entry = referee.Entry("a", "minimal", figure and FakeRow("a", figure), counted)
        (outcome,) = self.judge([entry], **options).outcomes()
        return outcome

    def test_verdicts(self):
        for changed, word in (({}, verdict.SAME), ({"effect": 1.05}, verdict.WORSE),
                              ({"effect": 0.9}, verdict.BETTER), ({"peak": 1.1}, verdict.WORSE)):
            self.assertEqual(self.outcome(self.noisy(0.01, **changed)).word, word, changed)

    def test_the_warm_up_counts_for_nothing(self):
        outcome = self.outcome(lambda side, number: (9 if not number and side == NEW else 1, 1000))
        self.assertEqual((outcome.cost.median, outcome.cost.interval), (1, (1, 1)))

    def test_passes_in_which_the_state_changed_count_for_nothing(self):
        # The probes 3 and 4 find another state, so the state changes in the passes 2 and 4.
        def figure(side, number):
            changing = number and (number - 1) // referee.MOST_PAIRS_OF_A_PASS in (2, 4)
            return (3 if changing and side == NEW else 1), 1000

        probes = [probe()] * 3 + [probe(ping_pong_ns=500)] * 2 + [probe()] * 20
        self.assertEqual(self.outcome(figure, probes=probes).cost.interval, (1, 1))

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


class Sides(unittest.TestCase):
    def test_both_sides_are_alike_but_for_what_is_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            libraries = {side: {"minimal": pathlib.Path(SPY)} for side in (BASE, NEW)}
            sides = referee.Sides(libraries, {"A": "1", "LONGER": "x"}, pathlib.Path(folder))
            with sides.copies("minimal") as made:
                base, new = made[BASE], made[NEW]
                self.assertEqual(len(base.preload), len(new.preload))
                self.assertEqual(new.environment, {"A": "1", "LONGER": "x"})
                self.assertEqual(base.environment, {"_": "1", "______": "x"})


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
