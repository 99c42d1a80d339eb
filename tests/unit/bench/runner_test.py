# SPDX-License-Identifier: BSD-3-Clause
"""Checks the benchmark runner: its arithmetic, and whole runs on two allocators with a program that reports given
figures.

usage: runner_test.py PROJECT_FOLDER BIN_FOLDER STANDIN SPY_MALLOC_LIBRARY

The two allocators are the C library's malloc and the spy, which is the same malloc with counters. No time is measured
here.
"""
import contextlib
import glob
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT, BIN, STANDIN, SPY = map(os.path.abspath, sys.argv[1:5])
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import (apps, comparison, peers, process, programs, progress, report,  # noqa: E402
                    statistics, summary)
from made_runs import hand_made, record  # noqa: E402

LIBC = peers.c_library_path()
PEERS = [name for name, _, _ in peers.PACKAGED] + [
    "mimalloc3", "snmalloc", "rpmalloc", "google", "google-percpu"]


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
        # Of [1, 2, ..., 9], 1 is a resample's median with probability
        # P(B(9, 1/9) >= 5) = 0.13 %, 2 or less with P(B(9, 2/9) >= 5) = 3.1 %.
        for seed in (1, 2):
            self.assertEqual(statistics.bootstrap_median(range(1, 10), seed), (2, 8))

    def test_two_rounds_prove_nothing(self):
        ratio = statistics.paired_ratio([1, 1], [2, 2], seed=1)
        self.assertTrue(statistics.is_noise(ratio))
        self.assertFalse(statistics.meets(ratio, 1.0))


class Summary(unittest.TestCase):
    def test_ratios_of_a_row(self):
        records = []
        for number, (ours, glibc, fast) in enumerate([(2, 3, 1), (4, 6, 2), (9, 9, 3)]):
            records += [record("a", "ours", number, ours, peak=500),
                        record("a", "glibc", number, glibc),
                        record("a", "fast", number, fast, peak=3000)]
        # Records of other phases are not counted.
        records += [record("a", "ours", 0, 100, phase) for phase in ("warm-up", "pilot")]
        derived = summary.summarize(hand_made(records))
        ours = derived["rows"]["a"]["ours"]
        self.assertEqual((ours["median"], ours["quartiles"], ours["rounds"]), (4, (3, 6.5), 3))
        self.assertEqual(ours["to_reference"].median, 2)
        self.assertEqual(ours["to_reference"].interval, (2, 3))
        self.assertEqual(ours["to_each"]["glibc"].median, 2 / 3)
        self.assertEqual(ours["peak_to_reference"].median, 0.5)
        means = derived["means"]
        self.assertAlmostEqual(means["ours"]["time"].median, 2)
        self.assertAlmostEqual(means["glibc"]["ours"]["ours"]["time"].median, 2 / 3)
        self.assertAlmostEqual(means["fast"]["peak"].median, 3)

    def test_a_failure_voids_all_figures_of_the_pair(self):
        records = [record("a", name, 0, 1) for name in ("ours", "glibc", "fast")]
        records.append({"row": "a", "allocator": "glibc", "phase": "counted", "round": 1,
                        "position": 0, "failure": "crashed (SIGSEGV)", "elapsed_s": 0})
        data = hand_made(records)
        derived = summary.summarize(data)
        self.assertNotIn("glibc", derived["rows"]["a"])
        self.assertEqual((derived["means"]["glibc"]["rows"], derived["means"]["glibc"]["failed"]),
                         (0, 1))
        heading, table = report.ratio_table(data, derived, "programs")
        self.assertEqual(table[0][heading.index("glibc")], "x")


class FakeRow:
    """A row whose measurements are drawn from lists by allocator."""

    group, nominal_s = "programs", 0.1

    def __init__(self, name, values):
        self.name, self.values, self.log = name, {k: list(v) for k, v in values.items()}, []

    def missing(self, context):
        return ""

    def describe(self, context):
        return self.name

    def measure(self, allocator, context, prove):
        self.log.append((allocator.name, prove))
        value = self.values[allocator.name].pop(0)
        if value is None:
            raise process.ProcessFailed("crashed (SIGSEGV)")
        made = record(self.name, allocator.name, 0, value)
        return {key: made[key] for key in ("metrics", *process.RESOURCES)}


