#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tcmalloc check`: damaged objects of programs on the debug libraries, seen from outside.

  debug_check_test.py WHAT COMMAND BUGS LIBRARY LOAD ORDINARY    WHAT: see the functions test_WHAT

BUGS is the program of bugs.cc, LIBRARY a debug library, which is preloaded, LOAD the program of debug_workload.cc,
ORDINARY a library that is no debug library. core_matrix_test.py has files that end early.
"""

import contextlib
import json
import os
import random
import re
import signal
import threading

import harness
from debug_library_test import REPORTS
from harness import DAMAGED, INCOMPLETE, Process, Skipped, gcore, new_folder, run_test

# Bugs that damage an object which is never freed, or damage it after its free.
BUGS = ("write_after_end_never_freed", "write_before_start_never_freed", "write_after_free", "write_after_free_of_large",
        "write_after_delete_array")


SEED, WRONG_FILES = 20261126, 30


class Test(harness.Test):

    def __init__(self, command, bugs, library, load, ordinary):
        super().__init__(command, bugs, library)
        self.load_program, self.ordinary = load, ordinary
        self.full = "minimal" not in os.path.basename(library)

    def start(self, bug, library=None, **settings):
        library = library or self.library
        return Process(library, self.program, bug, "wait", ready="survived", LIBRARY_UNDER_TEST=library, **settings)

    def check(self, target, *options, status):
        run = self.ask("check", target, *options, status=status)
        self.expect((run.returncode == 1) == (re.fullmatch(r"tcmalloc: [^\n]+\n", run.stderr) is not None),
                    f"check {target}: one line on stderr after an error, and only then: {run}")
        return run.stdout + run.stderr

    def expect_damage(self, bug, process, target):
        """The report of `tcmalloc check` about a bug that the library reports, too."""
        text = self.check(target, status=DAMAGED)
        _, pattern, has_free = REPORTS[bug]
        self.expect(re.search(f"\n{pointer_of(process)}: {pattern}(, and up to [0-9]+ bytes? more)?\n  allocated by ", text),
                    f"{bug}: {pattern} is not in {text}")
        self.expect(re.search(r": 1 of \d+ objects? damaged\n", text), f"{bug}: {text}")
        self.expect(has_free == ("\n  freed by " in text), f"{bug}: stack of the free: {text}")
        if self.full:
            self.expect("AllocateIt" in text or "NewIt" in text or "NewArrayIt" in text, f"{bug}: names: {text}")


def pointer_of(process):
    """The program says "misuses POINTER"."""
    return next(words[1] for words in process.said if words[0] == "misuses")


def test_damage(test):
    for bug in BUGS:
        with test.start(bug) as process:
            test.expect_damage(bug, process, process.pid)
            found = test.json("check", process.pid, status=DAMAGED)
            test.expect_equal((found["damaged"], len(found["list"]), found["incomplete"]), (1, 1, []), bug)
            if bug == BUGS[0]:
                process.process.send_signal(signal.SIGSTOP)
                test.expect_damage(bug, process, process.pid)
    # The bug overwrites the header of the next object.
    with test.start("memset_over_next_object") as process:
        pointer = int(pointer_of(process), 16)
        found = test.json("check", process.pid, status=DAMAGED)
        kinds = [(one["kind"], one["object"] > pointer, one.get("before", {}).get("object")) for one in found["list"]]
        test.expect_equal(kinds, [("after end", False, None), ("header", True, pointer)], "kinds")
        text = test.check(process.pid, status=DAMAGED)
        before = f"  the object before it: 24 bytes at {pointer:#x}\n  allocated by malloc:\n"
        test.expect(re.search(": the object has a damaged header: [^\n]*\n" + before, text), text)


def test_clean(test):
    for settings in ({}, {"TCMALLOC_PAGE_FENCE": "1"}, {"TCMALLOC_PAGE_FENCE": "1", "TCMALLOC_PAGE_FENCE_READABLE": "1"}):
        with test.start("none", **settings) as process:
            found = test.json("check", process.pid)
            test.expect_equal((found["damaged"], found["without_header"], found["unreadable"]), (0, 0, 0), f"{settings}")
            test.expect_equal(found["fenced"] > 0, len(settings) == 1, f"{settings}: fenced")
            text = test.check(process.pid, status=0)
            test.expect(": 0 of " in text and "incomplete" not in text and
                        ("nothing can write to them" in text) == (len(settings) == 1), text)
            # Objects in the queue of freed objects are not leaked, and pointers past a header are found.
            if test.full and not settings:
                text = test.ask("leaks", process.pid).stdout
                test.expect("no leaks found" in text, text)
    with test.start("none", library=test.ordinary) as process:
        test.fails("check", process.pid, words=("does not run on a debug library", "libtcmalloc_debug.so.4"))


def test_unknown(test):
    """A header that is overwritten again and again may be one that is being written."""
    with test.start("none") as process, open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        header, _ = max(test.objects(process.pid))
        ended = threading.Event()

        def overwrite(number=1 << 60):
            while not ended.wait(0.001):
                number += 1
                os.pwrite(memory.fileno(), number.to_bytes(8, "little") * 10, header)

        thread = threading.Thread(target=overwrite, daemon=True)
        thread.start()
        found = test.json("check", process.pid, status=INCOMPLETE)
        ended.set()
        thread.join()
        test.expect_equal((found["without_header"], found["damaged"]), (1, 0), f"{found}")


def files_of(test, process, folder):
    """A snapshot and a core."""
    test.ask("snapshot", process.pid, folder / "snapshot", "--contents")
    files = [folder / "snapshot"]
    with contextlib.suppress(Skipped):
        files.append(gcore(process, folder))
    return files


def test_files(test):
    with new_folder() as folder:
        for bug in (BUGS[0], BUGS[2]):
            with test.start(bug) as process:
                for file in files_of(test, process, folder):
                    test.expect_damage(bug, process, file)
                    check_wrong(test, file)
                test.ask("snapshot", process.pid, folder / "bare")
                text = test.check(folder / "bare", status=INCOMPLETE)
                test.expect("'tcmalloc snapshot --contents' saves it" in text, text)
        for settings in ({}, {"TCMALLOC_PAGE_FENCE": "1"}):
            with test.start("none", **settings) as process:
                for file in files_of(test, process, folder):
                    test.check(file, status=0)


def test_load(test):
    with Process(test.library, test.load_program, "wait", ready="seed", LIBRARY_UNDER_TEST=test.library) as process:
        checked = 0
        for _ in range(10):
            run = test.ask("check", process.pid, "--json", status=(0, INCOMPLETE))
            found = json.loads(run.stdout)
            checked += found["objects"] + found["freed_objects"]
            # Each thread may be about to get or to return one object.
            test.expect(found["without_header"] <= 8 and found["unreadable"] == 0, f"{found}")
            test.expect_equal(run.returncode == INCOMPLETE, found["incomplete"] != [], f"{found}")
        test.expect(checked > 10 * 1000, f"{checked} objects were checked")
        process.process.communicate("\n", timeout=100)
        test.expect_equal(process.process.returncode, 0, "the program's status")


def check_wrong(test, file):
    """Bytes that are wrong do no harm: the command answers, or says in a line why it cannot."""
    contents = file.read_bytes()
    numbers = random.Random(SEED)
    wrong = file.with_suffix(".wrong")
    for _ in range(WRONG_FILES):
        changed = bytearray(contents)
        for _ in range(numbers.choice((1, 30, 1000))):
            changed[numbers.randrange(len(changed))] = numbers.choice((0, 0xff, numbers.randrange(256)))
        wrong.write_bytes(changed)
        test.check(wrong, status=(0, 1, DAMAGED, INCOMPLETE))


if __name__ == "__main__":
    run_test(globals(), Test)
