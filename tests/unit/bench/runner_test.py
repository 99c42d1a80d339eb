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
from runner import (apps, comparison, peers, plots, process, programs, progress, report,  # noqa: E402
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

    def test_a_geometric_mean_of_rows(self):
        mean = statistics.geometric_mean_ratio([[2, 2, 2], [8, 8, 8]], seed=1)
        self.assertAlmostEqual(mean.median, 4)
        self.assertAlmostEqual(mean.interval.low, 4)
        # The first row's median is 1, 2 or 3 in the resamples, the second's always 8.
        mean = statistics.geometric_mean_ratio([[1, 2, 3], [8, 8, 8]], seed=1)
        self.assertAlmostEqual(mean.median, 4)
        self.assertAlmostEqual(mean.interval.low, 8 ** 0.5)
        self.assertAlmostEqual(mean.interval.high, 24 ** 0.5)

    def test_noise_is_an_interval_wider_than_three_percent_each_way(self):
        for low, high, noise in ((0.98, 1.02, False), (0.971, 1.029, False), (0.96, 1.04, True),
                                 (1.96, 2.04, False), (1.92, 2.08, True)):
            ratio = statistics.Ratio((low + high) / 2, statistics.Interval(low, high), 3)
            self.assertEqual(statistics.is_noise(ratio), noise, (low, high))

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

    def test_of_a_rate_more_is_better(self):
        records = [record("a", name, 0, value, better="higher")
                   for name, value in (("ours", 200), ("glibc", 50), ("fast", 100))]
        entries = summary.summarize(hand_made(records))["rows"]["a"]
        self.assertAlmostEqual(entries["ours"]["to_reference"].median, 0.5)
        self.assertAlmostEqual(entries["glibc"]["to_reference"].median, 2)
        self.assertEqual(entries["ours"]["median"], 200)

    def test_pairs_are_of_the_same_round(self):
        # The peer's third round is missing, as it is when a row is repeated without the peer.
        records = [record("a", "ours", number, value) for number, value in enumerate((2, 2, 50))]
        records += [record("a", "fast", number, 1) for number in (1, 0)]
        self.assertEqual(summary.Samples(records).cost_ratio("a", "ours", "fast", 1).median, 2)

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

    def test_the_order_is_shuffled_by_the_seed(self):
        def orders(seed):
            row = FakeRow("a", {name: [1] * 12 for name in ("ours", "glibc", "fast")})
            self.compare([row], seed, rounds=10, max_rounds=10)
            names = [name for name, _ in row.log]
            return [tuple(names[i:i + 3]) for i in range(0, len(names), 3)]

        first = orders(1)
        self.assertGreater(len(set(first)), 2)
        self.assertEqual({tuple(sorted(order)) for order in first}, {("fast", "glibc", "ours")})
        self.assertEqual(first, orders(1))

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
    def test_redis(self):
        output = """\r      \r====== SET ======                          \n
  300000 requests completed in 0.61 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 0.111 milliseconds (cumulative count 16)
99.902% <= 3.111 milliseconds (cumulative count 299712)
  throughput summary: 491803.28 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.484     0.104     1.431     2.151     2.687     3.303
====== LRANGE_100 (first 100 elements) ======\n
  1000 requests completed in 0.01 seconds
99.951% <= 0.207 milliseconds (cumulative count 1000)
  throughput summary: 100000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.200     0.100     0.201     0.205     0.206     0.207
"""
        self.assertEqual(apps.parse_redis(output), [
            {"name": "set", "requests": 300000, "per_s": 491803.28, "p50": 1.431, "p99": 2.687,
             "p99.9": 3.111},
            {"name": "lrange_100", "requests": 1000, "per_s": 100000.0, "p50": 0.201, "p99": 0.206,
             "p99.9": 0.207}])

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

    def test_bench_micros_child(self):
        times, library = programs.parse_micro("times 0 3.5 4.5\nmalloc /l.so\nfree /l.so\ndone\n")
        self.assertEqual((times, library), ([3.5, 4.5], "/l.so"))
        with self.assertRaises(process.BenchError):
            programs.parse_micro("times 0 3.5 4.5\nmalloc /l.so\n")

    def test_a_malformed_report_is_an_error(self):
        good = {"metrics": [], **{name: 1 for name in process.RESOURCES}}
        broken = [good | {"wall_s": "1"}, good | {"peak_rss_kib": None},
                  good | {"metrics": [{"name": "a", "value": 1}]},
                  good | {"metrics": [{"name": "a", "value": float("nan"), "better": "lower"}]}]
        for text in [*(json.dumps(bad) + "\n" for bad in broken), "x\n", json.dumps(good),
                     json.dumps(good) + "\n" + json.dumps(good) + "\n"]:
            with self.assertRaises(process.BenchError, msg=text):
                process.run(["sh", "-c", f"printf %s '{text}' >&$BENCH_REPORT_FD"], os.environ, 60)


class Report(unittest.TestCase):
    def test_figures(self):
        for value, unit, text in ((1.2345, "s", "1.23 s"), (0.01234, "s", "12.3 ms"),
                                  (12_345_678, "1/s", "12.3 M/s"), (8.25, "bytes", "8.25 bytes"),
                                  (20_480, "KiB", "20.0 MiB"), (1128, "KiB", "1128 KiB"),
                                  (0, "KiB", "0 KiB"), (1.5, "1", "1.50"),
                                  (12.34, "1e6/s", "12.3 M/s")):
            self.assertEqual(report.figure_text(value, unit), text)

    def test_throughput_of_t_test1(self):
        data = hand_made([record("t-test1/2/64", "ours", number, value)
                          for number, value in enumerate((0.5, 1.0, 9.0))],
                         rows=("t-test1/2/64",), group="sweep", command="t-test1 2 2 1000000 64")
        # Two threads do a million operations each in 1 s, with 2 + 1 s of CPU time.
        elapsed, cpu = plots.sweep_points(data)["ours", 2, 64]
        self.assertAlmostEqual(elapsed, 2)
        self.assertAlmostEqual(cpu, 2 / 3)


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
