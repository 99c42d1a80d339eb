# SPDX-License-Identifier: BSD-3-Clause
"""The table of benchmark rows that this project's own programs run, and how each is measured.

A row is one program with one list of arguments. The arguments of the quick run do a fraction of the
work: they only try everything and give a first idea. In a comparison a row with several threads takes
100 ms or more: the kernel may let a thread that starts or wakes up wait for 3 ms, which would be a
large part of 10 ms.
"""

import dataclasses
import os
import pathlib
import shlex

from . import process


@dataclasses.dataclass
class Context:
    """The settings that all measurements of a run share."""

    bin_folder: pathlib.Path
    # The folder for input files and for the files that the measured programs write.
    work_folder: pathlib.Path
    quick: bool = False
    # True in a comparison of two libraries: less work than in a full run, but enough to measure a time.
    compared: bool = False
    seed: int = 1
    cpu: int = 0


@dataclasses.dataclass(frozen=True)
class ProgramRow:
    """A program that reports on itself, the library that served malloc included."""

    name: str
    program: str
    args: tuple = ()
    quick_args: tuple | None = None
    # The arguments for make compare; None: those of the quick run.
    compare_args: tuple | None = None
    group: str = "programs"
    # The time limit of one run, with a slow allocator on a slow machine.
    timeout_s: float = 300
    nominal_s: float = 1.0
    # Environment variables for every allocator: pairs of a name and a value.
    environment: tuple = ()
    # True if the row measures a feature that other allocators do not have.
    ours_only: bool = False

    def command(self, context):
        args = self.args
        if context.compared and self.compare_args is not None:
            args = self.compare_args
        elif context.quick and self.quick_args is not None:
            args = self.quick_args
        return [str(context.bin_folder / self.program), *map(str, args)]

    def describe(self, context):
        command = self.command(context)
        variables = [f"{name}={value}" for name, value in self.environment]
        return shlex.join([*variables, self.program, *command[1:]])

    def missing(self, context):
        if (context.bin_folder / self.program).is_file():
            return ""
        return f"{self.program} is not built"

    def measure(self, allocator, context, prove):
        environment = process.environment_for(allocator, dict(self.environment))
        finished = process.run(self.command(context), environment, self.timeout_s)
        report = finished.report
        if report is None or not report.get("metrics"):
            raise process.BenchError(f"{self.program} reported no figure")
        process.check_library(allocator, report.get("malloc_library", ""))
        return report_record(report)


def report_record(report):
    """The part of a program's report that is kept."""
    kept = ("metrics", *process.RESOURCES, "malloc_library", "series")
    return {key: report[key] for key in kept if key in report}


