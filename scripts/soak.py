#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Takes caches from running threads, millions of times: a test that finds more the longer it runs.

Fails on a violation, and if it took fewer caches than is possible in that time. 'make test' runs
the same program for a few seconds.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "remote_take_torture"
# This is a fraction of the rate on a virtual machine with two idle CPUs.
LEAST_TAKINGS_PER_SECOND = 6_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3, help="default: 3")
    parser.add_argument("--owners", type=int, help="threads to take from; default: CPUs + 1")
    options = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    seconds = max(1, round(options.minutes * 60))
    for command in (["cmake", "--preset", "release", "--log-level=WARNING"],
                    ["cmake", "--build", "--preset", "release", "--target", TARGET]):
        if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
            return f"soak: this command failed: {' '.join(command)}"
    command = [str(ROOT / "build" / "release" / "bin" / TARGET),
               "--seconds", str(seconds), "--owners", str(options.owners or cpus + 1),
               "--least-takings", str(seconds * LEAST_TAKINGS_PER_SECOND)]
    print(" ".join(command), flush=True)
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
