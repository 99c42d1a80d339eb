#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tcmalloc check`: damaged objects of programs on the debug libraries, seen from outside.

  debug_check_test.py WHAT BUGS LIBRARY COMMAND LOAD ORDINARY

BUGS is the program of bugs.cc, LIBRARY a debug library, which is preloaded, COMMAND the tcmalloc command, LOAD the
program of debug_workload.cc, ORDINARY a library that is no debug library. WHAT:

  damage   processes with damaged objects, also stopped ones: the line of each, the stacks, status 2
  clean    processes without damage: status 0; on an ordinary library: status 1 and the reason
  files    cores and snapshots of both; those that lack memory: status 5 and what is missing; with wrong bytes: no harm
  load     eight busy threads without a bug, 10 times: no damage
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process" / "misuse"))
import debug_library_test  # noqa: E402
from debug_library_test import REPORTS  # noqa: E402

SEED = 20261126
WRONG_FILES = 30
# Bugs that damage an object which is never freed, or damage it after its free.
DAMAGED = ("write_after_end_never_freed", "write_before_start_never_freed", "write_after_free", "write_after_free_of_large",
           "write_after_delete_array", "memset_after_free")


class Test(debug_library_test.Test):

    def __init__(self, bugs, library, command, load, ordinary):
        super().__init__(bugs, library)
        self.command, self.load_program, self.ordinary = command, load, ordinary
        self.said = ""

    def start(self, program, *arguments, library=None, **settings):
        """Starts a program that waits for a line, once it has said what it does."""
        library = library or self.library
        environment = {**os.environ, "LD_PRELOAD": library, "LIBRARY_UNDER_TEST": library, **settings}
        process = subprocess.Popen([program, *arguments], env=environment, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.said = process.stdout.readline()
        if program == self.bugs:
            self.said += process.stdout.readline()
        return process

    def ask(self, target, *options, status, command="check"):
        result = subprocess.run([self.command, command, str(target), *options], capture_output=True, text=True,
                                errors="replace", timeout=170)
        statuses = status if isinstance(status, tuple) else (status,)
        self.check(result.returncode in statuses, f"{command} {target} {options}: {result}")
        self.check((result.returncode == 1) == (re.fullmatch(r"tcmalloc: [^\n]+\n", result.stderr) is not None),
                   f"{command} {target}: one line on stderr after an error, and only then: {result}")
        return result.stdout if result.returncode != 1 else result.stdout + result.stderr

    def check_damage(self, name, text):
        """The report of `tcmalloc check` about a bug that the library reports, too."""
        pointer = re.match("misuses (0x[0-9a-f]+)", self.said)[1]
        _, pattern, has_free = REPORTS[name]
        self.check(re.search(f"\n{pointer}: {pattern}(, and up to [0-9]+ bytes? more)?\n  allocated by ", text),
                   f"{name}: {pointer}: {pattern} is not in {text}")
        self.check(re.search(r": 1 of \d+ objects? damaged\n", text), f"{name}: {text}")
        self.check(has_free == ("\n  freed by " in text), f"{name}: stack of the free: {text}")
        if self.full:
            self.check("AllocateIt" in text or "NewIt" in text or "NewArrayIt" in text, f"{name}: names: {text}")

    # ---

    def damage(self):
        for name in DAMAGED:
            with self.start(self.bugs, name, "wait") as process:
                self.check_damage(name, self.ask(process.pid, status=2))
                found = json.loads(self.ask(process.pid, "--json", status=2))
                self.check((found["damaged"], len(found["list"]), found["incomplete"]) == (1, 1, []), f"{name}: {found}")
                if name == DAMAGED[0]:
                    process.send_signal(signal.SIGSTOP)
                    self.check_damage(name, self.ask(process.pid, status=2))
                    process.send_signal(signal.SIGCONT)
                process.kill()
        # The bug overwrites the header of the next object.
        with self.start(self.bugs, "memset_over_next_object", "wait") as process:
            pointer = int(re.match("misuses (0x[0-9a-f]+)", self.said)[1], 16)
            found = json.loads(self.ask(process.pid, "--json", status=2))
            kinds = [(one["kind"], one["object"] > pointer, one.get("before", {}).get("object")) for one in found["list"]]
            self.check(kinds == [("after end", False, None), ("header", True, pointer)], f"{found}")
            text = self.ask(process.pid, status=2)
            before = f"  the object before it: 24 bytes at {pointer:#x}\n  allocated by malloc:\n"
            self.check(re.search(": the object has a damaged header: [^\n]*\n" + before, text), text)
            process.kill()

    def clean(self):
        for settings in ({}, {"TCMALLOC_PAGE_FENCE": "1"}, {"TCMALLOC_PAGE_FENCE": "1", "TCMALLOC_PAGE_FENCE_READABLE": "1"}):
            with self.start(self.bugs, "none", "wait", **settings) as process:
                found = json.loads(self.ask(process.pid, "--json", status=0))
                self.check((found["damaged"], found["without_header"], found["unreadable"]) == (0, 0, 0), f"{settings}: {found}")
                self.check((found["fenced"] > 0) == (len(settings) == 1), f"{settings}: {found}")
                text = self.ask(process.pid, status=0)
                self.check(": 0 of " in text and "incomplete" not in text, text)
                self.check(("nothing can write to them" in text) == (len(settings) == 1), text)
                # Objects in the queue of freed objects are not leaked, and pointers past a header are found.
                if self.full and not settings:
                    text = self.ask(process.pid, status=0, command="leaks")
                    self.check("no leaks found" in text, text)
                process.kill()
        with self.start(self.bugs, "none", "wait", library=self.ordinary) as process:
            text = self.ask(process.pid, status=1)
            self.check("does not run on a debug library" in text and "libtcmalloc_debug.so.4" in text, text)
            process.kill()

    # ---

    def files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for bug in (DAMAGED[0], DAMAGED[2]):
                with self.start(self.bugs, bug, "wait") as process:
                    for file in self.files_of(process.pid, folder):
                        self.check_damage(bug, self.ask(file, status=2))
                        self.lacking(bug, file)
                        self.wrong(file)
                    bare = folder / "bare"
                    self.ask(process.pid, bare, status=0, command="snapshot")
                    text = self.ask(bare, status=5)
                    self.check("'tcmalloc snapshot --contents' saves it" in text, text)
                    process.kill()
            for settings in ({}, {"TCMALLOC_PAGE_FENCE": "1"}):
                with self.start(self.bugs, "none", "wait", **settings) as process:
                    for file in self.files_of(process.pid, folder):
                        self.ask(file, status=0)
                    process.kill()

    def files_of(self, pid, folder):
        snapshot = folder / "snapshot"
        self.ask(pid, snapshot, "--contents", status=0, command="snapshot")
        files = [snapshot]
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", folder / "core", str(pid)], capture_output=True, timeout=100, check=True)
            files.append(folder / f"core.{pid}")
        return files

    def lacking(self, bug, file):
        """Files that end early never say that nothing is damaged."""
        contents = file.read_bytes()
        short = file.with_suffix(".short")
        for share in (0.2, 0.5, 0.8, 0.95):
            short.write_bytes(contents[:int(len(contents) * share)])
            text = self.ask(short, status=(1, 2, 5))
            self.check(re.search(r"^incomplete: |^tcmalloc: |: [1-9]\d* of \d+ objects damaged", text, re.MULTILINE),
                       f"{bug} {share}: {text}")

    def wrong(self, file):
        """Bytes that are wrong do no harm: the command answers, or says in a line why it cannot."""
        contents = file.read_bytes()
        numbers = random.Random(SEED)
        wrong = file.with_suffix(".wrong")
        for _ in range(WRONG_FILES):
            changed = bytearray(contents)
            for _ in range(numbers.choice((1, 30, 1000))):
                changed[numbers.randrange(len(changed))] = numbers.choice((0, 0xff, numbers.randrange(256)))
            wrong.write_bytes(changed)
            self.ask(wrong, status=(0, 1, 2, 5))

    def load(self):
        with self.start(self.load_program, "wait") as process:
            checked = 0
            for _ in range(10):
                found = json.loads(self.ask(process.pid, "--json", status=0))
                checked += found["objects"] + found["freed_objects"]
                # Each thread may be about to get or to return one object.
                self.check(found["without_header"] <= 8 and found["unreadable"] == 0, f"{found}")
            self.check(checked > 10 * 1000, f"{checked} objects were checked")
            process.communicate("\n", timeout=100)
            self.check(process.returncode == 0, f"the program ended with {process.returncode}")


if __name__ == "__main__":
    what, *others = sys.argv[1:]
    test = Test(*others)
    getattr(test, what)()
    print("failed checks:", test.failed)
    sys.exit(1 if test.failed else 0)
