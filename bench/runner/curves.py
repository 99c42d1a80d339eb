# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are points of curves: a program over numbers of threads, for each size of objects.

Two groups. "over-threads": the programs by which false sharing in TCMalloc was first reported, with
the parameters of that report, from one thread to eight for each processor. "large-objects": objects
of 16 KiB to 1 MiB, used by one thread, two and eight.

A point's name is PROGRAM/THREADS/SIZE, like the name of a point of t-test1. It has a reference like any
row, the best peer of the pilot round. A table says for each point whether this library's curve is
the lowest there. The geometric means do not include the points, since many of them measure the same thing.
"""

import collections
import dataclasses
import statistics as sample

from . import statistics, summary
from .programs import ProgramRow
from .verdict import COST_MARGIN

THREADS, LARGE = summary.POINT_GROUPS
TITLES = {THREADS: "Over threads", LARGE: "Large objects"}

# The text of a page before the table.
INTRODUCTIONS = {
    THREADS: "These are the programs by which false sharing in TCMalloc was reported, at that report's "
             "parameters: `larson` with objects of 7 to 8 bytes and with larger ones, "
             "`linux-scalability`, `cache-thrash` and `cache-scratch` with objects of 8 bytes. Each "
             "runs with 1, 2, 4, ... threads, up to 8 threads for each CPU. The best peer of a row is the "
             "other allocator that was fastest in a short trial before the measurement. The ratio is "
             "this library's time divided by the best peer's. The next column says *lowest* if the whole "
             f"interval of the ratio is below 1, *above* if it is above {1 + COST_MARGIN:.2f}, and *level* in all "
             "other rows. In the rows with *above*, the last column has this library's CPU time divided "
             "by the best peer's, and the page faults of both allocators.",
    LARGE: "Each page of an object is touched; the threads hold 32 MiB together. *Turned over*: a "
           "thread replaces a random one of its objects. *Held*: it allocates all its objects, then "
           "frees them in random order. Objects have from half of the size shown to all of it.",
}
# Bytes of the smallest and of the largest object. The first pair is that of the report on false sharing.
LARSON_SIZES = ((7, 8), (32, 64), (256, 512), (2048, 4096))
LARGE_SIZES = tuple(1024 << power for power in range(4, 11))
LARGE_THREADS = (1, 2, 8)
# The MiB that the threads of a program hold together.
LARGE_MIB = 32


@dataclasses.dataclass(frozen=True)
class PointRow(ProgramRow):
    group: str = THREADS
    nominal_s: float = 0.4


def thread_counts(processors):
    """1, 2, 4, ... up to eight for each processor."""
    most = 8 * processors
    return sorted({most} | {1 << power for power in range(most.bit_length()) if 1 << power < most})


def thread_rows(processors, quick):
    counts = thread_counts(processors)
    if quick:
        counts = [counts[0], counts[-1]]
    seconds, objects, writes = (0.03, 50_000, 100_000) if quick else (0.5, 1_000_000, 1_000_000)
    rows = []
    for smallest, largest in LARSON_SIZES[:1] if quick else LARSON_SIZES:
        rows += [_point(THREADS, "larson", count, largest,
                        (seconds, smallest, largest, 1000, 10_000, 1, count)) for count in counts]
    # With few threads the work is short, so the threads repeat it.
    rows += [_point(THREADS, "linux-scalability", count, 8,
                    (8, objects, count, max(16 // count, 1))) for count in counts]
    for program in ("cache-thrash", "cache-scratch"):
        rows += [_point(THREADS, program, count, 8, (count, 100, 8, writes)) for count in counts]
    return rows


def large_rows(quick):
    """The rows "turned over" and "held". Each of two threads does as much as one does alone."""
    sizes = (LARGE_SIZES[0], LARGE_SIZES[-1]) if quick else LARGE_SIZES
    rows = []
    for name, flags in (("large-turned-over", ()), ("large-held", ("--held",))):
        for threads in LARGE_THREADS:
            for size in sizes:
                allocations = large_allocations(size) // (50 if quick else 1)
                rows.append(_point(
                    LARGE, name, threads, size,
                    (*flags, threads, size, allocations * 2 // max(threads, 2), LARGE_MIB),
                    "large-objects"))
    return rows


def large_allocations(size):
    """The number of objects for about 100 ms, since every page of an object is touched. A multiple of 8."""
    pages = size * 3 // 4 // 4096
    return min(1_000_000, 100_000_000 // (20 + 11 * pages)) // 8 * 8


def point_rows(processors, quick=False):
    return thread_rows(processors, quick) + large_rows(quick)


def _point(group, name, threads, size, args, program=""):
    return PointRow(f"{name}/{threads}/{size}", program or name, args, group=group)


# ---- The results of a run at the points. ----

# A point's place among the curves. `word`: lowest, level, above, or "" without an interval.
Standing = collections.namedtuple("Standing", "name threads size ratio reference word why")
LOWEST, LEVEL, ABOVE = "lowest", "level", "above"


def standings(data, derived, group):
    """The Standing of this library at each point of the group, in the order of the rows."""
    ours = summary.first_of_ours(data)
    samples = summary.Samples(data["records"])
    found = []
    for row in data["rows"]:
        entry = derived["rows"].get(row["name"], {}).get(ours)
        if row["group"] != group or entry is None:
            continue
        name, threads, size = row["name"].split("/")
        ratio = entry["to_reference"]
        word = word_for(ratio)
        found.append(Standing(name, int(threads), int(size), ratio, row["reference"], word,
                              why(samples, row, ours) if word == ABOVE else ""))
    return found


def word_for(ratio):
    """The word "above" needs a margin: copies of one file differ by their place in memory."""
    if ratio is None or not statistics.has_interval(ratio):
        return ""
    if ratio.interval.high < 1:
        return LOWEST
    return LEVEL if ratio.interval.low <= 1 + COST_MARGIN else ABOVE


def why(samples, row, ours):
    """The counts of a point that lies above: CPU time and page faults relative to the reference's.

    CPU time is for the same work: for programs that run for a given time, it is the CPU time of an
    operation.
    """
    def middle(name, value):
        return sample.median(map(value, samples.records(row["name"], name)))

    reference = row["reference"]
    cpu = [middle(name, cpu_of_work) for name in (ours, reference)]
    faults = [middle(name, lambda record: record["minor_faults"]) for name in (ours, reference)]
    share = f"{cpu[0] / cpu[1]:.2f}" if cpu[1] > 0 else "-"
    return f"{share} times the peer's CPU time; {faults[0]:.0f} page faults (best peer: {faults[1]:.0f})"


def cpu_of_work(record):
    figure = record["metrics"][0]
    work = 1 if figure["better"] == "lower" else figure["value"] * record["wall_s"]
    return (record["user_s"] + record["sys_s"]) / work


def summary_sentence(found):
    """One sentence: at how many points this library is lowest, level, or above."""
    words = collections.Counter(standing.word for standing in found)
    told = sum(words[word] for word in (LOWEST, LEVEL, ABOVE))
    return (f"Of {told} rows, this library's time is the lowest in {words[LOWEST]}, level with the "
            f"best peer's in {words[LEVEL]}, and above it in {words[ABOVE]}.")


def standing_table(found):
    """For each point the ratio to the reference, and the word; sorted by program and size."""
    table = []
    for standing in sorted(found, key=lambda s: (s.name, s.size, s.threads)):
        table.append([standing.name, size_text(standing.size), str(standing.threads),
                      standing.reference or "-", statistics.interval_text(standing.ratio, digits=2),
                      standing.word or "-", standing.why])
    return ["program", "size", "threads", "best peer", "ratio [95 % interval]",
            "this library's time", "CPU time and page faults"], table


def two_threads_table(data):
    """Throughput of two threads divided by that of one, for each allocator."""
    samples = summary.Samples(data["records"])
    names = summary.measured_names(data)
    rows = {row["name"] for row in data["rows"] if row["group"] == LARGE and not row["missing"]}
    table = []
    for name in rows_in_order(rows):
        program, threads, size = name.split("/")
        if threads != "2" or f"{program}/1/{size}" not in rows:
            continue
        cells = []
        for allocator in names:
            alone, together = (samples.figure(f"{program}/{count}/{size}", allocator)
                               for count in (1, 2))
            cells.append("-" if alone is None or together is None
                         else f"{2 * alone.median / together.median:.2f}")
        table.append([program, size_text(int(size)), *cells])
    return ["two threads / one", "size", *names], table


def rows_in_order(names):
    return sorted(names, key=lambda name: (name.split("/")[0], int(name.split("/")[2]),
                                           int(name.split("/")[1])))


def size_text(size):
    for unit, text in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {text}"
    return f"{size} bytes"


def points(data, group):
    """(program, size) -> allocator -> sorted pairs of a number of threads and the median cost.

    The cost is the row's figure where less is better, else its inverse.
    """
    found = {}
    samples = summary.Samples(data["records"])
    for row in data["rows"]:
        if row["group"] != group or row["missing"]:
            continue
        program, threads, size = row["name"].split("/")
        for name in summary.measured_names(data):
            costs = samples.costs(row["name"], name)
            if costs:
                found.setdefault((program, int(size)), {}).setdefault(name, []).append(
                    (int(threads), sample.median(costs)))
    return {key: {name: sorted(line) for name, line in lines.items()}
            for key, lines in found.items()}
