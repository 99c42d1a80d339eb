#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints how many lines and branches of src/ the tests run, by folder, counted by gcov.

The build has no optimisation and no asserts, because the branches of asserts never run. It runs the unit tests, and the
tests of entry points, processes and gperftools' programs on the full library. It does not count processes that end by a signal
or by _exit, or that a sandbox keeps from writing their counters: tests of these may fail here, and a failure means nothing.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import source

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
KINDS = ("unit", "entry", "process", "compat")
TEST_TIMEOUT_S = 300


def counts_of(notes):
    """gcov's counts for one compiled file: [(source, line, count, [branch counts])]."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", str(notes)],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = []
    for text in done.stdout.splitlines():
        document = json.loads(text)
        for file in document["files"]:
            path = pathlib.Path(document["current_working_directory"], file["file"]).resolve()
            if any(path.is_relative_to(ROOT / folder) for folder in source.LIBRARY_FOLDERS):
                name = path.relative_to(ROOT).as_posix()
                # Leaves out the branches that the compiler adds for exceptions.
                found += [(name, line["line_number"], line["count"],
                           [branch["count"] for branch in line["branches"] if not branch["throw"]])
                          for line in file["lines"]]
    return found


def percent(part, whole):
    return f"{100 * part / whole:5.1f} % of {whole:6}" if whole else f"{'-':>17}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=KINDS, help="only tests of this kind (repeatable)")
    parser.add_argument("--no-run", action="store_true", help="run no test; count what earlier runs have recorded")
    parser.add_argument("--files", action="store_true", help="print a line per file instead of per folder")
    parser.add_argument("--missed", metavar="FILE", help="print the lines of a file that were not run")
    options = parser.parse_args()
    kinds = options.kind or KINDS
    jobs = len(os.sched_getaffinity(0))
    if not options.no_run:
        for command in (["cmake", "--preset", "coverage", "--log-level=WARNING"],
                        ["cmake", "--build", "--preset", "coverage", "-j", str(jobs), "--target",
                         *(f"tests_{kind}" for kind in kinds)]):
            if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
                return f"coverage: this command failed: {' '.join(command)}"
        for counters in BUILD.rglob("*.gcda"):
            counters.unlink()
        subprocess.run(["ctest", "-L", f"^({'|'.join(kinds)})$", "-j", str(2 * jobs), "--timeout", str(TEST_TIMEOUT_S),
                        "--progress", "--quiet"], cwd=BUILD)
    lines = collections.defaultdict(collections.Counter)  # file -> line -> how often
    branches = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(counts_of, sorted((BUILD / "src").rglob("*.gcno"))):
            for name, line, count, ways in found:
                lines[name][line] += count
                # A line of a template or a header is compiled several times, each time with the same branches.
                for number, way in enumerate(ways):
                    branches[name][line][number] += way
    if not lines:
        return f"coverage: {BUILD} has no counts: run it without --no-run"
    if options.missed:
        text = (ROOT / options.missed).read_text().splitlines()
        for line, count in sorted(lines[options.missed].items()):
            if not count:
                print(f"{line:6}  {text[line - 1]}")
        return 0
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name in lines:
        ways = [count for of_line in branches[name].values() for count in of_line.values()]
        figures = (sum(map(bool, lines[name].values())), len(lines[name]), sum(map(bool, ways)), len(ways))
        for row in (name if options.files else name.rpartition("/")[0], "all"):
            rows[row] = [a + b for a, b in zip(rows[row], figures)]
    total = rows.pop("all")
    for row, figures in [*sorted(rows.items()), ("all", total)]:
        print(f"{row:40} lines {percent(*figures[:2])}   branches {percent(*figures[2:])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
