#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Estimates of a sampled profile against what a program knows that it has, over fixed seeds.

usage: sampling_test.py SAMPLING LIBRARY

Each site's estimate lies within three standard errors, with one excursion in all of them, and the
mean of its errors over the seeds is below one percent, or three standard errors of that mean, where
these are more.
"""

import math
import os
import re
import subprocess
import sys

PERIOD = 65536
SEEDS = range(1, 21)
LINE = re.compile(r"(\S+) (\d+) (\d+) \| ([\d.]+) ([\d.]+) ([\d.]+)")


def run(program, library, seed):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TCMALLOC_")}
    environment.update(LD_PRELOAD=library, LIBRARY_UNDER_TEST=library,
                       TCMALLOC_SAMPLE_PARAMETER=str(PERIOD), TCMALLOC_SAMPLE_SEED=str(seed))
    output = subprocess.run([program], env=environment, check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    lines = [LINE.fullmatch(line) for line in output.splitlines()]
    if len(lines) != 8 or None in lines:
        sys.exit(f"unexpected output: {output}")
    return {line[1]: [float(figure) for figure in line.groups()[1:]] for line in lines}


def main():
    program, library = sys.argv[1:]
    errors = {}  # site -> (relative errors of the objects, relative standard error)
    excursions = []
    failed = 0
    for seed in SEEDS:
        for site, (objects, size, estimated, estimated_bytes, variance) in run(
                program, library, seed).items():
            standard = math.sqrt(variance) / objects
            error = estimated / objects - 1
            if abs(estimated_bytes / size - estimated / objects) > 1e-3:
                print(f"seed {seed}, {site}: bytes are not the objects' bytes")
                failed += 1
            if abs(error) > 3 * standard + 1e-3:
                excursions.append(f"seed {seed}, {site}: {error:+.4f}, standard error {standard:.4f}")
            errors.setdefault(site, ([], standard))[0].append(error)
    print(*excursions, sep="\n")
    if len(excursions) > 1:
        failed += 1
        print(f"FAILED: {len(excursions)} excursions")
    for site, (of_seeds, standard) in errors.items():
        bias = sum(of_seeds) / len(of_seeds)
        bound = max(0.01, 3 * standard / math.sqrt(len(of_seeds)))
        print(f"{site}: mean error {bias:+.5f} of at most {bound:.5f}, "
              f"standard error of one seed {standard:.5f}")
        if abs(bias) >= bound:
            failed += 1
            print(f"FAILED: {site} is biased")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
