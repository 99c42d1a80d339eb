# SPDX-License-Identifier: BSD-3-Clause
"""Checks the model of contention against what can be worked out by hand.

usage: contention_test.py PROJECT_FOLDER
"""
import os
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[1]), "bench", "model"))
import contention  # noqa: E402
import lock_cost  # noqa: E402
from contention import ACQUIRED, RELEASED, ROUND_ENDS, TRIED  # noqa: E402

RANK = 3


def section(operations: int, lock: int, kind: int = ACQUIRED) -> list:
    """An acquisition after a number of operations, and its release."""
    return [(operations, lock, RANK, kind), (0, lock, RANK, RELEASED)]


def costs(held: float, line: float = 0) -> contention.Costs:
    return contention.Costs(operation=10, line=line, far_line=10 * line, held={RANK: held}, lines={RANK: 1})


def rounds(count: int, *events: list) -> list:
    """A thread that does the same in each round."""
    return [[*sum(events, []), (0, 0, 0, ROUND_ENDS)] for _ in range(count)]


class PlayTest(unittest.TestCase):
    def test_a_processor_alone_never_waits(self):
        result = contention.play([rounds(100, section(5, 1)), rounds(100, section(5, 1))], 1, 1, costs(50))
        self.assertEqual(result.contended.total(), 0)
        self.assertEqual(result.acquired[RANK], 200)
        self.assertEqual(result.operations, 1000)
        self.assertAlmostEqual(result.rate, 1e9 * 5 / (5 * 10 + 50))

    def test_own_locks_are_never_contended(self):
        threads = [rounds(50, section(5, lock)) for lock in range(16)]
        result = contention.play(threads, 16, 2, costs(50, line=100))
        self.assertEqual(result.contended.total(), 0)
        self.assertAlmostEqual(result.rate, 16 * 1e9 * 5 / 100)

    def test_many_processors_do_what_one_lock_allows(self):
        result = contention.play([rounds(200, section(1, 1)) for _ in range(64)], 64, 1, costs(100))
        # Every acquisition waits, except those at the start: the lock is always held.
        self.assertGreater(result.contended[RANK] / result.acquired[RANK], 0.95)
        self.assertAlmostEqual(result.rate / (1e9 / 100), 1, delta=0.05)

    def test_agrees_with_the_machine_repairman(self):
        # Threads wait for less time with fixed times than with exponentially distributed ones: the throughput is
        # higher.
        for processors in (2, 4, 8):
            result = contention.play([rounds(500, section(100, 1)) for _ in range(processors)], processors, 1,
                                     costs(200))
            visits = result.rate / 100 * 1e-9
            self.assertGreater(visits, 0.97 * lock_cost.throughput(processors, 1000, 200))
            self.assertLessEqual(visits, 1.001 * min(processors / 1200, 1 / 200))

    def test_a_lock_that_moves_costs_its_lines(self):
        # Two processors take the lock in turns, first on one node, then on two.
        threads = [rounds(100, section(100, 1)), rounds(100, section(100, 1))]
        near = contention.play(threads, 2, 1, costs(10, line=50))
        far = contention.play(threads, 2, 2, costs(10, line=50))
        self.assertAlmostEqual(near.rate, 2 * 1e9 * 100 / (1000 + 60), delta=near.rate / 50)
        self.assertAlmostEqual(far.rate, 2 * 1e9 * 100 / (1000 + 510), delta=far.rate / 50)

    def test_what_was_only_tried_is_not_waited_for(self):
        busy = [rounds(100, section(1, 1)) for _ in range(8)]
        # When the lock is not free, a search goes on in another shard, and a thread that returns objects of several
        # shards returns those of the other shards first.
        search = rounds(100, section(20, 1, TRIED))
        returns = rounds(100, [*section(20, 1, TRIED), *section(0, 2)])
        for thread, passed in ((search, "the search"), (returns, "the other shard")):
            result = contention.play([*map(lambda r: [list(x) for x in r], busy), thread], 9, 1, costs(50))
            self.assertGreater(result.passed_over[RANK], 0, passed)
        self.assertEqual(result.operations, 8 * 100 + 20 * 100)
        self.assertEqual(result.acquired[RANK], 8 * 100 + 2 * 100)


class ReadTest(unittest.TestCase):
    def test_operations_count_from_the_event_before(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "one.events")
            events = [(4, 7, RANK, ACQUIRED), (4, 7, RANK, RELEASED), (10, 0, 0, ROUND_ENDS)]
            path.write_bytes(struct.pack("<I", 3) + b"".join(struct.pack("<IHBB", *e) for e in events) +
                             struct.pack("<I", 0))
            self.assertEqual(contention.read_events(path),
                             [[[(4, 7, RANK, ACQUIRED), (0, 7, RANK, RELEASED), (6, 0, 0, ROUND_ENDS)]], []])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
