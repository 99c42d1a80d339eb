#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc doctor on prepared processes: each gets its verdict, and the shares sum to the resident memory.

  doctor_test.py SITUATION COMMAND PROGRAM LIBRARY

SITUATION is one of doctor_situations.c, or other: a process on another malloc.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

TIMEOUT_S = 120
OTHER_MALLOC = 3
NO_BACKGROUND = {"TCMALLOC_BACKGROUND": "0"}
# The verdict of each situation, the variables of its process, and options of the command.
SITUATIONS = {
    "survivors": ("fragmentation", NO_BACKGROUND, ()),
    "idle_caches": ("thread_caches", {**NO_BACKGROUND, "TCMALLOC_RETENTION": "256M"}, ()),
    "lazily_freed": ("lazily_freed", {}, ()),
    "hugepages": ("released", {**NO_BACKGROUND, "TCMALLOC_HUGEPAGES": "0"}, ()),
    "leak": ("growth", {}, ("--for", "2s")),
    "program_memory": ("program_memory", {}, ()),
    "shared_memory": ("shared_memory", {}, ()),
    "stacks": ("stacks", {}, ()),
    "retained": ("free_pages", {"TCMALLOC_RELEASE_RATE": "0"}, ()),
    "many_classes": ("partial_spans", NO_BACKGROUND, ()),
    "sampled": ("samples", {"TCMALLOC_SAMPLE_PARAMETER": "1"}, ()),
    "held": ("in_use", {}, ()),
    # The heap changes all the time: any verdict, but the sum holds.
    "busy": (None, {}, ()),
    # A heap in shared memory does not count as shared memory of the program.
    "memfs": ("in_use", {"TCMALLOC_MEMFS_MALLOC_PATH": "/dev/shm/tcmalloc-doctor."}, ()),
}


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TCMALLOC_", "LD_PRELOAD", "MALLOCSTATS"))}
    return {**kept, **variables}


def kernel_resident(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Rss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) << 10


def ask(command, pid, *arguments):
    return subprocess.run([command, "doctor", str(pid), *arguments], stdout=subprocess.PIPE, text=True,
                          check=False, timeout=TIMEOUT_S, env=clean_environment())


def without_figures(text):
    return re.sub(r"\d[\d.]* ?(?:[KMGT]iB|B|%)", "#", text)


def failures(situation, command, pid):
    verdict, _, options = SITUATIONS.get(situation, (None, None, ()))
    run = ask(command, pid, "--json", *options)
    resident = kernel_resident(pid)
    text = ask(command, pid, *options)
    print(text.stdout)
    found = json.loads(run.stdout)
    wrong = []
    expected_status = OTHER_MALLOC if situation == "other" else 0
    if (run.returncode, text.returncode) != (expected_status, expected_status):
        wrong.append(f"exit status {run.returncode}, {text.returncode}")
    total = sum(share["bytes"] for share in found["shares"])
    if total != found["resident_bytes"]:
        wrong.append(f"shares of {total} in {found['resident_bytes']}")
    unsettled = sum(share["bytes"] for share in found["shares"] if share["name"] == "unsettled")
    # How much changes while a heap in use is read depends on the scheduler, and what the kernel says later is about other
    # pages.
    changes = situation in ("leak", "busy")
    if unsettled > resident / 10 and not changes:
        wrong.append(f"{unsettled} bytes are of no known use")
    if not changes and abs(total - resident) > resident / 50:
        wrong.append(f"the shares sum to {total}, resident are {resident}")
    if verdict is not None and found["verdict"] != verdict:
        wrong.append(f"the verdict is {found['verdict']}, not {verdict}")
    # The figures of the two readings may differ by a page.
    if without_figures(found["answer"]) not in without_figures(text.stdout) and not changes:
        wrong.append("the answer is not in the text")
    if verdict not in (None, "in_use") and not found["remedy"]:
        wrong.append("no remedy")
    if situation == "leak" and "1024 bytes" not in found["growth"]["parts"][0]["what"]:
        wrong.append(f"what grew: {found['growth']['parts'][:3]}")
    if situation == "other" and "glibc" not in found["allocator"]:
        wrong.append(f"allocator {found['allocator']}")
    return wrong


def main():
    situation, command, program, library = sys.argv[1:]
    if situation == "sampled" and "minimal" in library:
        print("SKIP: libtcmalloc_minimal takes no samples")
        return 77
    variables = SITUATIONS[situation][1] if situation in SITUATIONS else {}
    if situation != "other":
        variables = {**variables, "LD_PRELOAD": library}
    prepared = {"other": "program_memory", "memfs": "held"}.get(situation, situation)
    # Each CPU has a shard, and each shard has its own spans. The largest share must not depend on the number of CPUs.
    two_cpus = sorted(os.sched_getaffinity(0))[:2]
    with subprocess.Popen([program, prepared], env=clean_environment(**variables), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, two_cpus)) as process:
        try:
            if process.stdout.readline() != "ready\n":
                process.stdin.close()
                if process.wait() == 77:
                    print("SKIP: the kernel cannot prepare the situation")
                    return 77
                print(f"FAILED: the program ended with {process.returncode}")
                return 1
            wrong = failures(situation, command, process.pid)
        finally:
            process.kill()
    for line in wrong:
        print(f"FAILED: {line}")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
