# SPDX-License-Identifier: BSD-3-Clause
"""The command of the comparison: 'make compare', scripts/compare.py."""

import argparse
import collections
import os
import pathlib
import re
import sys
import tempfile
import time

from . import build, cli, machine, machine_state, peers, programs, referee, report, verdict
from .process import BenchError
from .progress import Progress

EXIT_WORSE, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130
# With this time and the build of the other revision, the default rows take less than ten minutes.
DEFAULT_MINUTES = 7

# If other processes use more than this share of the CPU time, many rows stay unknown.
BUSY = 0.25

DESCRIPTION = """\
Compares the library of the working tree with that of another revision, or two settings of one
library: time, peak memory, page faults and instructions, and one word for each row.

  make compare BASE=HEAD~1
  make compare BASE=main ROWS='larson micro' PEERS='jemalloc mimalloc2'
  make compare WITH='TCMALLOC_RELEASE_RATE=0'
"""

EPILOG = """\
exit status: 0 no row is worse; 1 some row is; 2 an error
"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/compare.py", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="", metavar="REVISION",
                        help="the other side: a revision, or a folder of built libraries")
    parser.add_argument("--with", dest="settings", default="", metavar="'NAME=VALUE ...'",
                        help="the same library on both sides, the second with these variables: "
                             "the working tree's library, or that of --base")
    parser.add_argument("--rows", default="", metavar="'REGEX ...'",
                        help="only rows whose name, or group, matches one of these")
    parser.add_argument("--peers", default="", metavar="'NAME ...'",
                        help="other allocators to measure, for their ratios; NAME=PATH for a "
                             "library that the runner does not know")
    parser.add_argument("--minutes", type=minutes, default=DEFAULT_MINUTES,
                        help="measure for at most this many minutes (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the orders (default 1)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="the file for the raw data (default: in build/compare/)")
    parser.add_argument("--bin", type=pathlib.Path, metavar="FOLDER",
                        help="build nothing: the benchmark programs are in this folder, the libraries in "
                             "../lib")
    parser.add_argument("--list", action="store_true", help="print the rows and the peers, and exit")
    return parser.parse_args(arguments)


def minutes(text):
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def words(text):
    return text.replace(",", " ").split()


def settings(text):
    """The environment variables that WITH sets, from its text."""
    found = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise BenchError(f"WITH: {word} is not NAME=VALUE")
        found[name] = value
    return found


def find_peers(wanted, bin_folder):
    extra = [tuple(word.split("=", 1)) for word in wanted if "=" in word]
    names = [word.split("=", 1)[0] for word in wanted]
    allocators = {allocator.name: allocator for allocator in
                  peers.find(bin_folder.parent, cli.PEERS_FOLDER, extra=extra,
                             build_sources=False)[1:]}
    for name in names:
        if name not in allocators:
            raise BenchError(f"PEERS: there is no {name}; there are {', '.join(allocators)}")
        if allocators[name].missing:
            raise BenchError(f"PEERS: {name} is missing: {allocators[name].source}")
    return [allocators[name] for name in names]


def libraries(options, bin_folder, say):
    """The libraries of both sides, and a description of each side."""
    tree = {kind: bin_folder.parent / "lib" / file for kind, (_, file) in build.LIBRARIES.items()}
    tree_name = f"the working tree ({build.describe_tree()})"
    if pathlib.Path(options.base).is_dir() and options.base:
        base = {kind: pathlib.Path(options.base) / file
                for kind, (_, file) in build.LIBRARIES.items()}
        base_name = f"the libraries in {options.base}"
    elif options.base:
        base, commit = build.revision(options.base, say)
        base_name = f"{options.base} ({commit[:12]})"
    else:
        base, base_name = tree, tree_name
    if options.settings:
        tree, tree_name = base, f"the same with {options.settings}"
    for path in {*base.values(), *tree.values()}:
        if not path.is_file():
            raise BenchError(f"there is no library {path}")
    return ({referee.BASE: base, referee.NEW: tree},
            {referee.BASE: base_name, referee.NEW: tree_name})


def build_programs():
    targets = [target for target, _ in build.LIBRARIES.values()]
    return build.working_tree((*targets, *build.PROGRAMS)) / "bin"


def thread_counts():
    return sorted({1, max(machine.processors(), 2)})


def print_list(entries, context):
    print("rows (those with * by default; full/NAME is the row with the full library):")
    for entry in entries:
        if entry.kind != "minimal":
            continue
        measures = [word for word, row in (("time and memory", entry.timed),
                                           ("instructions", entry.counted)) if row]
        chosen = "*" if referee.is_default(entry) else " "
        why = referee.missing(entry, context)
        print(f"{chosen} {entry.group:13} {entry.name:22} {', '.join(measures)}"
              + (f"  [missing: {why}]" if why else ""))
    print("peers:")
    for allocator in peers.find(context.bin_folder.parent, cli.PEERS_FOLDER,
                                build_sources=False)[1:]:
        print(f"  {allocator.name:16} " + (f"missing: {allocator.source}" if allocator.missing
                                           else allocator.version))


def run(options, progress):
    """Measures and prints; returns the verdicts of the rows."""
    if not (options.base or options.settings or options.list):
        raise BenchError("nothing to compare with: give BASE=<revision>, for example BASE=HEAD, or "
                         "WITH='NAME=VALUE'")
    entries = referee.all_entries(thread_counts(), machine.processors())
    if options.list:
        folder = options.bin or cli.BUILD_FOLDER / "bin"
        print_list(entries, programs.Context(folder.absolute(), pathlib.Path()))
        return []
    # Finds mistakes in the arguments before the build, which takes minutes.
    chosen = referee.choose(entries, words(options.rows))
    environment = settings(options.settings)
    bin_folder = (options.bin or build_programs()).absolute()
    others = find_peers(words(options.peers), bin_folder)
    paths, names = libraries(options, bin_folder, progress.say)
    facts = machine.describe()
    started = time.monotonic()
    progress.deadline = started + 60 * options.minutes
    shared_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tcmalloc-compare-", dir=shared_memory) as folder:
        folder = pathlib.Path(folder)
        (folder / "work").mkdir()
        context = programs.Context(bin_folder, folder / "work", quick=True, compared=True,
                                   seed=options.seed, cpu=max(os.sched_getaffinity(0)))
        sides = referee.Sides(paths, environment, folder)
        if environment:
            for kind in sorted({entry.kind for entry in chosen}):
                with sides.copies(kind) as copies:
                    referee.check_environment(copies[referee.NEW], context)
        judge = referee.Referee(chosen, sides, others, context, options.seed, progress.deadline,
                                progress, machine_state.Prober(bin_folder))
        if not judge.entries:
            raise BenchError(f"no row can be measured: {referee.missing(chosen[0], context)}; "
                             "'scripts/setup.sh bench' installs what rows need")
        for side, name in names.items():
            progress.say(f"{side}: {name}")
        progress.say(f"seed {options.seed}, {len(judge.entries)} rows, at most "
                     f"{options.minutes:g} minutes")
        judge.run()
    progress.end()
    outcomes = judge.outcomes()
    print(text(outcomes, judge, names, [entry for entry in chosen if entry not in judge.entries],
               context))
    path = options.json or result_path(names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cli.as_json({
        "format": 1, "kind": "comparison", "sides": names,
        "run": {"seed": options.seed, "rows": options.rows, "with": options.settings,
                "duration_s": round(time.monotonic() - started, 1)},
        "machine": {**facts, "shared last-level cache": machine_state.shares_last_level_cache()},
        "verdicts": outcomes, "probes": judge.probes, "odd_passes": judge.odd_passes(),
        "counts": {f"{row} {side}": counts for (row, side), counts in judge.counts.items()},
        "records": judge.records}))
    print(f"raw data: {peers.portable(str(path))}")
    return [outcome.word for outcome in outcomes]


def result_path(names):
    name = re.sub(r"[^\w.-]+", "-", names[referee.BASE]).strip("-")
    return (build.COMPARE_FOLDER / "results"
            / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{name[:40]}.json")


# ---- Output. ----


def text(outcomes, judge, names, left_out, context):
    others = sorted({name for outcome in outcomes for name in outcome.peers})
    heading = ["row", "pairs", "cost, new / base", "peak RSS", "faults", "instructions",
               *(f"cost, new / {name}" for name in others), "verdict"]
    table = [[outcome.row, str(outcome.cost.rounds) if outcome.cost else "-",
              interval_text(outcome.cost), middle_text(outcome.peak),
              middle_text(outcome.faults), middle_text(outcome.instructions, 4),
              *(interval_text(outcome.peers.get(name)) for name in others),
              verdict_text(outcome)] for outcome in outcomes]
    lines = [*report.aligned(heading, table, last_left=True), "",
             *(f"{side}: {name}" for side, name in names.items()), *state_lines(judge)]
    for word in (verdict.WORSE, verdict.BETTER, verdict.SAME, verdict.UNKNOWN):
        rows = [outcome.row for outcome in outcomes if outcome.word == word]
        if rows:
            lines.append(f"{word}: {len(rows)}" + (f": {', '.join(rows)}" if word != verdict.SAME
                                                   else ""))
    fewest = verdict.fewest_pairs(judge.alarm)
    if any(outcome.cost and outcome.cost.interval is None for outcome in outcomes):
        lines.append(f"Fewer than {fewest} pairs tell nothing with this many rows: choose some "
                     "with ROWS=..., or give more time with ARGS='--minutes 20'.")
    elif any(outcome.word == verdict.UNKNOWN for outcome in outcomes):
        lines.append("unknown: the interval is too wide to tell a difference of "
                     f"{verdict.TOLD_APART:.0%}. ROWS='...' with those rows alone narrows it.")
    lines += [f"{entry.name} left out: {referee.missing(entry, context)}" for entry in left_out]
    return "\n".join(lines)


def interval_text(ratio):
    if ratio is None:
        return "-"
    if ratio.interval is None:
        return f"{ratio.median:.3f}"
    return f"{ratio.median:.3f} [{ratio.interval.low:.3f}, {ratio.interval.high:.3f}]"


def middle_text(ratio, digits=3):
    return "-" if ratio is None else f"{ratio.median:.{digits}f}"


# The name of a measure that decides a verdict.
MEASURES = {"cost": "cost", "peak": "peak RSS", "instructions": "instructions"}


def verdict_text(outcome):
    if outcome.failures:
        return outcome.word + ": " + "; ".join(f"{side} {what}"
                                               for side, what in outcome.failures.items())
    if outcome.word not in (verdict.BETTER, verdict.WORSE):
        return outcome.word
    return outcome.word + ": " + ", ".join(
        f"{MEASURES[reason.measure]} {100 * (reason.ratio.median - 1):+.1f} %"
        for reason in outcome.reasons)


def state_lines(judge):
    """Prints what the probes showed."""
    if len(judge.probes) < 2:
        return []
    known = ", ".join(f"{name} {middle:.3g} ({low:.3g} to {high:.3g})"
                      for name, (low, middle, high) in machine_state.seen(judge.probes).items())
    odd = judge.odd_passes()
    reasons = collections.Counter(name for names in odd for name in names)
    line = f"passes: {len(odd)}, left out: {sum(map(bool, odd))}"
    if reasons:
        line += " (" + ", ".join(
            f"{number} by {name}" for name, number in reasons.most_common()) + ")"
    lines = [f"machine: {known}; last level of cache shared: "
             f"{machine_state.shares_last_level_cache()}", line]
    busy = machine_state.seen(judge.probes).get("others", (0, 0, 0))[1]
    if busy > BUSY:
        lines.append(f"The machine was busy: others took {busy:.0%} of the processors' time. "
                     "A quiet machine tells more.")
    return lines


def main(arguments=None):
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    progress = Progress()
    try:
        found = run(options, progress)
        return EXIT_WORSE if verdict.WORSE in found else 0
    except (BenchError, ValueError) as error:
        progress.end()
        print(f"compare: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        progress.end()
        return EXIT_INTERRUPTED
