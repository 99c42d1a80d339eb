# SPDX-License-Identifier: BSD-3-Clause
"""Tests the comparison of two revisions: compares its statistic with figures worked out by hand and with simulated
noise, tests its rounds on rows that are drawn from lists, and makes whole runs with a program that reports given
figures.

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
from runner import (compare, instructions, machine_state, peers, process, programs,  # noqa: E402
                    progress, referee, verdict)
from runner.statistics import Interval, Ratio  # noqa: E402

BASE, NEW = referee.BASE, referee.NEW


def wild(generator):
    """Noise whose variance is infinite: now and then a figure is far off."""
    return math.exp(0.02 * generator.gauss(0, 1) / max(generator.random(), 1e-3))


class SignedRanks(unittest.TestCase):
    def test_sums_of_ranks(self):
        # Two subsets of {1, 2, 3} have the sum 3; each other sum from 0 to 6 has one subset.
        self.assertEqual(verdict._signed_rank_counts(3), [1, 1, 1, 2, 1, 1, 1])
        self.assertEqual(sum(verdict._signed_rank_counts(40)), 2 ** 40)

    def test_critical_values_of_the_tables(self):
        # These are the two-sided critical values for 5 % in any table of the signed-rank test.
        for pairs, critical in ((6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52),
                                (25, 89)):
            self.assertEqual(verdict._outside(pairs, 0.05), critical, pairs)

    def test_too_few_pairs_tell_nothing(self):
        self.assertEqual(verdict.fewest_pairs(0.05), 6)
        self.assertEqual(verdict.fewest_pairs(2 / 2 ** 14), 14)
        self.assertIsNone(verdict.signed_rank_ratio([2.0] * 5, 0.05).interval)
        self.assertEqual(verdict.word_for(verdict.signed_rank_ratio([2.0] * 5, 0.05), 0.01),
                         verdict.UNKNOWN)

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

    def test_the_interval_misses_as_often_as_it_may(self):
        # This is true with wild noise as well: the interval assumes no distribution.
        for noise in (lambda generator: math.exp(generator.gauss(0, 0.05)), wild):
            generator = random.Random(7)
            missed = 0
            for _ in range(1500):
                ratios = [noise(generator) / noise(generator) for _ in range(12)]
                interval = verdict.signed_rank_ratio(ratios, 0.05).interval
                missed += not interval.low <= 1 <= interval.high
            # 0.049 of 1500 are 73; four standard deviations are 33.
            self.assertTrue(40 <= missed <= 106, missed)


class Words(unittest.TestCase):
    def words_of_runs(self, runs, rows, pairs, noise, effect=1.0):
        """Returns how often each word is given, and in how many runs a difference was seen."""
        generator = random.Random(20)
        alarm = verdict.alarm_of_each(2 * rows)
        words, alarmed = collections.Counter(), 0
        for _ in range(runs):
            of_run = []
            for _ in range(2 * rows):
                ratios = [effect * noise(generator) / noise(generator) for _ in range(pairs)]
                of_run.append(verdict.word_for(verdict.signed_rank_ratio(ratios, alarm),
                                               verdict.COST_MARGIN))
            words.update(of_run)
            alarmed += any(word in (verdict.BETTER, verdict.WORSE) for word in of_run)
        return words, alarmed

    def test_a_library_beside_itself_is_neither_better_nor_worse(self):
        for noise in (lambda generator: math.exp(generator.gauss(0, 0.05)), wild):
            words, alarmed = self.words_of_runs(runs=12, rows=50, pairs=20, noise=noise)
            self.assertEqual(alarmed, 0, words)

    def test_a_quiet_machine_tells_that_they_are_the_same(self):
        words, _ = self.words_of_runs(2, 50, 20, lambda generator: math.exp(
            generator.gauss(0, 0.01)))
        self.assertEqual(words[verdict.SAME], 200, words)

    def test_a_difference_of_five_percent_is_found_each_time(self):
        def noise(generator):
            return math.exp(generator.gauss(0, 0.015))

        self.assertEqual(self.words_of_runs(2, 50, 24, noise, 1.05)[0], {verdict.WORSE: 200})
        self.assertEqual(self.words_of_runs(2, 50, 24, noise, 1 / 1.05)[0], {verdict.BETTER: 200})

    def test_great_noise_tells_nothing(self):
        words, _ = self.words_of_runs(2, 50, 20, lambda generator: math.exp(
            generator.gauss(0, 0.25)), 1.05)
        self.assertEqual(words, {verdict.UNKNOWN: 200})

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
                (better, same, worse, verdict.BETTER, ["cost"]),
                (same, same, worse, verdict.WORSE, ["instructions"]),
                (unknown, same, better, verdict.BETTER, ["instructions"]),
                (unknown, same, same, verdict.UNKNOWN, ["cost"]),
                (better, worse, None, verdict.WORSE, ["peak"]),
                (worse, better, None, verdict.WORSE, ["cost"]),
                (same, better, None, verdict.BETTER, ["peak"]),
                (same, unknown, None, verdict.UNKNOWN, ["peak"]),
                (None, None, worse, verdict.WORSE, ["instructions"]),
                (None, None, None, verdict.UNKNOWN, [])):
            found, reasons = verdict.of_row(cost, peak, counted)
            self.assertEqual((found, [reason.measure for reason in reasons]), (word, measures))

    def test_failures(self):
        self.assertEqual(verdict.of_failures(True, False), verdict.WORSE)
        self.assertEqual(verdict.of_failures(False, True), verdict.BETTER)
        self.assertEqual(verdict.of_failures(True, True), verdict.UNKNOWN)


def probe(ping_pong_ns=200, touch_4k_ns=600, touch_2m_us=100, others=0.02):
    return machine_state.Probe(ping_pong_ns, touch_4k_ns, touch_2m_us, others)


class MachineState(unittest.TestCase):
    def test_rounds_in_which_the_state_changed_are_odd(self):
        self.assertEqual(machine_state.odd_rounds([probe()] * 6), [[]] * 5)
        # The processors moved apart in round 1 and together again in round 3. The state did not change in round 2.
        apart = probe(ping_pong_ns=420)
        self.assertEqual(machine_state.odd_rounds([probe()] * 2 + [apart] * 2 + [probe()] * 2),
                         [[], ["ping_pong_ns"], [], ["ping_pong_ns"], []])

    def test_each_figure_counts(self):
        for field, value in (("touch_4k_ns", 6000), ("touch_2m_us", 2700), ("ping_pong_ns", 60)):
            self.assertEqual(machine_state.odd_rounds([probe(), probe(), probe(**{field: value})]),
                             [[], [field]], field)

    def test_how_busy_others_were_is_said_of_the_round_before_the_probe(self):
        probes = [probe(), probe(), probe(others=0.5), probe(), probe()]
        self.assertEqual(machine_state.odd_rounds(probes), [[], ["others"], [], []])

    def test_what_is_not_known_or_always_so_is_not_odd(self):
        self.assertEqual(machine_state.odd_rounds([probe(ping_pong_ns=None, others=0.5)] * 4),
                         [[]] * 3)
        self.assertEqual(machine_state.odd_rounds([probe(others=None)] * 2), [[]])
        self.assertEqual(machine_state.seen([probe(None, 1, 2, None), probe(None, 3, 4, None)]),
                         {"touch_4k_ns": (1, 2, 3), "touch_2m_us": (2, 3, 4)})

    def test_lists_of_processors(self):
        self.assertEqual(machine_state.processors_of("0-2,5\n"), {0, 1, 2, 5})
        self.assertEqual(machine_state.processors_of("3"), {3})

    def test_the_machine_is_probed(self):
        prober = machine_state.Prober(pathlib.Path(BIN))
        found = prober.probe()
        self.assertGreater(found.touch_4k_ns, 0)
        self.assertGreater(found.touch_2m_us, 0)
        self.assertEqual(found.ping_pong_ns is None, len(os.sched_getaffinity(0)) == 1)
        self.assertTrue(0 <= found.others <= 1.1, found)
        with self.assertRaisesRegex(process.BenchError, "the machine cannot be probed"):
            machine_state.Prober(pathlib.Path("/nonexistent")).probe()


class FakeRow:
    group, nominal_s = "programs", 0.1

    def __init__(self, name, figure):
        """`figure` returns cost and peak for a side and the number of its run."""
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
        self.counts, self.runs = {BASE: base, NEW: new}, 0

    def missing(self, context):
        return ""

    def count(self, allocator, context, processor):
        self.runs += 1
        if self.counts[allocator.name] is None:
            raise process.ProcessFailed("crashed (SIGSEGV)")
        return self.counts[allocator.name]


class FakeSides:
    def __init__(self):
        self.number = 0

    @contextlib.contextmanager
    def copies(self, kind):
        self.number += 1
        yield {side: peers.Allocator(side, f"/{self.number}", kind) for side in (BASE, NEW)}


class FakeProber:
    def __init__(self, probes=()):
        self.probes = list(probes)

    def probe(self):
        return self.probes.pop(0) if self.probes else probe()


class Passes(unittest.TestCase):
    def judge(self, entries, probes=(), seconds=60.0, others=()):
        judge = referee.Referee(
            entries, FakeSides(), others, programs.Context(pathlib.Path(), pathlib.Path()), 1,
            time.monotonic() + seconds, progress.Progress(io.StringIO()), FakeProber(probes))
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

    def word(self, entry, **options):
        (outcome,) = self.judge([entry], **options).outcomes()
        return outcome

    def entry(self, figure=None, counted=None, name="a"):
        return referee.Entry(name, "minimal", figure and FakeRow(name, figure), counted)

    def test_verdicts(self):
        self.assertEqual(self.word(self.entry(self.noisy(0.01))).word, verdict.SAME)
        self.assertEqual(self.word(self.entry(self.noisy(0.01, effect=1.05))).word, verdict.WORSE)
        self.assertEqual(self.word(self.entry(self.noisy(0.01, effect=0.9))).word, verdict.BETTER)
        self.assertEqual(self.word(self.entry(self.noisy(0.01, peak=1.1))).word, verdict.WORSE)

    def test_a_row_is_measured_until_its_interval_is_narrow(self):
        quiet, loud = self.entry(self.noisy(0.001), name="q"), self.entry(self.noisy(0.5), name="l")
        judge = self.judge([quiet, loud])
        # The warm-up is not counted, so there is one run more than the fewest pairs that allow a verdict.
        fewest = verdict.fewest_pairs(judge.alarm)
        self.assertLessEqual(quiet.timed.runs[NEW], fewest + 1 + referee.MOST_PAIRS_OF_A_PASS)
        self.assertGreaterEqual(loud.timed.runs[NEW], referee.MOST_PAIRS)
        self.assertEqual([outcome.word for outcome in judge.outcomes()],
                         [verdict.SAME, verdict.UNKNOWN])

    def test_the_warm_up_counts_for_nothing(self):
        judge = self.judge([self.entry(lambda side, number: (9 if not number and side == NEW else 1,
                                                             1000))])
        (outcome,) = judge.outcomes()
        self.assertEqual((outcome.cost.median, outcome.cost.interval), (1, (1, 1)))

    def test_passes_in_which_the_state_changed_count_for_nothing(self):
        # The probes 3 and 4 find another state, so the state changes in the passes 2 and 4.
        per_pass = referee.MOST_PAIRS_OF_A_PASS

        def figure(side, number):
            changing = number and (number - 1) // per_pass in (2, 4)
            return (3 if changing and side == NEW else 1), 1000

        probes = [probe()] * 3 + [probe(ping_pong_ns=500)] * 2 + [probe()] * 20
        judge = self.judge([self.entry(figure)], probes)
        (outcome,) = judge.outcomes()
        self.assertEqual(outcome.cost.interval, (1, 1))
        passes = len(judge.odd_passes())
        self.assertEqual(outcome.cost.rounds, per_pass * (passes - 1))
        self.assertEqual([number for number, odd in enumerate(judge.odd_passes()) if odd], [2])
        self.assertEqual({record["pass"] for record in judge.records} - {-1}, set(range(passes)))

    def test_the_state_of_the_machine_is_told(self):
        judge = self.judge([self.entry(self.noisy(0.001))],
                           [probe(others=0.5)] * 2 + [probe(ping_pong_ns=400, others=0.5)] * 30)
        text = "\n".join(compare.state_lines(judge))
        self.assertRegex(text, r"ping_pong_ns \d+ \(200 to 400\)")
        self.assertIn("left out: 1 (1 by ping_pong_ns)", text)
        self.assertIn("others took 50% of the processors' time", text)

    def test_libraries_are_copied_anew_for_every_pair(self):
        entry = self.entry(self.noisy(0.001))
        judge = self.judge([entry])
        self.assertEqual(judge._sides.number, entry.timed.runs[NEW])

    def test_the_deadline_ends_it(self):
        entry = self.entry(self.noisy(0.5))
        outcome = self.word(entry, seconds=-1)
        # One pass is always made.
        self.assertLessEqual(entry.timed.runs[NEW], 1 + referee.MOST_PAIRS_OF_A_PASS)
        self.assertEqual(outcome.word, verdict.UNKNOWN)

    def test_a_side_that_fails(self):
        for failing, word in ((NEW, verdict.WORSE), (BASE, verdict.BETTER)):
            outcome = self.word(self.entry(
                lambda side, number, failing=failing: None if side == failing and number == 3
                else (1, 1)))
            self.assertEqual((outcome.word, outcome.failures),
                             (word, {failing: "crashed (SIGSEGV)"}))

    def test_instructions_decide_where_time_cannot(self):
        outcome = self.word(self.entry(self.noisy(0.5), FakeCounted(50_000, 51_000)))
        self.assertEqual(outcome.word, verdict.WORSE)
        self.assertEqual(compare.verdict_text(outcome), "worse: instructions +2.0 %")
        outcome = self.word(self.entry(None, FakeCounted(50_000, 50_001)))
        self.assertEqual(outcome.word, verdict.SAME)
        outcome = self.word(self.entry(None, FakeCounted(50_000, None)))
        self.assertEqual(compare.verdict_text(outcome),
                         "worse: new crashed (SIGSEGV), under callgrind")

    def test_counts_are_repeated_where_they_differ(self):
        for new, runs in ((50_001, 2), (51_000, 4)):
            counted = FakeCounted(50_000, new)
            self.word(self.entry(None, counted))
            self.assertEqual(counted.runs, runs)

    def test_peers_take_part_in_every_pair(self):
        peer = peers.Allocator("other", "/other", "")
        entry = self.entry(lambda side, number: (2 if side == "other" else 1, 1000))
        outcome = self.word(entry, others=[peer])
        self.assertEqual(entry.timed.runs["other"], entry.timed.runs[NEW])
        self.assertEqual(outcome.peers["other"].median, 0.5)


class Choice(unittest.TestCase):
    def setUp(self):
        self.entries = referee.all_entries([1, 2], 2)

    def names(self, *patterns):
        return [entry.name for entry in referee.choose(self.entries, patterns)]

    def test_the_default_set(self):
        names = self.names()
        self.assertEqual(len(names), len(set(names)))
        for name in ("micro-pair", "full/micro-pair", "larson-2", "redis", "start-up", "lru-1"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if name.startswith("full/")
                          and not name.startswith("full/micro-")])

    def test_points_of_curves_are_asked_for_by_group_or_with_a_slash(self):
        self.assertNotIn("larson/2/8", self.names())
        self.assertEqual(self.names("larson/2/8"), ["larson/2/8"])
        self.assertIn("large-held/8/16384", self.names("large-objects"))
        self.assertNotIn("larson/2/8", self.names("larson"))

    def test_by_name_by_group_and_with_the_full_library(self):
        self.assertEqual(self.names(r"^larson-\d"), ["larson-1", "larson-2"])
        self.assertIn("perl", self.names("apps"))
        self.assertEqual(self.names("full/perl"), ["full/perl"])
        self.assertEqual(self.names("larson-1", "micro-pair"), ["larson-1", "micro-pair"])
        with self.assertRaisesRegex(process.BenchError, "no row matches nothing-like-it"):
            self.names("larson-1", "nothing-like-it")

    def test_counted_rows_belong_to_timed_ones_or_say_their_threads(self):
        for entry in self.entries:
            if entry.counted and not entry.timed:
                self.assertTrue(entry.name.endswith("-1"), entry.name)

    def test_callgrinds_total(self):
        self.assertEqual(instructions.parse_count("x\n==12== Events    : Ir\n"
                                                  "==12== Collected : 18816269\n"), 18816269)
        with self.assertRaisesRegex(process.BenchError, "no count"):
            instructions.parse_count("valgrind: nothing")


class Sides(unittest.TestCase):
    def test_both_sides_are_alike_but_for_what_is_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            libraries = {side: {"minimal": pathlib.Path(SPY)} for side in (BASE, NEW)}
            sides = referee.Sides(libraries, {"A": "1", "LONGER": "x"}, pathlib.Path(folder))
            seen = set()
            for _ in range(2):
                with sides.copies("minimal") as made:
                    base, new = made[BASE], made[NEW]
                    self.assertEqual(len(base.preload), len(new.preload))
                    self.assertEqual(new.environment, {"A": "1", "LONGER": "x"})
                    self.assertEqual(base.environment, {"_": "1", "______": "x"})
                    for path in (base.preload, new.preload):
                        self.assertTrue(os.path.isfile(path))
                        seen.add(path)
            self.assertEqual(len(seen), 4)
            self.assertFalse([path for path in seen if os.path.exists(path)])


class WholeRun(unittest.TestCase):
    """Runs scripts/compare.py as a user starts it; the stand-in takes the place of the program 'graph'."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "build" / "bin"
        self.bin.mkdir(parents=True)
        shutil.copy(STANDIN, self.bin / "graph")
        for name in ("bench_probe_machine", "bench_launch", "bench_memory"):
            shutil.copy(os.path.join(BIN, name), self.bin / name)
        self.libraries = self.bin.parent / "lib"
        self.libraries.mkdir()
        for name in ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"):
            shutil.copy(SPY, self.libraries / name)
        self.json = self.folder / "out.json"

    def compare(self, *arguments, **variables):
        counter = tempfile.mkdtemp(dir=self.folder)
        environment = {**os.environ, "STANDIN_COUNTER": counter, "STANDIN_TIMES": "2",
                       "STANDIN_PRELOADED": "1", **variables}
        return subprocess.run(
            [sys.executable, os.path.join(PROJECT, "scripts", "compare.py"), "--bin", self.bin,
             "--json", self.json, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_a_library_beside_itself(self):
        result = self.compare("--base", self.libraries, "--rows", "^graph")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("same: 1", result.stdout)
        self.assertIn("seed 1", result.stderr)
        data = json.loads(self.json.read_text())
        self.assertEqual(data["verdicts"][0]["word"], "same")
        self.assertGreater(data["probes"][0]["touch_4k_ns"], 0)
        libraries = {record["malloc_library"] for record in data["records"]}
        self.assertEqual(len(libraries), len(data["records"]))

    def test_settings(self):
        result = self.compare("--with", "STANDIN_PRELOADED=2", "--rows", "^graph", "--peers",
                              "glibc")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("worse: cost +100.0 %", result.stdout)
        self.assertIn("worse: 1: graph", result.stdout)
        self.assertIn("cost, new / glibc", result.stdout)

    def test_a_peer_by_its_path(self):
        result = self.compare("--base", self.libraries, "--rows", "^graph", "--peers",
                              f"spy={SPY} glibc")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("cost, new / spy", result.stdout)
        self.assertIn("cost, new / glibc", result.stdout)
        result = self.compare("--base", self.libraries, "--peers", "gone=/nonexistent.so")
        self.assertEqual(result.returncode, 2)
        self.assertIn("PEERS: gone is missing: expected at /nonexistent.so", result.stderr)

    def test_what_cannot_be_is_one_line_that_says_what_to_do(self):
        for arguments, what in (
                ((), "give BASE=<revision>, for example BASE=HEAD, or WITH='NAME=VALUE'"),
                (("--base", "no-such-revision"), "no-such-revision is no revision of this "
                                                 "repository; 'git log --oneline' lists them"),
                (("--base", "HEAD", "--rows", "larson nothing"), "no row matches nothing; 'make"),
                (("--base", self.libraries, "--peers", "nobody"), "there is no nobody; there are "
                                                                  "glibc, gperftools"),
                (("--with", "TCMALLOC_X"), "TCMALLOC_X is not NAME=VALUE"),
                (("--base", self.libraries, "--rows", "larson-1"),
                 "no row can be measured: larson is not built")):
            result = self.compare(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(what, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_rows_are_listed(self):
        result = self.compare("--list")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\* programs +graph +time and memory, instructions\n")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        unittest.main(argv=sys.argv[:1], verbosity=2)
