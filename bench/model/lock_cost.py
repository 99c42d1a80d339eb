#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A model of the cost of the central tier's locks on machines larger than those on which it is
measured.

This is a model of the worst program: every thread only allocates objects of one size class and frees
them again, far more than its cache holds, so that each 256 objects pass the central free lists in
both directions. A thread works without a lock for a while, then needs the lock of its shard for a
while: the machine-repairman model, solved exactly by mean value analysis (Reiser and
Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", 1980). Times under the lock
are taken as exponentially distributed, which overstates the waiting.

  lock_cost.py [--away NS] [--held NS] [--lines N] [--transfer NS]
"""

import argparse


def throughput(customers: int, away: float, held: float) -> float:
    """Acquisitions per unit of time of `customers` threads that do not need the lock for the time `away` on
    average, and hold it for `held`."""
    rate = 0.0
    queue = 0.0
    for n in range(1, customers + 1):
        residence = held * (1 + queue)
        rate = n / (away + residence)
        queue = rate * residence
    return rate


def efficiency(threads: int, shards: int, away: float, held_alone: float,
               held_shared: float) -> float:
    """Throughput of `threads`, spread evenly over `shards`, as a share of the throughput of independent
    threads. A lock that only one thread uses is held for `held_alone`."""
    alone = threads / (away + held_alone)
    total = 0.0
    for shard in range(shards):
        customers = threads // shards + (shard < threads % shards)
        held = held_alone if customers <= 1 else held_shared
        total += throughput(customers, away, held)
    return total / alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--away", type=float, default=1100,
                        help="ns between two visits: 256 objects at 4.5 ns, half a visit in each "
                        "direction (threadtest with one thread)")
    parser.add_argument("--held", type=float, default=100,
                        help="ns under the lock, its memory in the own cache (300 instructions)")
    parser.add_argument("--lines", type=int, default=6,
                        help="cache lines that change hands with the lock: lock, lists, span, bits")
    parser.add_argument("--transfer", type=float, default=80,
                        help="ns for one line from another processor's cache")
    args = parser.parse_args()
    shared = args.held + args.lines * args.transfer
    print(f"{args.away:.0f} ns away, {args.held:.0f} ns under a lock of one's own, {shared:.0f} ns "
          "under one that comes from another processor")
    print(f"{'threads = processors':>20} {'one lock':>10} {'per 8':>10} {'16 shards':>10}")
    for threads in (2, 4, 8, 16, 32, 64, 128):
        row = [efficiency(threads, shards, args.away, args.held, shared)
               for shards in (1, max(1, threads // 8), min(threads, 16))]
        print(f"{threads:>20} " + " ".join(f"{value:>9.0%} " for value in row))


if __name__ == "__main__":
    main()
