# SPDX-License-Identifier: BSD-3-Clause
"""The command: options, the plan of a run, and where its results go."""

import argparse
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
import time

from . import (apps, comparison, curves, documents, machine, memory, peers, plots, programs, report,
               server, statistics, summary)
from .process import BenchError
from .progress import Progress

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_FOLDER = ROOT / "build" / "release"
PEERS_FOLDER = ROOT / "build" / "peers"
RESULTS_FOLDER = ROOT / "bench" / "results"
QUICK_FOLDER = ROOT / "build" / "bench"

# All of a quick run, from a built tree, takes less than five minutes.
QUICK_SECONDS = 270
EXIT_FAILED, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130

DESCRIPTION = """\
Measures this project's allocator and others: benchmark programs, real programs, memory. Prints
tables, and writes the raw data (JSON), plots (SVG, if matplotlib is installed) and a page.
"""

EPILOG = """\
A full run writes to bench/results/, any other run to build/bench/, unless --output names a folder.
exit status: 0 done; 1 our library crashed or failed somewhere; 2 an error, for example if the
wrong library served malloc
"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.py", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="a fraction of the work, less than five minutes: a first impression")
    parser.add_argument("--only", action="append", metavar="REGEX", default=[],
                        help="only rows whose name, or group, matches; repeatable")
    parser.add_argument("--rounds", type=positive, help="counted rounds (default 5, quick 3)")
    parser.add_argument("--max-rounds", type=positive,
                        help="at most this many rounds for an uncertain row (default 3 * --rounds)")
    parser.add_argument("--seed", type=int, default=1, help="seed of orders and bootstraps (default 1)")
    parser.add_argument("--ours", action="append", type=named_path, default=[],
                        metavar="NAME=PATH", help="measure this library as ours; repeatable")
    parser.add_argument("--peer", action="append", type=named_path, default=[],
                        metavar="NAME[@VERSION]=PATH",
                        help="also measure this library, as a peer, in place of the usual one of that name; repeatable")
    parser.add_argument("--without", action="append", default=[], metavar="NAME",
                        help="leave this peer out; repeatable")
    parser.add_argument("--threads", type=positive, action="append",
                        help="thread counts of the rows (default: 1, 2, ... to the CPUs, 8); points "
                             "of curves keep theirs")
    parser.add_argument("--compare", type=pathlib.Path, metavar="OLD.json",
                        help="at the end, compare our library with an earlier run")
    parser.add_argument("--report", type=pathlib.Path, metavar="RUN.json",
                        help="measure nothing: make tables, plots and page of an earlier run")
    parser.add_argument("--documents", action="store_true",
                        help="measure nothing: make bench/results/README.md and the marked parts "
                             "of README.md and docs/ from the newest full run")
    parser.add_argument("--server", type=positive, metavar="MINUTES",
                        help="instead of the rows: a redis-server on each allocator for that long, all "
                             "at the same time, and their memory over time; 60 is a full run")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the file for the raw data")
    parser.add_argument("--output", type=pathlib.Path, metavar="FOLDER",
                        help="the folder for all output")
    parser.add_argument("--bin", type=pathlib.Path, default=BUILD_FOLDER / "bin", metavar="FOLDER",
                        help="the folder of the benchmark programs")
    parser.add_argument("--no-peer-builds", action="store_true",
                        help="do not fetch and compile peers from source")
    parser.add_argument("--list", action="store_true", help="print rows and allocators, and exit")
    options = parser.parse_args(arguments)
    if options.report and options.list:
        parser.error("--report and --list exclude each other")
    return options


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def named_path(text):
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"takes NAME=PATH, not {text}")
    return name, path


def chosen(rows, patterns):
    if not patterns:
        return rows
    return [row for row in rows
            if any(re.search(pattern, row.name) or pattern == row.group for pattern in patterns)]


def plan(options, started):
    """The stages of the run."""
    quick = options.quick
    processors = machine.processors()
    counts = options.threads or ([1, max(processors, 2)] if quick
                                 else machine.thread_counts(processors))
    rounds = options.rounds or (3 if quick else 5)
    if options.max_rounds:
        max_rounds = max(options.max_rounds, rounds)
    else:
        max_rounds = rounds if quick else 3 * rounds
    deadline = started + QUICK_SECONDS if quick and not options.rounds else None
    timed = comparison.Schedule(warm_up=not quick, rounds=rounds, max_rounds=max_rounds,
                                deadline=deadline)
    # Memory figures hardly vary, so few rounds are enough.
    few = min(rounds, 1 if quick else 2)
    steady = comparison.Schedule(warm_up=False, rounds=few, max_rounds=few)
    once = comparison.Schedule(warm_up=False, pilot_rounds=0, rounds=1, max_rounds=1)
    # There are many points; an interval needs three rounds.
    few = min(rounds, 1 if quick else statistics.FEWEST_ROUNDS)
    points = comparison.Schedule(warm_up=False, rounds=few, max_rounds=few)
    stages = [
        (memory.memory_rows(), steady),
        (memory.course_rows(quick) + programs.sweep_rows(quick), once),
        (curves.point_rows(processors, quick) + programs.latency_rows(processors, quick), points),
        (programs.micro_rows() + programs.program_rows(counts, processors)
         + apps.app_rows(quick), timed),
    ]
    return [comparison.Stage(rows, schedule) for all_rows, schedule in stages
            if (rows := chosen(all_rows, options.only))]


def find_allocators(options, progress):
    allocators = peers.find(
        options.bin.parent, PEERS_FOLDER, options.ours, options.peer,
        build_sources=not (options.no_peer_builds or options.quick or options.list),
        jobs=machine.processors(), say=progress.say)
    names = {allocator.name for allocator in allocators}
    for name in options.without:
        if name not in names:
            raise BenchError(f"--without {name}: there is no allocator of this name")
    return [allocator for allocator in allocators if allocator.name not in options.without]


def measure(options, progress):
    """The data of a new run."""
    started = time.monotonic()
    allocators = find_allocators(options, progress)
    for allocator in allocators:
        if allocator.ours and allocator.missing:
            raise BenchError(f"{allocator.name}: no library, {allocator.source}")
    stages = plan(options, started)
    if not stages:
        raise BenchError(f"no row matches {' '.join(options.only)}")
    facts = machine.describe()
    # Databases of the measured programs must not wait for a disk.
    shared_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tcmalloc-bench-", dir=shared_memory) as folder:
        context = programs.Context(
            bin_folder=options.bin.absolute(), work_folder=pathlib.Path(folder),
            quick=options.quick, seed=options.seed, cpu=max(os.sched_getaffinity(0)))
        run = comparison.Comparison(allocators, stages, context, options.seed, progress)
        progress.say(f"seed {options.seed}, {len(run.allocators)} allocators, "
                     f"{sum(len(stage.rows) for stage in stages)} rows")
        interrupted = False
        try:
            run.run()
        except KeyboardInterrupt:
            interrupted = True
            progress.say("interrupted: reporting the rounds so far")
    progress.end()
    return {
        "format": 1,
        "run": {"command_line": without_folders(peers.portable(shlex.join(["scripts/bench.py", *sys.argv[1:]])), options),
                "seed": options.seed, "quick": options.quick, "interrupted": interrupted,
                "schedules": [vars(stage.schedule) | {"deadline": None} for stage in stages],
                "duration_s": round(time.monotonic() - started, 1)},
        "machine": {**facts, "matplotlib": plots.available() or "none"},
        "allocators": recorded(allocators, options),
        "rows": run.row_records,
        "records": [{name: without_folders(item, options) if name == "malloc_library" else item for name, item in record.items()}
                    for record in run.records],
    }


def recorded(allocators, options):
    """What the data of a run says of the allocators."""
    return [without_folders(vars(allocator) | {"missing": allocator.missing}, options) for allocator in allocators]


def without_folders(value, options):
    """The value without the folders of the libraries that the user named."""
    text = json.dumps(value)
    for _, path in [*options.ours, *options.peer]:
        for folder in (os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))):
            text = text.replace(f"{folder}/", "")
    return json.loads(text)


def output_folder(options, data):
    if options.output:
        return options.output
    full = not (options.quick or options.only or options.report or options.without
                or data["run"]["interrupted"])
    return RESULTS_FOLDER if full else QUICK_FOLDER


def write_results(options, data, derived):
    """Writes data, plots and page; returns a text that says what was written."""
    folder = output_folder(options, data)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    machine_name = re.sub(r"[^\w.-]+", "-", data["machine"]["name"]) or "machine"
    json_path = options.json or options.report
    if not json_path:
        json_path = folder / f"{data['machine']['time'][:10]}-{machine_name}.json"
    if not options.report:
        json_path.write_text(as_json({**data, "summary": derived}))
        written.append(f"raw data: {json_path}")
    written += draw(data, derived, folder, json_path)
    for name, text in documents.results_files(folder, json_path, data, derived).items():
        (folder / name).write_text(text)
        written.append(f"written: {folder / name}")
    if folder == RESULTS_FOLDER:
        documents.retire(folder, json_path)
        written += [f"written: {path}" for path in documents.write(ROOT)]
    return written


def draw(data, derived, folder, json_path):
    if not plots.available():
        return ["no plots: matplotlib is not installed for this Python"]
    drawn = plots.draw_all(data, derived, folder, json_path.name)
    return [f"plots: {len(drawn)} SVG files in {folder}"]


def write_documents():
    """Generates everything again that comes from the newest full run; returns a text that says what changed.

    The summary is computed again from the records, since the old one may come from an older runner.
    """
    json_path = documents.newest_run(ROOT)
    data = documents.load(json_path)
    derived = summary.summarize(data)
    json_path.write_text(as_json({**data, "summary": derived}))
    return [*draw(data, derived, json_path.parent, json_path),
            *(f"written: {path}" for path in documents.write(ROOT))]


def as_json(data):
    """One record per line, so that people can read, search and compare the file by line."""
    parts = []
    for name, value in data.items():
        if name in ("rows", "records", "allocators"):
            lines = ",\n".join(json.dumps(plain(item)) for item in value)
            parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(plain(value))}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def plain(value):
    """The value with named tuples as objects, and without the path of the repository."""
    if isinstance(value, str):
        return peers.portable(value)
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def measure_server(options, progress):
    """Runs the servers, and returns the lines to print."""
    allocators = [one for one in find_allocators(options, progress) if not one.missing]
    facts = machine.describe()
    with tempfile.TemporaryDirectory(prefix="tcmalloc-bench-") as folder:
        records = server.run(allocators, options.server, options.seed, pathlib.Path(folder), progress)
    progress.end()
    data = {"format": 1, "minutes": options.server, "seed": options.seed, "machine": facts,
            "allocators": recorded(allocators, options), "columns": server.COLUMNS, "records": records}
    full = options.server >= server.FULL_MINUTES and not options.without
    folder = options.output or (RESULTS_FOLDER if full else QUICK_FOLDER) / documents.SERVER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / documents.SERVER_DATA).write_text(json.dumps(plain(data)) + "\n")
    drawn = plots.available() and plots.draw_server(data, folder)
    return [*report.aligned(*server.table(data)), "", f"data: {folder / documents.SERVER_DATA}",
            f"plot: {folder / drawn}" if drawn else "no plot: matplotlib is not installed for this Python"]


def print_list(options, progress):
    allocators = find_allocators(options, progress)
    context = programs.Context(options.bin.absolute(), pathlib.Path("WORK"), options.quick)
    print("allocators:")
    for allocator in allocators:
        print(f"  {allocator.name:16} " + (f"missing: {allocator.source}" if allocator.missing
                                           else f"{allocator.version}  {allocator.library}"))
    for stage in plan(options, time.monotonic()):
        for row in stage.rows:
            missing = row.missing(context)
            print(f"{row.group:9} {row.name:24} {row.describe(context)}"
                  + (f"  [missing: {missing}]" if missing else ""))


def main(arguments=None):
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    progress = Progress()
    try:
        if options.list:
            print_list(options, progress)
            return 0
        if options.documents:
            print("\n".join(write_documents()))
            return 0
        if options.server:
            print("\n".join(measure_server(options, progress)))
            return 0
        old = documents.load(options.compare) if options.compare else None
        data = documents.load(options.report) if options.report else measure(options, progress)
        derived = summary.summarize(data)
        print(report.terminal(data, derived))
        for line in write_results(options, data, derived):
            print(line)
        if old:
            print(f"\nOurs beside {options.compare}:")
            print(report.comparison_text(summary.compare(data, old, data["run"]["seed"])))
        ours = {allocator["name"] for allocator in data["allocators"] if allocator["ours"]}
        failed = [failure for failure in derived["failures"] if failure["allocator"] in ours]
        if data["run"]["interrupted"] and not options.report:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if failed else 0
    except (BenchError, ValueError) as error:
        progress.end()
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        progress.end()
        return EXIT_INTERRUPTED
