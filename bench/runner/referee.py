# SPDX-License-Identifier: BSD-3-Clause
"""Two versions of the library, or two settings of one, measured in turns until a verdict stands.

The run is a sequence of passes. A pass measures every row that is not settled, both sides in pairs,
between two probes of the machine. A row is settled when its intervals are narrow, wherever they lie.
Passes during which the machine changed its state do not count.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import pathlib
import queue
import re
import shutil
import subprocess
import time

from . import apps, comparison, curves, instructions, machine_state, memory, peers, process
from . import programs, summary, verdict
from .process import BenchError, ProcessFailed

BASE, NEW = "base", "new"
KINDS = ("minimal", "full")
PASS = "pass"

# Rows that run only on request: they show little that others do not show, or take long.
NOT_BY_DEFAULT = re.compile(r"cache-(thrash|scratch)-1|xmalloc-test-1|larson-sized-.*|"
                            r"bytes-per-(16|48|100)|full/(?!micro-).*")
# A pass measures a row in as many pairs as fit into this time, at most four.
SECONDS_OF_A_PASS = 0.4
MOST_PAIRS_OF_A_PASS = 4
# A row is given up as imprecise after this many pairs.
MOST_PAIRS = 80


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of the comparison: measured in time and memory, or in instructions, or in both."""

    name: str
    kind: str
    timed: object = None
    counted: object = None

    @property
    def group(self):
        return self.timed.group if self.timed else "instructions"


def all_entries(threads, processors):
    """All existing rows, with the minimal library, and as full/NAME with the full one."""
    timed = {row.name: row for row in (
        *programs.micro_rows(), *programs.program_rows(threads, processors),
        *apps.app_rows(quick=True), *memory.memory_rows(), *curves.point_rows(processors))}
    counted = {row.name: row for row in instructions.rows()}
    entries = []
    for kind in KINDS:
        for name in [*timed, *(name for name in counted if name not in timed)]:
            shown = name if kind == "minimal" else f"{kind}/{name}"
            row = timed.get(name)
            entries.append(Entry(shown, kind, row and dataclasses.replace(row, name=shown),
                                 counted.get(name)))
    return entries


def choose(entries, wanted):
    """The rows whose name or group matches one of the patterns; without a pattern the default set.

    A pattern selects rows of the full library by their prefix, and points of curves by their group or
    by a slash.
    """
    if not wanted:
        return [entry for entry in entries if is_default(entry)]
    chosen = {}
    for pattern in wanted:
        try:
            matching = [entry for entry in entries
                        if (entry.kind == "minimal" or pattern.startswith(entry.kind))
                        and (pattern == entry.group or re.search(pattern, entry.name)
                             and ("/" in pattern or entry.group not in summary.POINT_GROUPS))]
        except re.error as error:
            raise BenchError(f"ROWS: {pattern} is no regular expression: {error}") from None
        if not matching:
            raise BenchError(f"ROWS: no row matches {pattern}; 'make compare ARGS=--list' prints "
                             "their names")
        chosen.update((entry.name, entry) for entry in matching)
    return list(chosen.values())


def is_default(entry):
    return (entry.group not in summary.POINT_GROUPS
            and not NOT_BY_DEFAULT.fullmatch(entry.name))


class Sides:
    """The two libraries, in new copies for every pair.

    The place of a file in memory, and the length of its path and of the environment, change a program's
    time by a few per cent. So both sides have names of equal length, and every pair has new copies, so
    that the errors of pairs are independent. Debug information is left out, since valgrind cannot read
    that of every compiler.
    """

    def __init__(self, libraries, environment, folder):
        """`libraries`: for each of BASE and NEW the path of each kind. `environment`: the variables of NEW."""
        self._folder = folder
        # The environments have the same number of bytes on both sides.
        self._environments = {BASE: {"_" * len(name): value for name, value in environment.items()},
                              NEW: environment}
        self._stripped = {}
        for side, paths in libraries.items():
            for kind, path in paths.items():
                stripped = folder / "stripped" / side / kind / pathlib.Path(path).name
                stripped.parent.mkdir(parents=True)
                strip(path, stripped)
                self._stripped[side, kind] = stripped
        self._numbers = itertools.count()  # several threads count instructions

    @contextlib.contextmanager
    def copies(self, kind):
        """Allocators BASE and NEW in files that no process has used yet; the files are removed afterwards."""
        folder = self._folder / f"{next(self._numbers):06}"
        made = {}
        for side in (BASE, NEW):
            path = self._stripped[side, kind]
            copy = folder / f"{side:_<4}" / path.name
            copy.parent.mkdir(parents=True)
            shutil.copyfile(path, copy)
            made[side] = peers.Allocator(side, str(copy.resolve()), source=kind,
                                         preload=str(copy.resolve()),
                                         environment=self._environments[side], ours=True)
        yield made
        shutil.rmtree(folder)


