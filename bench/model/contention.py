#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Predicts what the locks of the library do on machines larger than this one.

  contention.py LOG... [--processors N,N,...] [--operation NS] [--line NS] [--far NS]

A LOG is what process_fake_processors recorded: one line of JSON, and a file of the acquisitions and
releases of all locks by thread (docs/design/scaling.md says how to make one). The model simulates these
events on N processors at once instead of two: thread t runs on processor t mod N, and an operation
outside of the locks takes a fixed time. A lock is held for as long as that kind of lock was held on
average, and longer if another processor had it last, by the cache lines that then move. A processor that
finds a lock held waits until the ones before it have released it. So an acquisition is contended if two
processors would really have needed the lock at the same time.

The model makes these simplifications: the order of events within a thread is that of the recorded
run; a waiting processor never sleeps; memory itself costs nothing. Processors of a node have
consecutive numbers.
"""

import argparse
import collections
import heapq
import json
import pathlib
import random
import struct
from dataclasses import dataclass, field

ROUND_ENDS, ACQUIRED, RELEASED, TRIED = 0, 1, 2, 3
# For each lock, by its name: how many times cache lines move with it, one after the other. For a
# shard, the line of the lock and the line of the heads of a class's lists move at once, since a
# thread reads or prefetches the heads before it takes the lock (bench_lock_lines measures the same
# time for the lock as with both on one line); then the line of the span's record moves. For
# page_heap, the lines of two records, of their neighbours and of the counters move too.
LINES = {"shard": 2, "page_heap": 6, "metadata": 2, "registry": 4}
OTHER_LINES = 2


@dataclass
class Costs:
    """Nanoseconds."""
    operation: float
    line: float
    far_line: float
    held: dict[int, float]
    lines: dict[int, int]


@dataclass
class Result:
    """The results for one number of processors."""
    processors: int
    operations: int = 0
    acquired: collections.Counter = field(default_factory=collections.Counter)
    contended: collections.Counter = field(default_factory=collections.Counter)
    # Locks that were tried and found held, so that the processor continued with something else.
    passed_over: collections.Counter = field(default_factory=collections.Counter)
    waited_ns: float = 0
    # Operations per second of all processors together.
    rate: float = 0

    def contended_per_thousand(self) -> float:
        return 1000 * sum(self.contended.values()) / self.operations


# The rounds of one thread: each a list of (operations since the last event, lock, rank, kind).
Rounds = list[list[tuple[int, int, int, int]]]


def read_events(path: pathlib.Path) -> list[Rounds]:
    """The events of all threads, from the file that process_fake_processors wrote."""
    data = path.read_bytes()
    threads = []
    at = 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        rounds: Rounds = []
        events: list[tuple[int, int, int, int]] = []
        before = 0
        for operation, lock, rank, kind in struct.iter_unpack("<IHBB", data[at:at + 8 * count]):
            events.append((operation - before, lock, rank, kind))
            before = operation
            if kind == ROUND_ENDS:
                rounds.append(events)
                events = []
        at += 8 * count
        threads.append(rounds)
    return threads


def programs_of(threads: list[Rounds], processors: int) -> list[list[tuple[int, int, int, int]]]:
    """The program of each processor: the rounds of its threads, in turn."""
    programs: list[list[tuple[int, int, int, int]]] = [[] for _ in range(min(processors, len(threads)))]
    for number in range(max(map(len, threads))):
        for thread, rounds in enumerate(threads):
            if number < len(rounds):
                programs[thread % processors].extend(rounds[number])
    return programs


def postpone(program: list[tuple[int, int, int, int]], at: int) -> bool:
    """Handles the section that begins at `at`, whose lock was tried and found held. Moves the
    section after the next one of the same operation, as a wait for the lock. If there is no next
    section, the section was a search for objects of another shard, for which any shard is enough.
    It is then removed. The operations before the section are done. The length of the list does not
    change."""
    end = at
    while program[end][3] != RELEASED or program[end][1] != program[at][1]:
        end += 1
    section = program[at:end + 1]
    after = end + 1
    if after < len(program) and program[after][0] == 0 and program[after][3] in (ACQUIRED, TRIED):
        last = after
        while program[last][3] != RELEASED or program[last][1] != program[after][1]:
            last += 1
        first = (0, *program[after][1:])
        waits = (0, section[0][1], section[0][2], ACQUIRED)
        program[at:last + 1] = [first, *program[after + 1:last + 1], waits, *section[1:]]
    else:
        program[at:end + 1] = [(0, 0, 0, ROUND_ENDS)] * (end + 1 - at)
    return True


def play(threads: list[Rounds], processors: int, nodes: int, costs: Costs, seed: int = 1) -> Result:
    """Simulates the events on `processors` at once."""
    programs = programs_of(threads, processors)
    by_processor = [sum(e[0] for e in program) for program in programs]
    result = Result(processors)
    chance = random.Random(seed)
    node_of = [p * nodes // processors for p in range(len(programs))]
    # The processors begin at different times, since all rounds are alike.
    round_ns = costs.operation * max(1, sum(e[0] for e in programs[0]) // max(1, len(threads[0])))
    starts = [chance.random() * 4 * round_ns for _ in programs]
    ends = list(starts)
    position = [0] * len(programs)
    # For each processor, the times at which the holds that it has begun end.
    holds: list[list[float]] = [[] for _ in programs]
    holder: dict[int, int] = {}
    waiters: dict[int, collections.deque] = collections.defaultdict(collections.deque)
    last: dict[int, int] = {}
    due = [(start, p) for p, start in enumerate(starts)]
    # For each processor: True if the operations before its next event are done.
    ready = [False] * len(programs)
    heapq.heapify(due)

    def acquire(lock: int, rank: int, p: int, now: float) -> None:
        holder[lock] = p
        before = last.get(lock, p)
        last[lock] = p
        cost = costs.held.get(rank, 0)
        if before != p:
            cost += costs.lines.get(rank, OTHER_LINES) * (costs.line if node_of[before] == node_of[p] else costs.far_line)
        holds[p].append(now + cost)
        result.acquired[rank] += 1
        position[p] += 1
        ready[p] = False
        heapq.heappush(due, (now, p))

    while due:
        now, p = heapq.heappop(due)
        if position[p] == len(programs[p]):
            ends[p] = now
            continue
        operations, lock, rank, kind = programs[p][position[p]]
        if not ready[p]:
            ready[p] = True
            result.operations += operations
            then = now + operations * costs.operation
            if kind == RELEASED and holds[p]:
                then = max(then, holds[p][-1])
            heapq.heappush(due, (then, p))
            continue
        if kind == TRIED and lock in holder and postpone(programs[p], position[p]):
            result.passed_over[rank] += 1
            ready[p] = False
            heapq.heappush(due, (now, p))
            continue
        if kind in (ACQUIRED, TRIED):
            if lock in holder:
                result.contended[rank] += 1
                waiters[lock].append((p, rank, now))
            else:
                acquire(lock, rank, p, now)
            continue
        if kind == RELEASED and holder.get(lock) == p:
            holds[p].pop()
            del holder[lock]
            if waiters[lock]:
                other, its_rank, since = waiters[lock].popleft()
                result.waited_ns += now - since
                acquire(lock, its_rank, other, now)
        position[p] += 1
        ready[p] = False
        heapq.heappush(due, (now, p))
    result.rate = sum(1e9 * done / (end - start)
                      for done, start, end in zip(by_processor, starts, ends) if end > start)
    return result


def lines_by_rank(names: dict[int, str]) -> dict[int, int]:
    """The cache lines that move with each kind of lock."""
    return {rank: LINES.get(name, OTHER_LINES) for rank, name in names.items()}


def held_by_rank(counts: dict, scale: float) -> dict[int, float]:
    """Nanoseconds for which each kind of lock is held on average."""
    return {entry["rank"]: scale * entry["held_cycles"] / counts["cycles_per_ns"]
            for entry in counts["locks"].values()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=pathlib.Path, metavar="LOG",
                        help="NAME, where NAME.json and NAME.events were recorded")
    parser.add_argument("--processors", default="1,2,4,16,64,128,256")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--operation", type=float, default=10, help="ns of an operation without its locks")
    parser.add_argument("--line", type=float, default=80, help="ns for a line of another processor")
    parser.add_argument("--far", type=float, default=200, help="ns for a line of another node")
    parser.add_argument("--held", type=float, default=1, metavar="FACTOR",
                        help="times under a lock, as a part of the recorded ones: debug builds are slower")
    args = parser.parse_args()
    print(f"{args.operation:.0f} ns for an operation, {args.line:.0f} ns for a line, {args.far:.0f} ns "
          f"for one of another node; {args.nodes} nodes")
    print(f"{'row':<12} {'processors':>10} {'million/s':>10} {'of ideal':>9} {'contended/1000':>15}"
          "  by lock")
    for log in args.logs:
        counts = json.loads(log.with_suffix(".json").read_text())
        threads = read_events(log.with_suffix(".events"))
        names = {entry["rank"]: name for name, entry in counts["locks"].items()}
        costs = Costs(args.operation, args.line, args.far, held_by_rank(counts, args.held),
                      lines_by_rank(names))
        one = None
        for processors in map(int, args.processors.split(",")):
            result = play(threads, processors, min(args.nodes, processors), costs)
            one = one or result.rate / processors
            by_lock = ", ".join(f"{names[rank]} {1000 * n / result.operations:.2f}"
                                for rank, n in result.contended.most_common(3))
            print(f"{counts['row']:<12} {processors:>10} {result.rate / 1e6:>10.1f} "
                  f"{result.rate / (one * processors):>8.0%} {result.contended_per_thousand():>15.2f}  {by_lock}",
                  flush=True)


if __name__ == "__main__":
    main()
