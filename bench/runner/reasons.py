# SPDX-License-Identifier: BSD-3-Clause
"""The reasons that README.md gives for the library, each with one figure from a file of this project.

The figures of time and memory come from the run. Those of pauses come from bench/results/inspection-pauses.txt, and that of
returned memory from docs/system-memory.md, where a test compares it with what the program prints.
"""

import re

from . import pauses, summary
from .process import BenchError

RETURNED = "docs/system-memory.md"
# The output of the program with several threads.
RETURNED_TEXT = re.compile(r"^### 2\. Several threads$.*?^in use: (\d+) MiB$.*?^8 seconds later: (\d+) MiB$",
                           re.MULTILINE | re.DOTALL)


def found(root, name, pattern):
    file = root / name
    match = pattern.search(file.read_text()) if file.is_file() else None
    if not match:
        raise BenchError(f"{name} does not have the figure for README.md")
    return match


def ratios(data, derived, ours, what):
    """{name with version: our mean ratio} of the peers, the best peer first."""
    found = {f"{peer['name']} {re.split(r'[-+ ]', peer['version'])[0]}":
             derived["means"][peer["name"]]["ours"][ours][what].median
             for peer in data["allocators"] if not peer["ours"] and not peer["missing"]}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def time_reason(data, derived, ours):
    name, ratio = next(iter(ratios(data, derived, ours, "time").items()))
    rows = sum(row["group"] in summary.TIMED_GROUPS and row["name"] in derived["rows"] for row in data["rows"])
    return f"It takes {ratio:.2f} of the time of {name}, the fastest of the others: a mean over {rows} benchmarks."


def peak_reason(data, derived, ours):
    found = ratios(data, derived, ours, "peak")
    leaner = [name for name, ratio in found.items() if ratio > 1]
    name, ratio = next(((name, ratio) for name, ratio in found.items() if ratio <= 1), next(iter(found.items())))
    text = f"Its peak memory is {ratio:.2f} of that of {name}"
    return f"{text}; of {len(found)} others only {' and '.join(leaner)} needs less." if leaner else f"{text}, the leanest of the others."


def reasons(data, root, link):
    """The lines of the list. `link` is the path of a file of the project."""
    derived, ours = summary.stored(data), summary.first_of_ours(data)
    in_use, later = found(root, RETURNED, RETURNED_TEXT).groups()
    return [
        f"1. **Fast.** {time_reason(data, derived, ours)}",
        f"2. **Lean.** {peak_reason(data, derived, ours)}",
        f"3. **It returns memory.** Of {in_use} MiB that a program has freed, {later} MiB are resident 8 seconds later "
        f"([how]({link(RETURNED)})).",
        "4. **You can look into it.** `tcmalloc` shows the objects of a running process. It stops one with 1 GiB and 64 threads for "
        f"{pauses.objects_pause(root)} ms ([measured]({link(pauses.FILE)})).",
        "5. **It finds leaks in a running process.** `tcmalloc leaks` needs no preparation, and stops a process with 1 GiB for "
        f"{pauses.leaks_pause(root)} ms.",
    ]
