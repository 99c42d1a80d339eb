#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs each fuzz target for some minutes, one per CPU at a time.

A target that fails writes its input to build/fuzz/found/, and the script fails. The next run uses the corpus in
build/fuzz/corpus/ again.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
TARGETS = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("*_fuzz.cc"))
LONGEST_INPUT_BYTES = 512  # the same as in the tests with a fixed seed
LAST_WORDS_LINES = 30


def fuzz(target, seconds):
    """Returns the last lines of the target's output if it failed, else None."""
    corpus = BUILD / "corpus" / target
    found = BUILD / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([BUILD / "bin" / target, f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT_BYTES}",
                           f"-artifact_prefix={found}/{target}-", corpus],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    last_words = "\n".join(done.stdout.splitlines()[-LAST_WORDS_LINES:])
    print(f"{'FAIL' if done.returncode else 'ok  '}  {target}: {last_words.splitlines()[-1] if last_words else ''}",
          flush=True)
    return last_words if done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1, help="for each target; default: 1")
    parser.add_argument("--target", action="append", choices=TARGETS, help="run only this target (repeatable)")
    options = parser.parse_args()
    targets = options.target or TARGETS
    cpus = len(os.sched_getaffinity(0))
    for command in (["cmake", "--preset", "fuzz", "--log-level=WARNING"],
                    ["cmake", "--build", "--preset", "fuzz", "-j", str(cpus), "--target", *targets]):
        if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
            return f"fuzz: this command failed: {' '.join(command)}"
    with concurrent.futures.ThreadPoolExecutor(cpus) as pool:
        failures = [text for text in
                    pool.map(lambda target: fuzz(target, round(options.minutes * 60)), targets) if text is not None]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
