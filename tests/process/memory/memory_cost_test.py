#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The memory cost of ten million live objects. That of a program that allocates once is in `layout.startup_size`.

Usage: memory_cost_test.py PROGRAM LIBRARY
PROGRAM is memory_cost; it runs with LIBRARY preloaded.
"""

import os
import subprocess
import sys

LIVE_OBJECTS = 10_000_000
# Bytes of resident memory per live object of a size, everything included.
LIVE_LIMITS = {8: 8.2, 16: 16.3, 40: 48.4}
HUGEPAGE = 2 << 20


def stay_on_one_processor():
    """Each processor that a program has run on has a hugepage of its own that is partly used."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def measure(program, library, *arguments, one_processor=False, **settings):
    """The figure that memory_cost prints."""
    environment = dict(os.environ, LD_PRELOAD=library, LIBRARY_UNDER_TEST=library, **settings)
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120,
                          preexec_fn=stay_on_one_processor if one_processor else None)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{' '.join(command)} on {library}: status {done.returncode}\n{done.stderr}")
    return int(done.stdout)


def main():
    program, library = sys.argv[1:]
    failures = 0

    def report(what, value, limit, unit):
        nonlocal failures
        verdict = "ok" if value <= limit else "TOO MUCH"
        failures += value > limit
        print(f"{what}: {value:.2f} {unit}, at most {limit:.2f}: {verdict}", flush=True)

    for size, limit in LIVE_LIMITS.items():
        # The last hugepage may be partly used, which does not depend on the records.
        cost = measure(program, library, "live", LIVE_OBJECTS, size, one_processor=True,
                       TCMALLOC_HUGEPAGES="0")
        report(f"a live object of {size} bytes", cost / LIVE_OBJECTS, limit, "bytes")
        cost = measure(program, library, "live", LIVE_OBJECTS, size, one_processor=True) - HUGEPAGE
        report("the same less one hugepage", cost / LIVE_OBJECTS, limit, "bytes")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
