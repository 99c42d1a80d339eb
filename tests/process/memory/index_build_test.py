#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shards of an index, rebuilt by threads that take turns: what phases save.

  index_build_test.py PROGRAM LIBRARY

PROGRAM is the benchmark program index-build, with shards as large as its defaults and caches that
may hold 1 GiB. With LIBRARY and phases its resident memory stays near the bytes that it
requested. The memory that threads strand grows from round to round, and stops growing after about 20
rounds. The median of some runs counts: a peak depends on the scheduling of the threads.
"""

import json
import os
import statistics
import subprocess
import sys

MOST_RSS_TO_LIVE = 1.15
CACHE_BYTES = 1 << 30
SHARD_MB = 200
SHARDS = 4
TURNS = 6  # for each of 16 threads: 24 rounds
RUNS = 3


def run(program, library):
    """The figures of a run with phases."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C",
                   "LD_PRELOAD": library,
                   "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": str(CACHE_BYTES)}
    done = subprocess.run([program, str(SHARD_MB), "1", str(TURNS)], env=environment,
                          timeout=300, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"FAILED on {library}: status {done.returncode}\n{done.stderr}")
    report = json.loads(done.stdout)
    if report["malloc_library"] != os.path.realpath(library):
        sys.exit(f"FAILED: malloc was served by {report['malloc_library']}, not by {library}")
    figures = {metric["name"]: metric["value"] for metric in report["metrics"]}
    # Each shard may end with an entry that is a little longer than what was left.
    if abs(figures["live_kib"] - SHARDS * SHARD_MB * 1e6 / 1024) > 1:
        sys.exit(f"FAILED: {figures['live_kib']} KiB were live")
    peak_mib = report["peak_rss_kib"] / 1024
    print(f"peak {peak_mib:.0f} MiB, {figures['rss_to_live']:.3f} of what was live", flush=True)
    return figures


def main(program, library):
    ratios = []
    for _ in range(RUNS):
        figures = run(program, library)
        if not figures["phases"]:
            sys.exit("FAILED: the program found no phases")
        ratios.append(figures["rss_to_live"])
    if statistics.median(ratios) > MOST_RSS_TO_LIVE:
        print(f"FAILED: more than {MOST_RSS_TO_LIVE} of what was live")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
