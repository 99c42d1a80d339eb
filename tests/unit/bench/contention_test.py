# SPDX-License-Identifier: BSD-3-Clause
"""Checks the model of contention against what can be worked out by hand.

usage: contention_test.py PROJECT_FOLDER
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[1]), "bench", "model"))
import contention  # noqa: E402
import lock_cost  # noqa: E402
from contention import ACQUIRED, RELEASED, ROUND_ENDS  # noqa: E402

RANK = 3


def section(operations: int, lock: int) -> list:
    """An acquisition after a number of operations, and its release."""
    return [(operations, lock, RANK, ACQUIRED), (0, lock, RANK, RELEASED)]


def costs(held: float) -> contention.Costs:
    return contention.Costs(operation=10, line=0, far_line=0, held={RANK: held}, lines={RANK: 1})


def rounds(count: int, *events: list) -> list:
    """A thread that does the same in each round."""
    return [[*sum(events, []), (0, 0, 0, ROUND_ENDS)] for _ in range(count)]


class PlayTest(unittest.TestCase):

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
