# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rows that are points of curves, and what a run's page says about them.

usage: curves_test.py PROJECT_FOLDER

Nothing is measured here.
"""
import collections
import os
import pathlib
import sys
import tempfile
import unittest

PROJECT = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import cli, curves, plots, programs, report, statistics, summary  # noqa: E402
from made_runs import hand_made, record  # noqa: E402


def made_points(group, figures, better="lower"):
    """A run with these figures in three rounds: row -> allocator -> one figure or three."""
    records = []
    for row, by_name in figures.items():
        for name, values in by_name.items():
            for number in range(3):
                value = values[number] if isinstance(values, tuple) else values
                records.append(record(row, name, number, value, better=better,
                                      faults=30 if name == "ours" else 10))
    return hand_made(records, rows=tuple(figures), group=group)


class Rows(unittest.TestCase):
    def test_threads_up_to_eight_for_each_processor(self):
        self.assertEqual(curves.thread_counts(1), [1, 2, 4, 8])
        self.assertEqual(curves.thread_counts(2), [1, 2, 4, 8, 16])
        self.assertEqual(curves.thread_counts(6), [1, 2, 4, 8, 16, 32, 48])

    def test_the_reports_parameters(self):
        args = {row.name: row.args for row in curves.thread_rows(2, quick=False)}
        self.assertEqual(args["larson/4/8"][1:], (7, 8, 1000, 10_000, 1, 4))
        self.assertEqual(args["linux-scalability/16/8"], (8, 1_000_000, 16, 1))
        for program in ("cache-thrash", "cache-scratch"):
            self.assertEqual(args[f"{program}/2/8"], (2, 100, 8, 1_000_000))

    def test_each_program_has_a_point_for_each_number_of_threads(self):
        counts = collections.defaultdict(list)
        for row in curves.thread_rows(2, quick=False):
            name, threads, size = row.name.split("/")
            counts[name, size].append(int(threads))
        self.assertEqual(len(counts), len(curves.LARSON_SIZES) + 3)
        self.assertEqual(set(map(tuple, counts.values())), {(1, 2, 4, 8, 16)})

    def test_large_objects_at_each_doubling(self):
        names = {row.name for row in curves.large_rows(quick=False)}
        self.assertEqual(names, {f"large-{pattern}/{threads}/{1024 << power}"
                                 for pattern in ("held", "turned-over") for threads in (1, 2, 8)
                                 for power in range(4, 11)})

    def test_two_threads_do_twice_the_work_of_one_and_so_do_eight(self):
        for row in curves.large_rows(quick=False):
            threads, size, allocations, _ = (arg for arg in row.args if arg != "--held")
            self.assertEqual(threads * allocations,
                             curves.large_allocations(size) * min(threads, 2))

    def test_no_two_rows_have_one_name(self):
        names = [row.name for row in curves.point_rows(2) + programs.sweep_rows(quick=False)]
        self.assertEqual(len(set(names)), len(names))

    def test_a_quick_run_has_the_ends_of_the_curves(self):
        quick = curves.point_rows(2, quick=True)
        self.assertLessEqual({row.name for row in quick},
                             {row.name for row in curves.point_rows(2)})
        self.assertEqual({row.name.split("/")[1] for row in quick if row.group == curves.THREADS},
                         {"1", "16"})

    def test_the_sweep_ends_at_one_mib_and_spares_operations_above_128_kib(self):
        rows = {row.size: row for row in programs.sweep_rows(quick=False) if row.threads == 2}
        self.assertEqual(max(rows), 1 << 20)
        self.assertEqual(rows[128 << 10].operations, 1_000_000)
        self.assertEqual(rows[1 << 20].args, (2, 2, 125_000, 1 << 20))

    def test_a_comparison_does_more_work_than_a_quick_run(self):
        (row,) = [row for row in programs.program_rows([1, 2], 2) if row.name == "t-test1-2"]
        folder = pathlib.Path("/bin")
        commands = [row.command(programs.Context(folder, folder, **kind)) for kind in (
            {}, {"quick": True}, {"quick": True, "compared": True})]
        self.assertEqual([command[1:] for command in commands],
                         [list(map(str, args)) for args in (row.args, row.quick_args,
                                                            row.compare_args)])
        # A row without arguments of its own for a comparison does as much as in a quick run.
        row = programs.ProgramRow("a", "a", (9,), (1,))
        self.assertEqual(row.command(programs.Context(folder, folder, quick=True,
                                                      compared=True))[1:], ["1"])


class Standings(unittest.TestCase):
    def test_the_word_of_a_point(self):
        data = made_points(curves.THREADS, {
            "larson/1/8": {"ours": 1, "glibc": 4, "fast": 2},
            "larson/2/8": {"ours": (1.9, 2, 2.2), "glibc": 4, "fast": 2},
            "larson/16/8": {"ours": (2.2, 2.4, 2.6), "glibc": 4, "fast": 2}})
        found = curves.standings(data, summary.summarize(data), curves.THREADS)
        self.assertEqual([(s.threads, s.size, s.word) for s in found],
                         [(1, 8, "lowest"), (2, 8, "level"), (16, 8, "above")])
        self.assertEqual([s.why for s in found[:2]], ["", ""])
        # CPU time is three times the figure in these records.
        self.assertEqual(found[2].why, "CPU time 1.20, page faults 30 against 10")
        self.assertEqual(curves.standings(data, summary.summarize(data), curves.LARGE), [])
        self.assertIn("Of 3 points this library's curve is the lowest at 1, level with the best "
                      "peer's at 1, above it at 1.", curves.summary_sentence(found))

    def test_a_difference_within_the_margin_is_none(self):
        for low, high, word in ((0.99, 0.999, "lowest"), (0.99, 1.0, "level"),
                                (1.009, 1.2, "level"), (1.011, 1.2, "above")):
            ratio = statistics.Ratio(1, statistics.Interval(low, high), 3)
            self.assertEqual(curves.word_for(ratio), word, (low, high))

    def test_two_rounds_give_no_word(self):
        records = [record("larson/1/8", name, number, 1) for name in ("ours", "glibc", "fast")
                   for number in range(2)]
        data = hand_made(records, rows=("larson/1/8",), group=curves.THREADS)
        (found,) = curves.standings(data, summary.summarize(data), curves.THREADS)
        self.assertEqual(found.word, "")
        self.assertIn("too few rounds", curves.standing_table([found])[1][0][4])

    def test_of_a_rate_more_is_lower(self):
        data = made_points(curves.THREADS, {"larson/1/8": {"ours": 4, "glibc": 1, "fast": 2}},
                           better="higher")
        (found,) = curves.standings(data, summary.summarize(data), curves.THREADS)
        self.assertEqual((found.word, found.ratio.median), ("lowest", 0.5))
        self.assertEqual(curves.points(data, curves.THREADS)["larson", 8]["ours"], [(1, 0.25)])

    def test_cpu_time_is_that_of_the_same_work(self):
        made = record("a", "ours", 0, 4, better="higher")
        made.update(wall_s=2, user_s=15, sys_s=1)
        self.assertEqual(curves.cpu_of_work(made), 2)  # 16 s for 4 / s * 2 s
        made["metrics"][0]["better"] = "lower"
        self.assertEqual(curves.cpu_of_work(made), 16)

    def test_two_threads_beside_one(self):
        data = made_points(curves.LARGE, {
            "large-held/1/16384": {"ours": 1, "glibc": 2, "fast": 1},
            "large-held/2/16384": {"ours": 1, "glibc": 8, "fast": 1.25},
            "large-held/8/16384": {"ours": 1, "glibc": 1, "fast": 1}})
        self.assertEqual(curves.two_threads_table(data),
                         (["two threads / one", "size", "ours", "glibc", "fast"],
                          [["large-held", "16 KiB", "2.00", "0.50", "1.60"]]))

    def test_points_are_on_the_page_and_not_in_the_means(self):
        data = made_points(curves.LARGE, {
            "large-held/1/1048576": {"ours": 9, "glibc": 1, "fast": 1},
            "large-held/2/1048576": {"ours": 9, "glibc": 1, "fast": 1}})
        derived = summary.summarize(data)
        self.assertIsNone(derived["means"]["ours"]["time"])
        page = report.page(data, derived, [], "run.json")
        self.assertIn("## Large objects", page)
        self.assertNotIn("## Over threads", page)
        self.assertIn("| large-held | 1 MiB | 1 | fast | 9.00 [9.00, 9.00] | above |", page)
        self.assertIn("| large-held | 1 MiB | 2.00 |", page)
        self.assertNotIn("all figures", page)
        self.assertIn("above it at 2.", report.terminal(data, derived))

    def test_sizes_in_words(self):
        self.assertEqual([curves.size_text(size) for size in (8, 4096, 16384, 1 << 20, 3 << 19)],
                         ["8 bytes", "4 KiB", "16 KiB", "1 MiB", "1536 KiB"])


class Pictures(unittest.TestCase):
    def test_both_groups_are_drawn(self):
        if not plots.available():
            self.skipTest("SKIP: matplotlib is not installed")
        names = {"ours": 1, "glibc": 3, "fast": 2}
        data = made_points(curves.THREADS, {f"larson/{threads}/8": names for threads in (1, 2, 4)})
        large = made_points(curves.LARGE, {f"large-held/{threads}/{size}": names
                                           for threads in (1, 2) for size in (16384, 32768)})
        for part in ("rows", "records"):
            data[part] += large[part]
        with tempfile.TemporaryDirectory() as folder:
            drawn = plots.draw_all(data, summary.summarize(data), pathlib.Path(folder), "run.json")
            self.assertEqual(set(drawn), {"over-threads.svg", "large-objects.svg"})
            for file in drawn:
                self.assertIn("larson, 8 bytes" if file.startswith("over") else "large-held",
                              (pathlib.Path(folder) / file).read_text())
        self.assertLessEqual(set(drawn), set(plots.PICTURES))


class Plan(unittest.TestCase):
    def test_points_have_rounds_for_an_interval(self):
        def rounds(*arguments):
            (stage,) = cli.plan(cli.parse_arguments(["--only", curves.LARGE, *arguments]), 0)
            self.assertEqual({row.group for row in stage.rows}, {curves.LARGE})
            return stage.schedule.rounds

        self.assertEqual(rounds(), 3)
        self.assertEqual(rounds("--rounds", "9"), 3)
        self.assertEqual(rounds("--quick"), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