@dataclasses.dataclass(frozen=True)
class MicroRow:
    """One pattern of bench_micro: nanoseconds per pair of malloc and free."""

    name: str
    pattern: int
    group: str = "micro"
    timeout_s: float = 120
    nominal_s: float = 0.3

    def describe(self, context):
        return f"bench_micro child PROCESSOR {context.seed} {self.divisor(context)} {self.pattern}"

    def missing(self, context):
        return "" if (context.bin_folder / "bench_micro").is_file() else "bench_micro is not built"

    def divisor(self, context):
        """Each slice does this fraction of bench_micro's own work."""
        return 40 if context.quick else 10

    def measure(self, allocator, context, prove):
        command = [str(context.bin_folder / "bench_launch"),
                   *assignments(allocator), str(context.bin_folder / "bench_micro"), "child",
                   str(context.cpu), str(context.seed), str(self.divisor(context)),
                   str(self.pattern)]
        finished = process.run(command, clean_environment(), self.timeout_s)
        times, malloc_library = parse_micro(finished.output)
        process.check_library(allocator, malloc_library)
        middle = sorted(times)[len(times) // 2]
        return {"metrics": [{"name": "pair_ns", "value": middle, "unit": "ns", "better": "lower"}],
                **{name: finished.report[name] for name in process.RESOURCES},
                "malloc_library": malloc_library, "slices_ns": times}


def parse_micro(output):
    """The times and the library in the report of bench_micro's measured child."""
    fields = dict(line.partition(" ")[::2] for line in output.splitlines())
    if "done" not in fields:
        raise process.BenchError(f"bench_micro's report is incomplete: {output[:300]}")
    return [float(word) for word in fields["times"].split()[1:]], fields["malloc"]


def assignments(allocator, extra=()):
    """An allocator's variables as arguments of bench_launch."""
    preload = [f"LD_PRELOAD={allocator.preload}"] if allocator.preload else []
    return [*(f"{name}={value}" for name, value in allocator.environment.items()), *preload, *extra]


def clean_environment():
    """This process's environment with nothing preloaded, for bench_launch itself."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def micro_rows():
    return [MicroRow(f"micro-{name}", number)
            for number, name in enumerate(("pair", "burst", "random"))]


def program_rows(threads, processors):
    """The rows for these thread counts.

    If the work grows with the number of threads, a row has at most as many threads as there are processors.
    """
    parallel = [count for count in threads if count <= max(processors, 2)]
    several = [count for count in parallel if count > 1]
    two_and_all = sorted({several[0], several[-1]}) if several else []

    def rows(name, program, counts, args, quick_args, compare_args=lambda count: None):
        """One row per thread count; all arguments are functions of the thread count."""
        return [ProgramRow(f"{name}{count}", program, args(count), quick_args(count),
                           compare_args(count)) for count in counts]

    def cache_rows(program):
        return rows(program + "-", program, threads,
                    lambda t: (t, 1000, 1, 2_000_000, max(t, 2)),
                    lambda t: (t, 1000, 1, 200_000, max(t, 2)),
                    lambda t: (t, 1000, 1, 450_000, max(t, 2)))

    return [
        *rows("t-test1-", "t-test1", threads,
              lambda t: (20 if t == 1 else max(40, 2 * t), t, 500_000, 10_000, 400),
              lambda t: (2 if t == 1 else max(4, t), t, 200_000, 10_000, 400),
              lambda t: (34 if t == 1 else max(60, 2 * t), t, 200_000, 10_000, 400)),
        *cache_rows("cache-thrash"),
        *cache_rows("cache-scratch"),
        *rows("larson-", "larson", threads,
              lambda t: (1, 8, 1000, 5000, 100, 4141, t),
              lambda t: (0.15, 8, 1000, 5000, 100, 4141, t),
              lambda t: (0.11, 8, 1000, 5000, 100, 4141, t)),
        *rows("larson-sized-", "larson-sized", two_and_all,
              lambda t: (1, 8, 1000, 5000, 100, 4141, t),
              lambda t: (0.15, 8, 1000, 5000, 100, 4141, t),
              lambda t: (0.11, 8, 1000, 5000, 100, 4141, t)),
        *rows("linux-scalability-", "linux-scalability", two_and_all,
              lambda t: (512, 3_000_000 // t, t, 3), lambda t: (512, 300_000 // t, t),
              lambda t: (512, 300_000 // t, t, 36)),
        *rows("threadtest-", "threadtest", parallel,
              lambda t: (t, 250 * t, 100_000, 0, 8), lambda t: (t, 30 * t, 100_000, 0, 8),
              lambda t: (t, 110 * t, 100_000, 0, 8)),
        *rows("xmalloc-test-", "xmalloc-test", threads,
              lambda t: ("-w", t, "-t", 1, "-s", 64), lambda t: ("-w", t, "-t", 0.15, "-s", 64),
              lambda t: ("-w", t, "-t", 0.11, "-s", 64)),
        *rows("mstress-", "mstress", two_and_all,
              lambda t: (t, 50, 400), lambda t: (t, 30, 50), lambda t: (t, 30, 180)),
        *rows("rptest-", "rptest", two_and_all,
              lambda t: (t, 0, 1, 2, 15_000, 1000, 100, 8, 16_000),
              lambda t: (t, 0, 1, 2, 300, 1000, 100, 8, 16_000),
              lambda t: (t, 0, 1, 2, 15_000, 1000, 100, 8, 16_000)),
        *rows("mixed-churn-", "mixed-churn", [8],
              lambda t: (t, 20_000, 3_000_000), lambda t: (t, 20_000, 100_000),
              lambda t: (t, 20_000, 1_400_000)),
        *rows("growing-strings-", "growing-strings", two_and_all,
              lambda t: (t, 1000, 500, 10_000_000), lambda t: (t, 1000, 500, 500_000),
              lambda t: (t, 1000, 500, 4_500_000)),
        *rows("large-buffers-", "large-buffers", two_and_all,
              lambda t: (t, 16, 20_000), lambda t: (t, 16, 400), lambda t: (t, 16, 22_000)),
        ProgramRow("malloc-large", "malloc-large", (20, 1000), (20, 30)),
        # The compared sizes are larger than what an allocator keeps, so the figure shows the cost
        # of memory that is released and soon needed again.
        *rows("phases-", "phases", two_and_all, lambda t: (8, 150, t), lambda t: (2, 30, t),
              lambda t: (8, 150, t)),
        ProgramRow("vector-growth", "vector-growth", (1, 4, 32, 4), (1, 2, 8, 2), (1, 4, 32, 4)),
        *rows("lru-", "lru", two_and_all,
              lambda t: (t, 32, 1_000_000), lambda t: (t, 8, 100_000), lambda t: (t, 8, 1_500_000)),
        *rows("containers-", "containers", two_and_all,
              lambda t: (t, 50_000, 2), lambda t: (t, 8_000, 1), lambda t: (t, 8_000, 13)),
        *rows("message-batches-", "message-batches", [count // 2 for count in two_and_all],
              lambda t: (t, t, 20_000, 100), lambda t: (t, t, 2_000, 100),
              lambda t: (t, t, 18_000, 100)),
        *rows("short-threads-", "short-threads", two_and_all,
              lambda t: (20_000, t, 100), lambda t: (2_000, t, 100), lambda t: (3_000, t, 100)),
        *rows("thread-start-", "short-threads", two_and_all,
              lambda t: (20_000, t, 50), lambda t: (2_000, t, 50), lambda t: (3_500, t, 50)),
        *rows("shared-lines-", "shared-lines", [count for count in threads if count > 1],
              lambda t: (t, 8, 400_000 // t), lambda t: (t, 8, 20_000 // t, 10),
              lambda t: (t, 8, 100_000 // t, 10, 20, 300)),
        *rows("turns-", "turns", (32, 100, 200, 400),
              lambda t: (t, max(4_000 // t, 10)), lambda t: (t, max(400 // t, 2))),
        *(ProgramRow(f"fork-cost-{p}", "fork-cost", (p, 200), (p, 20)) for p in (1, 16)),
        ProgramRow("graph", "graph", (1_500_000, 5_000_000), (150_000, 500_000),
                   (250_000, 600_000)),
        ProgramRow("scattered-nodes", "scattered-nodes", (1_500_000, 5_000_000),
                   (150_000, 500_000), (500_000, 1_000_000)),
    ]


def latency_rows(processors, quick):
    """The times of single calls. Their first figure, which is compared, is the p99.9 of malloc."""
    calls = 100_000 if quick else 3_000_000
    return [ProgramRow(f"call-latency-{threads}", "call-latency", (threads, 20_000, calls),
                       group="latency", nominal_s=2) for threads in (1, max(processors, 2))]


# The two figure sets of the TCMalloc document: throughput against the largest size for each number
# of threads, and throughput per CPU second against the number of threads for each size. The
# document ends at 128 KiB.
SWEEP_THREADS = (1, 2, 3, 4, 5, 8, 12, 16, 20)
SWEEP_SIZES = tuple(64 << power for power in range(15))  # 64 bytes to 1 MiB
SWEEP_OPERATIONS = 1_000_000  # of each thread
# Each operation touches all pages of its object, so fewer operations with larger objects take as long.
SWEEP_LARGEST_OF_ALL_OPERATIONS = 128 << 10


@dataclasses.dataclass(frozen=True)
class SweepRow(ProgramRow):
    """One point of the figure sets."""

    threads: int = 1
    size: int = 64
    operations: int = SWEEP_OPERATIONS
    group: str = "sweep"


def sweep_operations(size):
    return min(SWEEP_OPERATIONS, SWEEP_OPERATIONS * SWEEP_LARGEST_OF_ALL_OPERATIONS // size)


def sweep_rows(quick):
    threads = (1, 2, 8, 20) if quick else SWEEP_THREADS
    sizes = (*SWEEP_SIZES[:12:5], SWEEP_SIZES[-1]) if quick else SWEEP_SIZES
    return [sweep_row(count, size, sweep_operations(size) // (50 if quick else 1), quick)
            for count in threads for size in sizes]


def sweep_row(threads, size, operations, quick):
    return SweepRow(name=f"t-test1/{threads}/{size}", program="t-test1", threads=threads, size=size,
                    operations=operations, nominal_s=0.05 if quick else 0.5,
                    args=(threads, threads, operations, size))
