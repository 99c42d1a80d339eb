# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rows that are points of curves.

usage: curves_test.py PROJECT_FOLDER
"""
import os
import sys
import unittest

PROJECT = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import curves, programs, statistics, summary  # noqa: E402
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

    def test_no_two_rows_have_one_name(self):
        names = [row.name for row in curves.point_rows(2) + programs.sweep_rows(quick=False)]
        self.assertEqual(len(set(names)), len(names))


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

    def test_a_difference_within_the_margin_is_none(self):
        for low, high, word in ((0.99, 0.999, "lowest"), (0.99, 1.0, "level"),
                                (1.009, 1.2, "level"), (1.011, 1.2, "above")):
            ratio = statistics.Ratio(1, statistics.Interval(low, high), 3)
            self.assertEqual(curves.word_for(ratio), word, (low, high))

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
