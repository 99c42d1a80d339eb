#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc doctor on prepared processes: each gets its verdict, and the shares sum to the resident memory.

  doctor_test.py SITUATION COMMAND PROGRAM LIBRARY

SITUATION is one of doctor_situations.c, or other: a process on another malloc.
"""

import pathlib
import os
import re
import shutil
import sys

from harness import AT_REST, OTHER_MALLOC, Process, Skipped, Test, new_folder, run_test

# The verdict of each situation, the variables of its process, and options of the command.
SITUATIONS = {
    "survivors": ("fragmentation", AT_REST),
    "idle_caches": ("thread_caches", {**AT_REST, "TCMALLOC_RETENTION": "256M"}),
    "lazily_freed": ("lazily_freed", {}),
    "hugepages": ("released", {**AT_REST, "TCMALLOC_HUGEPAGES": "0"}),
    "leak": ("growth", {}, "--for", "2s"),
    "environment": ("in_use", {"MALLOC_ARENA_MAX": "2", "MALLOC_CONF": "narenas:1", "MIMALLOC_VERBOSE": "0",
                               "GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "HARD_LIMIT": "1G", "SAMPLING": "1",
                               "RETENTION": "1M", "TCMALLOC_RETENTION": "512", "MALLOC_IS": "a name of the program's"}),
    # All programs here have the name python3. Where malloc is selected, Python does not map its memory.
    "python": ("program_memory", {}),
    "program_memory": ("program_memory", {"PYTHONMALLOC": "malloc"}),
    "shared_memory": ("shared_memory", {}),
    "stacks": ("stacks", {}),
    "retained": ("free_pages", {"TCMALLOC_RELEASE_RATE": "0"}),
    "many_classes": ("partial_spans", AT_REST),
    "sampled": ("samples", {"TCMALLOC_SAMPLE_PARAMETER": "1"}),
    # The heap changes all the time: any verdict, but the sum holds.
    "busy": (None, {}),
    # A heap in shared memory does not count as shared memory of the program.
    "memfs": ("in_use", {"TCMALLOC_MEMFS_MALLOC_PATH": "/dev/shm/tcmalloc-doctor."}),
    "other": (None, {}),
}
PREPARED = {"other": "program_memory", "python": "program_memory", "memfs": "held", "environment": "held"}

HINTS = [
    "Environment: GLIBC_TUNABLES: glibc.malloc.* has no effect here: see docs/migrating-from-glibc.md.",
    "Environment: HARD_LIMIT is not a setting of the allocator: TCMALLOC_HEAP_LIMIT_MB is.",
    "Environment: MALLOC_ARENA_MAX is for glibc's malloc and has no effect here: see docs/migrating-from-glibc.md.",
    "Environment: MALLOC_CONF is for jemalloc and has no effect here: see docs/migrating-from-jemalloc.md.",
    "Environment: MIMALLOC_VERBOSE is for mimalloc and has no effect here: see docs/migrating-from-mimalloc.md.",
    "Environment: RETENTION is not a setting of the allocator: TCMALLOC_RETENTION is.",
    "Environment: SAMPLING is not a setting of the allocator: TCMALLOC_SAMPLE_PARAMETER is.",
    "Environment: TCMALLOC_RETENTION=512 is 512 bytes: 512M would be 512 MiB.",
]


def check(test, situation, pid):
    verdict, _, *options = SITUATIONS[situation]
    status = OTHER_MALLOC if situation == "other" else 0
    found = test.json("doctor", pid, *options, status=status)
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    resident = int(re.search(r"^Rss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) << 10
    text = test.ask("doctor", pid, *options, status=status).stdout
    print(text)
    total = sum(share["bytes"] for share in found["shares"])
    test.expect_equal(total, found["resident_bytes"], "the sum of the shares")
    # The scheduler determines how much of a heap in use changes while it is read, and the kernel's
    # figures, which are read later, are about other pages.
    if situation not in ("leak", "busy"):
        unsettled = sum(share["bytes"] for share in found["shares"] if share["name"] == "unsettled")
        test.expect(unsettled <= resident / 10, f"{unsettled} bytes are of no known use")
        test.expect(abs(total - resident) <= resident / 50, f"the shares sum to {total}, resident are {resident}")
    if verdict is not None:
        test.expect_equal(found["verdict"], verdict, "the verdict")
        test.expect(found["remedy"] or verdict == "in_use", "no remedy")
    if situation == "leak":
        growth = found["growth"]
        test.expect_equal(growth["bytes_per_second"], growth["in_use_bytes"] / growth["seconds"], "the rate of growth")
        test.expect("1024 bytes" in growth["parts"][0]["what"], f"what grew: {growth['parts'][:3]}")
        test.expect("tcmalloc profile" in found["remedy"], f"the remedy: {found['remedy']}")
    if situation == "environment":
        test.expect_equal([note for note in found["notes"] if note.startswith("Environment: ")], HINTS, "the hints")
    elif situation != "other":
        test.expect("Environment: " not in text, text)
    remedies = {share["name"]: share["remedy"] for share in found["shares"]}
    if situation == "survivors":
        test.expect(f"tcmalloc trim {pid}' (carried out when the process allocates next; at once if " in found["remedy"], f"{found}")
    if situation in ("python", "program_memory"):
        words = "itself: start it with PYTHONMALLOC=malloc" if situation == "python" else "look for calls of mmap"
        test.expect(words in found["remedy"], f"the remedy: {found['remedy']}")
    if situation == "stacks":
        test.expect(remedies["thread_caches"].startswith(f"run 'tcmalloc flush {pid}', or lower"), f"{remedies}")
    if situation == "other":
        test.expect("glibc" in found["allocator"], f"allocator {found['allocator']}")


def main():
    situation = sys.argv[1]

    def run(test):
        # Each CPU has a shard, and each shard has its own spans. The largest share must not depend on the number of CPUs.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        library = "linked" if situation == "other" else test.library
        with new_folder() as folder:
            program = shutil.copy(test.program, folder / "python3")
            try:
                process = Process(library, program, PREPARED.get(situation, situation), **SITUATIONS[situation][1])
            except AssertionError as error:
                raise Skipped("the kernel cannot prepare the situation") if "with 77" in str(error) else error
            with process:
                check(test, situation, process.pid)

    run_test({f"test_{situation}": run}, Test)


if __name__ == "__main__":
    main()
