# SPDX-License-Identifier: BSD-3-Clause
"""Functions that the scripts of these folders share. CMake puts this folder into PYTHONPATH."""

import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
TIMEOUT_S = 150
# Variables that would change what a program or the command does.
OURS = ("TCMALLOC_", "HEAP", "MALLOCSTATS", "PPROF", "LD_PRELOAD", "LIBRARY_UNDER_TEST", "DEBUGINFOD", "TMUX")


class Skipped(Exception):
    pass


def environment(library=None, **variables):
    """Returns the environment of a program, with `library` as the library to preload. A program that is
    linked with the library needs none: None."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    preloaded = {"LD_PRELOAD": library, "LIBRARY_UNDER_TEST": library} if library else {}
    return {**kept, **preloaded, **{name: str(value) for name, value in variables.items()}}


class Test:
    """A program, the library to preload, and an empty folder. Counts checks and failures."""

    def __init__(self, folder, program, library, *others):
        self.folder = pathlib.Path(folder)
        self.program, self.library, self.others = program, library, others
        self.count = 0
        self.failed = 0

    def expect(self, condition, message):
        self.count += 1
        if not condition:
            self.failed += 1
            print(f"FAILED: {message}")

    def expect_equal(self, found, wanted, what):
        self.expect(found == wanted, f"{what}: {found!r}, not {wanted!r}")

    def run(self, *arguments, library=None, prepare=None, **variables):
        """Runs the program on the library. prepare: a function that the child calls first."""
        return subprocess.run([self.program, *map(str, arguments)], text=True, errors="replace", check=False,
                              env=environment(library or self.library, **variables), timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                              preexec_fn=prepare)


def main(tests, make=Test, folder_in=None):
    """Calls the function test_WHAT of `tests`, where WHAT is the script's first argument; `make` gets the others.
    Exits with its status."""
    with tempfile.TemporaryDirectory(dir=folder_in) as folder:
        test = make(folder, *sys.argv[2:])
        try:
            tests[f"test_{sys.argv[1]}"](test)
        except Skipped as reason:
            print(f"SKIP: {reason}")
            sys.exit(1 if test.failed else SKIPPED)
    print(f"{test.count} checks, {test.failed} failed")
    sys.exit(1 if test.failed or not test.count else 0)
