# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of measurements: every row with every allocator, in an order shuffled anew each time.

A stage has these rounds. The warm-up round has less work; it also checks which library serves
malloc if the program cannot report it. The pilot rounds only choose each row's reference peer: if
the counted rounds chose it, the best of many noisy peers would be best partly by luck. The counted
rounds follow, and, for rows that are still uncertain, more rounds of ours and the reference.

Before each run the runner touches as much free memory as the row has needed so far, so that the time
until the OS provides memory does not depend on earlier runs.

The measurements are kept as plain records, which are written to the JSON file unchanged.
"""

import dataclasses
import random
import time

from . import process, statistics, summary
from .process import BenchError, ProcessFailed

WARM_UP, PILOT, COUNTED, REPEAT = "warm-up", "pilot", "counted", "repeat"


@dataclasses.dataclass(frozen=True)
class Schedule:
    warm_up: bool = True
    pilot_rounds: int = 1
    rounds: int = 5
    # An uncertain row is repeated up to this many rounds in all.
    max_rounds: int = 15
    # No round starts that would end later than this (on time.monotonic()); one round is always counted.
    deadline: float | None = None


@dataclasses.dataclass(frozen=True)
class Stage:
    rows: list
    schedule: Schedule


class Measurements:
    """Measures rows, one round at a time, and keeps the results."""

    def __init__(self, context, seed, progress):
        self.records = []
        self._context = context
        self._random = random.Random(seed)
        self._progress = progress
        self._failed = set()
        # The most memory that each row has taken so far.
        self._most_kib = {}

    def run_row(self, row, allocators, phase, number, prove=False, context=None):
        """The row with each allocator, in an order drawn at random."""
        order = list(allocators)
        self._random.shuffle(order)
        for position, allocator in enumerate(order):
            if (row.name, allocator.name) in self._failed:
                self._progress.skip(row)
                continue
            self._progress.start(row, allocator, phase, number)
            record = {"row": row.name, "allocator": allocator.name, "phase": phase,
                      "round": number, "position": position}
            process.warm_memory(self._context.bin_folder, self._most_kib.get(row.name, 0))
            started = time.monotonic()
            try:
                record.update(row.measure(allocator, context or self._context, prove))
            except ProcessFailed as failure:
                record["failure"] = str(failure)
                self._failed.add((row.name, allocator.name))
                self._progress.failed(row, allocator, str(failure))
            except BenchError as error:
                raise type(error)(f"{row.name}: {error}") from None
            record["elapsed_s"] = round(time.monotonic() - started, 4)
            self._most_kib[row.name] = max(self._most_kib.get(row.name, 0),
                                           int(record.get("peak_rss_kib", 0)))
            self.records.append(record)
            self._progress.finish(row, record["elapsed_s"])


class Comparison(Measurements):
    def __init__(self, allocators, stages, context, seed, progress):
        super().__init__(context, seed, progress)
        self.allocators = [allocator for allocator in allocators if not allocator.missing]
        self.stages = stages
        self.row_records = []
        self._seed = seed

    def run(self):
        self._progress.plan(self._planned())
        for stage in self.stages:
            self._run_stage(stage)

    def _planned(self):
        """How many runs of each row are still planned, as far as that is known."""
        planned = {}
        for stage in self.stages:
            schedule = stage.schedule
            rounds = schedule.warm_up + schedule.pilot_rounds + schedule.rounds
            for row in stage.rows:
                if not row.missing(self._context):
                    planned[row] = rounds * len(self._allocators_for(row))
        return planned

    def _allocators_for(self, row):
        return self._ours() if getattr(row, "ours_only", False) else self.allocators

    def _run_stage(self, stage):
        schedule = stage.schedule
        described = {row: describe_row(row, self._context) for row in stage.rows}
        self.row_records += described.values()
        rows = [row for row in stage.rows if not described[row]["missing"]]
        if schedule.warm_up:
            self._run_round(rows, WARM_UP, 0)
        for number in range(schedule.pilot_rounds):
            self._run_round(rows, PILOT, number, prove=number == 0 and not schedule.warm_up)
        for row in rows:
            self._choose_references(described[row])
        for number in range(schedule.rounds):
            started = time.monotonic()
            self._run_round(rows, COUNTED, number)
            now = time.monotonic()
            if schedule.deadline is not None and now + (now - started) > schedule.deadline:
                self._progress.drop(rows)
                break
        self._repeat(rows, described, schedule)
        for row in rows:
            described[row]["noise"] = self._is_uncertain(described[row])

    def _run_round(self, rows, phase, number, prove=None):
        prove = phase == WARM_UP if prove is None else prove
        # A run with less work warms the machine's caches as well.
        context = (dataclasses.replace(self._context, quick=True) if phase == WARM_UP
                   else self._context)
        for row in rows:
            self.run_row(row, self._allocators_for(row), phase, number, prove, context)

    def _choose_references(self, description):
        """The best peer of the pilot by the row's own figure, and by peak memory."""
        pilot = summary.Samples(self.records, phases=(PILOT,))
        peers = [allocator.name for allocator in self.allocators if not allocator.ours]
        name = description["name"]
        description["reference"] = best_of({peer: pilot.costs(name, peer) for peer in peers})
        description["memory_reference"] = best_of({peer: pilot.peaks(name, peer) for peer in peers})

    def _ours(self):
        return [allocator for allocator in self.allocators if allocator.ours]

    def _is_uncertain(self, description):
        """True if the interval of the ratio of one of ours to the reference is too wide."""
        counted = summary.Samples(self.records)
        for ours in self._ours():
            ratio = counted.cost_ratio(description["name"], ours.name, description["reference"],
                                       self._seed)
            if ratio is not None and statistics.is_noise(ratio):
                return True
        return False

    def _repeat(self, rows, described, schedule):
        number = schedule.rounds
        while number < schedule.max_rounds:
            uncertain = [row for row in rows if self._is_uncertain(described[row])]
            if not uncertain:
                return
            # A few rounds at a time: the check above costs thousands of resamples a row.
            more = min(max(2, schedule.rounds // 2), schedule.max_rounds - number)
            self._progress.plan({row: more * (len(self._ours()) + 1) for row in uncertain})
            for _ in range(more):
                for row in uncertain:
                    reference = described[row]["reference"]
                    pair = [allocator for allocator in self.allocators
                            if allocator.ours or allocator.name == reference]
                    self.run_row(row, pair, REPEAT, number)
                number += 1


def describe_row(row, context):
    return {"name": row.name, "group": row.group, "command": row.describe(context),
            "missing": row.missing(context), "reference": None, "memory_reference": None,
            "noise": False}


def best_of(samples):
    """The name with the smallest median; None if there is no figure."""
    medians = {name: statistics.median(values) for name, values in samples.items() if values}
    return min(medians, key=medians.get) if medians else None
