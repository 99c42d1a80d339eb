#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the probes of the full library are in the file, and that a debugger, which sets their
semaphores, sees them with their arguments.

usage: probes_test.py PROBES LIBRARY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PERIOD = 4096
GDB = """
set breakpoint pending on
set confirm off
set pagination off
set startup-with-shell off
set environment LD_PRELOAD {library}
set environment LIBRARY_UNDER_TEST {library}
set environment TCMALLOC_SAMPLE_PARAMETER {period}
break main
run {output}
break -probe-stap {library}:otel_memory:alloc
commands
silent
printf "probe alloc 0x%lx %lu %lu\\n", (unsigned long)$_probe_arg0, (unsigned long)$_probe_arg1, (unsigned long)$_probe_arg2
continue
end
break -probe-stap {library}:otel_memory:free
commands
silent
printf "probe free 0x%lx\\n", (unsigned long)$_probe_arg0
continue
end
continue
"""


def notes(library):
    text = subprocess.run(["readelf", "-n", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    return sorted((match[1], match[2] != "0" * 16) for match in re.finditer(
        r"Provider: otel_memory\s+Name: (\w+)\s+Location: \w+, Base: \w+, Semaphore: 0x(\w+)",
        text))


def main():
    program, library = sys.argv[1:]
    found = notes(library)
    if found != [("alloc", True), ("free", True)]:
        print(f"FAILED: the notes are {found}")
        return 1
    if shutil.which("gdb") is None:
        print("SKIP: gdb is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "output")
        script = os.path.join(folder, "script")
        with open(script, "w") as file:
            file.write(GDB.format(library=library, period=PERIOD, output=output))
        run = subprocess.run(["gdb", "-nx", "-batch", "-x", script, program],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=150, env={**os.environ, "DEBUGINFOD_URLS": ""})
        if "ptrace: Operation not permitted" in run.stdout:
            print("SKIP: the system does not let gdb trace a program")
            return 77
        with open(output) as file:
            told = file.read().splitlines()
    seen = [line.removeprefix("probe ") for line in run.stdout.splitlines() if line.startswith("probe ")]
    # The weight of an object this large is its size.
    expected = [f"{line} {line.split()[2]}" if line.startswith("alloc") else line for line in told]
    failed = sum(seen.count(line) != 1 for line in expected) + (len(told) != 6)
    if failed:
        print(run.stdout, "FAILED: expected", *expected, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
