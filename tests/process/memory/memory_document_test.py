#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of docs/system-memory.md and compares what they print with what is written there.

  memory_document_test.py SOURCE_FOLDER LIBRARY_FOLDER WORK_FOLDER C_COMPILER [--root]

The commands that need root are run with --root, the others without. Figures of resident memory may
differ by TOLERANCE_MIB; the status and all other text may not.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import process_test
from process_test import SKIPPED

# The status of in_cgroup.sh when it cannot make a group.
NO_GROUP = 125
TOLERANCE_MIB = 5
NEEDS_ROOT = "<!-- needs root -->"
BLOCK = re.compile(r"((?:<!-- [^\n]* -->\n)?)```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## Free memory and limits$(.*?)^## ", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"(?<=: )\d+(?= MiB$)|(?<=the heap has )[\d.]+(?= MiB)", re.MULTILINE)
# The number of commands of the situations: for all users, and for root.
EXPECTED = {False: 6, True: 2}


def commands(document):
    """[(needs root, command, what it prints)]; the text of a command that prints nothing is ""."""
    found = []
    for mark, language, text in BLOCK.findall(SECTION.search(document)[1]):
        if language == "sh":
            found.append((mark.strip() == NEEDS_ROOT, text.strip(), ""))
        else:
            found[-1] = (*found[-1][:2], text)
    return found


def differences(printed, written):
    """The differences of the two, a list of lines."""
    if FIGURE.sub("N", printed) != FIGURE.sub("N", written):
        return [f"printed\n{printed}instead of\n{written}"]
    return [f"printed {ours} MiB instead of {theirs} MiB" for ours, theirs in
            zip(FIGURE.findall(printed), FIGURE.findall(written))
            if abs(float(ours) - float(theirs)) > TOLERANCE_MIB]


def main():
    source, libraries, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    compiler, root = sys.argv[4], "--root" in sys.argv[5:]
    work.mkdir(parents=True, exist_ok=True)
    if root and os.geteuid() != 0:
        print("SKIP: only root can make control groups")
        return SKIPPED
    environment = process_test.environment(LC_ALL="C")
    found = commands((source / "docs/system-memory.md").read_text())

    def run(command):
        here = command.replace("build/release/lib", str(libraries))
        here = here.replace("build/idle-memory", str(work / "idle-memory"))
        here = re.sub(r"^cc ", f"{compiler} ", here).removeprefix("sudo ")
        return subprocess.run(["bash", "-euc", here], cwd=source, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)

    failed = ran = 0
    compiled, *others = found
    built = run(compiled[1])
    if built.returncode != 0:
        print(built.stdout)
        return 1
    chosen = [entry for entry in others if entry[0] == root]
    # The commands mostly sleep, so they run at the same time.
    with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
        runs = list(pool.map(lambda entry: run(entry[1]), chosen))
    for (_, command, written), done in zip(chosen, runs):
        if root and done.returncode == NO_GROUP:
            print(f"SKIP: {done.stdout.strip()}")
            return SKIPPED
        wrong = differences(done.stdout, written)
        if done.returncode != 0:
            wrong.append(f"status {done.returncode}")
        ran += 1
        print(f"{command}\n{done.stdout}", end="")
        if wrong:
            failed += 1
            print("FAILED:", *wrong, sep="\n")
    print(f"{ran} commands, {failed} failed")
    return 1 if failed or ran != EXPECTED[root] else 0


if __name__ == "__main__":
    sys.exit(main())
