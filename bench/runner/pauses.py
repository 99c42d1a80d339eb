# SPDX-License-Identifier: BSD-3-Clause
"""The measured pauses of processes that the command reads, from bench/results/inspection-pauses.txt, and what documents show of
them. bench_inspection_pauses and bench_leak_pauses print the tables of that file."""

from . import report
from .process import BenchError

FILE = "bench/results/inspection-pauses.txt"
OWN = "own checker: pause, ms"
SNAPSHOT = "--snapshot: pause, ms"
LEAKS = "tcmalloc leaks: pause, ms"
# Maps a part of a document to a column that only its table has, and to {column: its name in the document}.
SHOWN = {
    "pauses": ("99 %, ms", {name: name for name in ("command", "threads", "heap, GiB", "copied, MiB")} | {
        "median, ms": "median pause, ms", "99 %, ms": "99th percentile, ms", "most, ms": "longest, ms"}),
    "leak-pauses": (OWN, {
        "heap, GiB": "heap, GiB", "copied, MiB": "copied, MiB", LEAKS: "pause of `leaks`, ms",
        "whole search, ms": "whole search of `leaks`, ms", OWN: "pause of the library's own checker, ms"}),
    "snapshot-pauses": (SNAPSHOT, {
        "heap, GiB": "heap, GiB", LEAKS: "pause of `leaks`, ms", SNAPSHOT: "pause of `leaks --snapshot`, ms"}),
}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """The Markdown tables of a text: [[{column: cell}]]."""
    found, header = [], None
    for line in text.split("\n"):
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = cells(line)
            found.append([])
        elif not set(line) <= set("|-"):
            found[-1].append(dict(zip(header, cells(line), strict=True)))
    return found


def rows_of(root, part):
    """The rows of the table that a part shows."""
    has, _ = SHOWN[part]
    file = root / FILE
    for rows in tables(file.read_text() if file.is_file() else ""):
        if rows and has in rows[0]:
            return rows
    raise BenchError(f"{FILE} has no table with the column '{has}'")


def figure(root, part, column, of_row):
    """Returns one figure, as text: that of the row that has the cells `of_row`."""
    for row in rows_of(root, part):
        if of_row.items() <= row.items():
            return row[column]
    raise BenchError(f"{FILE} has no row for {of_row} in the table with '{column}'")


def shown(root, part):
    """Returns the table of a document."""
    _, columns = SHOWN[part]
    return "\n".join(report.markdown(list(columns.values()), [[row[name] for name in columns] for row in rows_of(root, part)]))


def objects_pause(root):
    """The median pause of `objects` for 1 GiB and 64 threads, in milliseconds."""
    return figure(root, "pauses", "median, ms", {"command": "`objects`", "threads": "64", "heap, GiB": "1"})


def leaks_pause(root):
    """The pause of `leaks` for 1 GiB, in milliseconds."""
    return figure(root, "leak-pauses", LEAKS, {"heap, GiB": "1"})


def snapshot_pause(root):
    """The pause of `leaks --snapshot` for 1 GiB, in milliseconds."""
    return figure(root, "snapshot-pauses", SNAPSHOT, {"heap, GiB": "1"})