def strip(path, to):
    if not shutil.which("strip") or subprocess.run(["strip", "--strip-debug", "-o", to, path],
                                                   stderr=subprocess.DEVNULL).returncode != 0:
        shutil.copyfile(path, to)


class Referee:
    """Measures the entries; `outcomes` has at any time what is known of each."""

    def __init__(self, entries, sides, others, context, seed, deadline, progress, prober):
        """`others`: peers that take part in every pair."""
        self.entries = [entry for entry in entries if not missing(entry, context)]
        self.counts = collections.defaultdict(list)  # by entry's name and side
        self.count_failures = {}  # by entry's name and side
        self.probes = []
        self._sides = sides
        self._others = others
        self._context = context
        self._seed = seed
        self._deadline = deadline
        self._progress = progress
        self._prober = prober
        self._measurements = comparison.Measurements(context, seed, progress)
        timed = sum(bool(entry.timed) for entry in self.entries)
        # Each timed row has an interval for the cost and one for the peak memory.
        self.alarm = verdict.alarm_of_each(2 * timed)
        self._pair_seconds = {}
        self._next_round = collections.Counter()

    @property
    def records(self):
        return self._measurements.records

    def run(self):
        self._count()
        timed = [entry for entry in self.entries if entry.timed]
        if not timed:
            return
        self._pass(timed, number=-1)
        self.probes.append(self._prober.probe())
        number = 0
        while entries := self._unsettled(timed):
            expected_s = sum(self._pair_seconds[entry.name] * self._pairs_of_a_pass(entry)
                             for entry in entries)
            if number and time.monotonic() + expected_s > self._deadline:
                break
            self._pass(entries, number)
            self.probes.append(self._prober.probe())
            number += 1

    def _count(self):
        """Counts both sides of a row on the same processor, and rows on all processors at once."""
        processors = queue.SimpleQueue()
        for processor in sorted(os.sched_getaffinity(0)):
            processors.put(processor)

        def count(entry):
            processor = processors.get()
            with self._sides.copies(entry.kind) as allocators:
                try:
                    count_both(entry, processor, allocators)
                finally:
                    processors.put(processor)

        def count_both(entry, processor, allocators):
            try:
                for _ in range(instructions.COUNTS):
                    for side in (BASE, NEW):
                        self.counts[entry.name, side].append(entry.counted.count(
                            allocators[side], self._context, processor))
                    # Counts hardly vary, so a row is counted again only if it shows a difference.
                    if verdict.word_for(self._count_ratio(entry),
                                        verdict.INSTRUCTION_MARGIN) == verdict.SAME:
                        break
            except ProcessFailed as failure:
                self.count_failures[entry.name, side] = f"{failure}, under callgrind"

        counted = [entry for entry in self.entries
                   if entry.counted and not entry.counted.missing(self._context)]
        if counted:
            self._progress.say(f"counting instructions, rows: {len(counted)}")
        with concurrent.futures.ThreadPoolExecutor(processors.qsize()) as pool:
            list(pool.map(count, counted))

    def _count_ratio(self, entry):
        counts = [self.counts[entry.name, side] for side in (BASE, NEW)]
        return verdict.span_ratio(*counts) if all(counts) else None

    def _pass(self, entries, number):
        """The pass -1 proves which library serves and shows how long a pair takes; its results do not
        count."""
        warm_up = number < 0
        pairs = {entry: 1 if warm_up else self._pairs_of_a_pass(entry) for entry in entries}
        self._progress.plan({entry.timed: pairs[entry] * (2 + len(self._others))
                             for entry in entries})
        for entry in entries:
            for _ in range(pairs[entry]):
                started = time.monotonic()
                first = len(self.records)
                with self._sides.copies(entry.kind) as allocators:
                    self._measurements.run_row(
                        entry.timed, [*allocators.values(), *self._others],
                        comparison.WARM_UP if warm_up else PASS, self._next_round[entry.name],
                        prove=warm_up)
                self._next_round[entry.name] += 1
                for record in self.records[first:]:
                    record["pass"] = number
                self._pair_seconds[entry.name] = time.monotonic() - started

    def _pairs_of_a_pass(self, entry):
        seconds = max(self._pair_seconds[entry.name], 0.01)
        return min(max(round(SECONDS_OF_A_PASS / seconds), 1), MOST_PAIRS_OF_A_PASS)

    def odd_passes(self):
        """Why passes do not count; an empty list for those that do."""
        return machine_state.odd_rounds(self.probes)

    def samples(self):
        """The figures of the passes that count."""
        odd = self.odd_passes()
        return summary.Samples([record for record in self.records if "failure" in record
                                or record["pass"] >= 0 and not odd[record["pass"]]], (PASS,))

    def _unsettled(self, timed):
        samples = self.samples()
        return [entry for entry in timed if not self._is_settled(entry, samples)]

    def _is_settled(self, entry, samples):
        if any(samples.failure(entry.name, side) for side in (BASE, NEW)):
            return True
        cost, peak = self.ratios(entry, samples)
        pairs = len(samples.records(entry.name, NEW))
        if pairs < verdict.fewest_pairs(self.alarm):
            return False
        return pairs >= MOST_PAIRS or all(ratio is None or verdict.is_precise(ratio)
                                          for ratio in (cost, peak))

    def ratios(self, entry, samples, other=BASE):
        """NEW's Ratios to the other side in cost and in peak memory; None for a missing one."""
        def of(value):
            ratios = samples.round_ratios(entry.name, NEW, other, value)
            return verdict.signed_rank_ratio(ratios, self.alarm) if ratios else None

        return of(lambda record: summary.cost(record["metrics"][0])), of(
            lambda record: record["peak_rss_kib"])

    def outcome(self, entry, samples):
        """All that is known of a row."""
        failures = {side: what for side in (BASE, NEW)
                    if (what := samples.failure(entry.name, side)
                        or self.count_failures.get((entry.name, side), ""))}
        cost, peak = self.ratios(entry, samples) if entry.timed else (None, None)
        counted = self._count_ratio(entry)
        faults = samples.round_ratios(entry.name, NEW, BASE, lambda record: record["minor_faults"])
        word, reasons = verdict.of_row(cost, peak, counted)
        if failures:
            word, reasons = verdict.of_failures(NEW in failures, BASE in failures), []
        return Outcome(entry.name, word, reasons, cost, peak, counted,
                       verdict.signed_rank_ratio(faults, self.alarm) if faults else None,
                       {peer.name: self.ratios(entry, samples, peer.name)[0]
                        for peer in self._others} if entry.timed else {}, failures)

    def outcomes(self):
        samples = self.samples()
        return [self.outcome(entry, samples) for entry in self.entries]


# `peers`: the ratio in cost to each peer. `failures`: how a side failed.
Outcome = collections.namedtuple(
    "Outcome", "row word reasons cost peak instructions faults peers failures")


def missing(entry, context):
    """The reason why the entry cannot be measured at all, or nothing."""
    reasons = [row.missing(context) for row in (entry.timed, entry.counted) if row]
    return reasons[0] if all(reasons) else ""


def check_environment(allocator, context, timeout_s=60):
    """Raises an exception unless the library accepts every variable of NEW's environment."""
    finished = process.run([str(context.bin_folder / "bench_launch"),
                            *programs.assignments(allocator),
                            str(context.bin_folder / "bench_memory"), "once"],
                           programs.clean_environment(), timeout_s)
    complaints = [line for line in finished.errors.splitlines() if line.startswith("tcmalloc:")]
    if complaints:
        raise BenchError(f"WITH: the {allocator.source} library says: {complaints[0]}")
