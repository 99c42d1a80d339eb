#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program whose threads strand more memory in their caches than its control group may have: it is
killed, and with TCMALLOC_PRESSURE=auto it lives.

  pressure_limit_test.py limit PROGRAM LIBRARY

The test first measures how much the program strands without a limit; three quarters of that are the limit.
Needs root, and a hierarchy of control groups (version 1 or 2) in which memory can be limited.
"""

import contextlib
import os
import pathlib
import signal

import process_test
from process_test import Skipped

GROUPS = pathlib.Path("/sys/fs/cgroup")
THREADS = 64
# The budget of all caches together.
CACHE_BYTES = 1 << 30
# A run takes 20 s as shipped, and above 100 s without optimisation on a busy machine.
process_test.TIMEOUT_S = 280


def own_group(version_1):
    """The directory of this process's control group."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if version_1 and "memory" in controllers.split(","):
            return GROUPS / "memory" / path.lstrip("/")
        if not version_1 and not controllers:
            return GROUPS / path.lstrip("/")
    return None


def places():
    """The directories in which a group can be made, and the names of its limits."""
    old = own_group(True)
    if old is not None:
        yield old, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    new = own_group(False)
    if new is not None and "memory" in subtree_control(new):
        yield new, ("memory.max", "memory.swap.max")


def subtree_control(directory):
    try:
        return (directory / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []


@contextlib.contextmanager
def limited_group(limit):
    if os.geteuid() != 0:
        raise Skipped("only root can make control groups")
    for parent, (memory, swap) in places():
        group = parent / f"tcmalloc-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / memory).write_text(str(limit))
            with contextlib.suppress(OSError):
                # Version 1 counts memory and swap together, version 2 swap alone.
                (group / swap).write_text(str(limit if "memsw" in swap else 0))
            yield group
        finally:
            group.rmdir()
        return
    raise Skipped("no control group can be made in which memory is limited")


def test_limit(test):

    def run(group=None, **variables):
        def enter():
            if group is not None:
                (group / "cgroup.procs").write_text("0")
        # Only the program must reach the limits, not the interpreter.
        return test.run(THREADS, prepare=enter, MALLOCSTATS=1, TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=CACHE_BYTES, **variables)

    free = run()
    test.expect_equal(free.returncode, 0, f"status without a limit ({free.stderr})")
    stranded = int(free.stdout)
    limit = stranded // 4 * 3
    print(f"resident without a limit: {stranded >> 20} MiB; limit {limit >> 20} MiB")
    with limited_group(limit) as group:
        test.expect_equal(run(group).returncode, -signal.SIGKILL, "status at the limit, without listening")
        listening = run(group, TCMALLOC_PRESSURE="auto")
        print(f"with TCMALLOC_PRESSURE=auto at most {int(listening.stdout or 0) >> 20} MiB resident")
        print("".join(f"    {line}\n" for line in listening.stderr.splitlines() if "ressure" in line), end="")
        test.expect_equal(listening.returncode, 0, f"status at the limit, with TCMALLOC_PRESSURE=auto ({listening.stderr})")


if __name__ == "__main__":
    process_test.main(globals())
