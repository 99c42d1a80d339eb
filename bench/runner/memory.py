# SPDX-License-Identifier: BSD-3-Clause
"""Rows whose figure is memory: at start-up, per live object, over time, with idle threads.

These figures hardly vary, so they need few rounds.
"""

import dataclasses

from . import process, programs

OBJECT_SIZES = (8, 16, 24, 48, 100, 1000, 40_000)
# This is enough to make start-up memory negligible, and fits a small machine.
LIVE_BYTES = 400 << 20
MOST_OBJECTS = 10_000_000


@dataclasses.dataclass(frozen=True)
class ResidentRow:
    """One figure of bench_memory, which prints it after a keyword."""

    name: str
    args: tuple
    keyword: str
    unit: str
    group: str = "memory"
    timeout_s: float = 300
    nominal_s: float = 0.5

    def describe(self, context):
        return " ".join(("bench_memory", *self._args(context)))

    def missing(self, context):
        is_built = (context.bin_folder / "bench_memory").is_file()
        return "" if is_built else "bench_memory is not built"

    def _args(self, context):
        if self.args[0] != "live":
            return list(map(str, self.args))
        mode, size, count = self.args
        return [mode, str(size), str(count // 10 if context.quick else count)]

    def measure(self, allocator, context, prove):
        def run_once(extra):
            command = [str(context.bin_folder / "bench_launch"),
                       *programs.assignments(allocator, extra),
                       str(context.bin_folder / "bench_memory"), *self._args(context)]
            return process.run(command, programs.clean_environment(), self.timeout_s)

        if prove:
            process.prove_by_linker(
                allocator, lambda variables: run_once([f"{name}={value}" for name, value
                                                       in variables.items()]))
        finished = run_once([])
        words = finished.output.split()
        value = float(words[words.index(self.keyword) + 1])
        return {"metrics": [{"name": self.keyword, "value": value, "unit": self.unit,
                             "better": "lower"}],
                **{name: finished.report[name] for name in process.RESOURCES}}


def memory_rows():
    return [
        ResidentRow("start-up", ("once",), "rss_kib", "KiB"),
        *(ResidentRow(f"bytes-per-{size}", ("live", size, min(MOST_OBJECTS, LIVE_BYTES // size)),
                      "bytes_per_object", "bytes") for size in OBJECT_SIZES),
        program("idle-threads", (500,)),
        program("fragmentation", (2_000_000,), (200_000,)),
    ]


def course_rows(quick):
    """Memory over time. Such a row takes long, so it is measured less often."""
    def ramp(name, scattered):
        return programs.ProgramRow(name, "ramp", (512, 10, 2, 10, scattered),
                                   (64, 10, 0.3, 0.7, scattered), group="memory", nominal_s=14)

    return [ramp("ramp", 0), *([] if quick else [ramp("ramp-scattered", 1)]),
            *index_build_rows()]


# The most that the caches of all threads may hold, in allocators that know the variable.
INDEX_BUILD_CACHES = (("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", str(1 << 30)),)


def index_build_rows():
    """Threads take turns to rebuild the shards of an index, without phases and with phases."""
    def row(name, phases, ours_only):
        return programs.ProgramRow(
            name, "index-build", (200, phases), (20, phases, 1), group="memory", nominal_s=10,
            environment=INDEX_BUILD_CACHES, ours_only=ours_only)

    return [row("index-build", 0, False), row("index-build-phases", 1, True)]


def program(name, args=(), quick_args=None):
    return programs.ProgramRow(name, name, args, quick_args, group="memory")