class Rounds(unittest.TestCase):
    def compare(self, rows, seed=1, **schedule):
        allocators = [peers.Allocator(name, "/l", "", ours=name == "ours")
                      for name in ("ours", "glibc", "fast")]
        run = comparison.Comparison(
            allocators, [comparison.Stage(rows, comparison.Schedule(**schedule))],
            programs.Context(pathlib.Path(), pathlib.Path()), seed,
            progress.Progress(io.StringIO()))
        run.run()
        return run

    def test_the_pilot_fixes_the_reference(self):
        # glibc is the best in the pilot. Later it is not the best, but that changes nothing.
        row = FakeRow("a", {"ours": [1] * 5, "glibc": [9, 1, 5, 5, 5], "fast": [9, 2, 1, 1, 1]})
        run = self.compare([row], rounds=3, max_rounds=3)
        self.assertEqual(run.row_records[0]["reference"], "glibc")
        self.assertEqual([r["phase"] for r in run.records],
                         ["warm-up"] * 3 + ["pilot"] * 3 + ["counted"] * 9)
        self.assertEqual([prove for _, prove in row.log], [True] * 3 + [False] * 12)

    def test_an_uncertain_row_is_repeated_then_marked(self):
        steady = FakeRow("steady", {name: [1] * 20 for name in ("ours", "glibc", "fast")})
        noisy = FakeRow("noisy", {"ours": [1, 1] + [1.0, 1.5] * 9, "glibc": [2] * 20,
                                  "fast": [1] * 20})
        run = self.compare([steady, noisy], rounds=4, max_rounds=9)
        self.assertEqual([(r["name"], r["noise"]) for r in run.row_records],
                         [("steady", False), ("noisy", True)])
        repeats = [r for r in run.records if r["phase"] == "repeat"]
        self.assertEqual({r["row"] for r in repeats}, {"noisy"})
        self.assertEqual({r["allocator"] for r in repeats}, {"ours", "fast"})
        self.assertEqual(sorted({r["round"] for r in repeats}), [4, 5, 6, 7, 8])

    def test_a_crashed_peer_is_not_run_again_and_is_no_reference(self):
        row = FakeRow("a", {"ours": [1] * 5, "glibc": [2] * 5, "fast": [0.1, 0.1, None]})
        run = self.compare([row], rounds=3, max_rounds=3)
        self.assertEqual([r["failure"] for r in run.records if "failure" in r],
                         ["crashed (SIGSEGV)"])
        self.assertEqual(len([name for name, _ in row.log if name == "fast"]), 3)
        row = FakeRow("a", {"ours": [1] * 5, "glibc": [2] * 5, "fast": [0.1, None]})
        self.assertEqual(self.compare([row], rounds=3, max_rounds=3).row_records[0]["reference"],
                         "glibc")


class Parsing(unittest.TestCase):
    def test_the_dynamic_linkers_log(self):
        def line(user, to):
            return (f"  7:\tbinding file {user} [0] to {to} [0]: "
                    "normal symbol `malloc' [GLIBC_2.2.5]\n")

        def providers(*bindings):
            return process.malloc_providers("".join(line(*pair) for pair in bindings), "/a.so")

        self.assertEqual(providers(("/bin/p", "/a.so"), ("/l.so", "/a.so"), ("/a.so", "/libc.so")),
                         {"/a.so"})
        self.assertEqual(providers(("/bin/p", "/a.so"), ("/l.so", "/libc.so")),
                         {"/a.so", "/libc.so"})
        # A program at a fixed address that takes malloc's address is bound to itself, and passes calls on.
        self.assertEqual(providers(("/l.so", "/bin/p"), ("/bin/p", "/a.so"), ("/bin/p", "/bin/p")),
                         {"/a.so"})
        # A program with its own malloc passes no calls on.
        self.assertEqual(providers(("/l.so", "/bin/p")), {"/bin/p"})
        self.assertEqual(providers(("/lib64/ld-linux-x86-64.so.2", "/libc.so")), set())

    def test_a_malformed_report_is_an_error(self):
        good = {"metrics": [], **{name: 1 for name in process.RESOURCES}}
        broken = [good | {"wall_s": "1"}, good | {"peak_rss_kib": None},
                  good | {"metrics": [{"name": "a", "value": 1}]},
                  good | {"metrics": [{"name": "a", "value": float("nan"), "better": "lower"}]}]
        for text in [*(json.dumps(bad) + "\n" for bad in broken), "x\n", json.dumps(good),
                     json.dumps(good) + "\n" + json.dumps(good) + "\n"]:
            with self.assertRaises(process.BenchError, msg=text):
                process.run(["sh", "-c", f"printf %s '{text}' >&$BENCH_REPORT_FD"], os.environ, 60)


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
            self.assertEqual(made["malloc_library"],
                             peers.portable(os.path.realpath(
                                 SPY if made["allocator"] == "mine" else LIBC)))
            self.assertEqual((made["user_s"], made["sys_s"], made["minor_faults"]), (0.5, 0.25, 7))
        self.assertTrue(data["rows"][0]["noise"])
        # Results say what was measured, not where this repository lies.
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


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        unittest.main(argv=sys.argv[:1], verbosity=2)
