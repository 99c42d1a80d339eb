# SPDX-License-Identifier: BSD-3-Clause
"""Checks the model of the locks' cost: against what can be worked out by hand, and against a
simulation of the same threads.

usage: lock_cost_test.py PROJECT_FOLDER
"""
import heapq
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[1]), "bench", "model"))
import lock_cost  # noqa: E402


def simulate(customers: int, away: float, held: float, visits: int, seed: int) -> float:
    """Returns the visits per unit of time of threads that get one lock in the order of their arrival."""
    rng = random.Random(seed)
    arrivals = [rng.expovariate(1 / away) for _ in range(customers)]
    heapq.heapify(arrivals)
    free_at = 0.0
    for _ in range(visits):
        start = max(heapq.heappop(arrivals), free_at)
        free_at = start + rng.expovariate(1 / held)
        heapq.heappush(arrivals, free_at + rng.expovariate(1 / away))
    return visits / free_at


class ThroughputTest(unittest.TestCase):
    def test_one_thread_never_waits(self):
        self.assertAlmostEqual(lock_cost.throughput(1, 900, 100), 1 / 1000)

    def test_two_threads(self):
        # The second thread's residence time is 100 * (1 + 100 / 1000).
        self.assertAlmostEqual(lock_cost.throughput(2, 900, 100), 2 / (900 + 110))

    def test_many_threads_do_what_the_lock_allows(self):
        self.assertAlmostEqual(lock_cost.throughput(1000, 900, 100), 1 / 100)

    def test_agrees_with_a_simulation(self):
        for customers, away, held in ((2, 1100, 580), (4, 1100, 580), (16, 1100, 100),
                                      (64, 5000, 100)):
            seed = 20261121 + customers
            print(f"seed {seed}")
            simulated = simulate(customers, away, held, 400_000, seed)
            self.assertAlmostEqual(lock_cost.throughput(customers, away, held) / simulated, 1,
                                   delta=0.01)


class EfficiencyTest(unittest.TestCase):
    def test_who_has_a_lock_alone_loses_nothing(self):
        self.assertAlmostEqual(lock_cost.efficiency(16, 16, 1100, 100, 580), 1)

    def test_threads_are_spread_evenly(self):
        # Two shards have one thread each, one shard has two.
        alone = 1 / 1000
        expected = (2 * alone + lock_cost.throughput(2, 900, 500)) / (4 * alone)
        self.assertAlmostEqual(lock_cost.efficiency(4, 3, 900, 100, 500), expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
