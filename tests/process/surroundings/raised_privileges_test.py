#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""In a program with raised privileges the library obeys no variable and tells its caller no address.

usage: raised_privileges_test.py PROGRAM SETTINGS_DOCUMENT

PROGRAM is raised_privileges.c, linked with the library. A process whose real user differs from its
effective one has raised privileges after exec, as a setuid program has (AT_SECURE). Each run is repeated
without them, which shows that the variables have an effect there.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
TIMEOUT_S = 60
NOBODY = 65534

# Each writes a report, a file or a line about a mistake.
LOUD = {"MALLOCSTATS": "2", "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD": "1", "HEAPCHECK": "normal", "HEAP_CHECK_SHOW_CONTENTS": "1",
        "TCMALLOC_RELEASE_RATE": "much", "TCMALLOC_NO_SUCH_SETTING": "1",
        "TCMALLOC_HINTS": "1", "MALLOC_ARENA_MAX": "1"}


def run(program, raised, variables, *arguments):
    def become_setuid():
        os.setresuid(NOBODY, 0, 0)
    return subprocess.run([program, *arguments], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT_S, preexec_fn=become_setuid if raised else None)


def main():
    program, document = sys.argv[1:]
    if os.geteuid() != 0 or "NoNewPrivs:\t1" in pathlib.Path("/proc/self/status").read_text():
        print("SKIP: only root can start a process whose real and effective users differ")
        return SKIPPED
    problems = []

    def expect(condition, what, output):
        if not condition:
            problems.append(f"{what}: {output.stderr[:2000]!r}, status {output.returncode}")

    with tempfile.TemporaryDirectory() as folder:
        files = {"TCMALLOC_PROFILE": f"{folder}/samples", "HEAPPROFILE": f"{folder}/heap",
                 "TCMALLOC_STATS_EVERY": f"10ms,{folder}/series", "TCMALLOC_MEMFS_MALLOC_PATH": f"{folder}/memory"}
        names = re.findall(r"^\| `([A-Z_]+)` \|", pathlib.Path(document).read_text(), re.MULTILINE)
        expect(len(names) > 50, "the document names the settings", run(program, False, {}))
        every = {name: "not a value" for name in names}
        for what, variables in (("loud", LOUD), ("mistaken", every), ("files", files)):
            raised = run(program, True, variables)
            expect(raised.returncode == 0 and raised.stderr == "", f"{what}, raised", raised)
            expect(os.listdir(folder) == [], f"{what}, raised: files {os.listdir(folder)}", raised)
            ordinary = run(program, False, variables)
            expect(ordinary.stderr != "", f"{what}, not raised", ordinary)
    for raised in (False, True):
        abort = run(program, raised, {}, "misuse")
        line = re.fullmatch(r"tcmalloc: free of (0x[0-9a-f]+): double free, .*\n", abort.stderr)
        expect(line is not None and (line[1] == "0x0") == raised, f"misuse, raised {raised}", abort)
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
