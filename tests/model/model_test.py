#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lets spin search every state of a model, and compares the outcome with what is expected.

  model_test.py MODEL.pml COMPILER holds|fails DEFINE...

"holds": the search was complete, found no error and reached every statement. "fails": an assertion was violated; other
errors, for example a deadlock, do not count. The DEFINEs select the memory model and the mistake to make.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DEPTH_LIMIT = 10000
SKIPPED = 77


def search(model, compiler, defines, folder):
    """Returns the output of the checker."""
    shutil.copy(model, folder)
    subprocess.run(["spin", "-a", *(f"-D{name}" for name in defines), model.name], cwd=folder, check=True)
    # Compiles without cycle checks, because only assertions and end states are checked.
    subprocess.run([compiler, "-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder, check=True)
    run = subprocess.run(["./pan", f"-m{DEPTH_LIMIT}"], cwd=folder, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(run.stdout)
    if run.returncode != 0:
        sys.exit(f"the checker ended with {run.returncode}")
    return run.stdout


def complaints(output, expected):
    errors = re.search(r"\berrors: (\d+)$", output, re.MULTILINE)
    states = re.search(r"^\s*(\d+) states, stored", output, re.MULTILINE)
    if not errors or not states:
        return ["this is no report of a search"]
    if expected == "fails":
        if errors[1] != "1" or "assertion violated" not in output:
            return ["no assertion was violated: the model does not see the mistake"]
        return []
    found = []
    if errors[1] != "0":
        found.append(f"{errors[1]} errors")
    # Any output beyond the report is a warning or an error.
    for sign in ("max search depth too small", "Search not completed", "out of memory", "pan:1:",
                 "warning", "Bitstate", "Hash-Compact"):
        if sign in output:
            found.append(f"the search was not complete and exact: {sign}")
    if "Full statespace search" not in output:
        found.append("this was no full search")
    unreached = re.findall(r"^\s+\S+:(\d+), state \d+, \"(.*)\"", output, re.MULTILINE)
    # The processes of the store buffers never end, so their ends are unreachable.
    found += [f"line {line} was never reached: {text}" for line, text in unreached if text != "-end-"]
    return found


def main():
    model, compiler, expected, *defines = sys.argv[1:]
    if expected not in ("holds", "fails"):
        sys.exit(__doc__)
    if shutil.which("spin") is None:
        print("SKIP: spin is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        output = search(pathlib.Path(model), compiler, defines, folder)
    found = complaints(output, expected)
    for complaint in found:
        print(f"FAIL: {complaint}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
