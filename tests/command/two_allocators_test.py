#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two allocators in a process: each serves its own objects, and the tools name what they leave out.

usage: two_allocators_test.py WHAT PROGRAM OWN LIBRARY SECOND COMMAND

PROGRAM is two_allocators.c, OWN the same with a malloc of its own, LIBRARY is preloaded, SECOND is
another copy of the library, COMMAND the tcmalloc command. WHAT: copies, linked, others.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77


class Test:
    def __init__(self, program, own, library, second, command):
        self.program, self.own, self.library, self.second = program, own, library, second
        self.tool = command
        self.problems = []
        self.environment = {**os.environ, "LD_PRELOAD": library, "LIBRARY_UNDER_TEST": library}

    def check(self, what, text, *patterns):
        for pattern in patterns:
            if not re.search(pattern, text):
                self.problems.append(f"{what}: no {pattern!r} in\n{text}")

    @contextlib.contextmanager
    def process(self, *command):
        with subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            if process.stdout.readline() != "ready\n":
                self.problems.append(f"{command} is not ready")
            yield process.pid
            process.stdin.close()
            if process.wait(timeout=60) != 0:
                self.problems.append(f"{command}: status {process.returncode}")

    def command(self, *arguments, status=0):
        result = subprocess.run([self.tool, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        if result.returncode != status:
            self.problems.append(f"{arguments}: status {result.returncode}\n{result.stdout}")
        return result.stdout

    def copies(self):
        for how in ("copy", "space"):
            with self.process(self.program, how, self.second, "wait") as pid:
                for report in ("stats", "objects", "doctor"):
                    self.check(f"{how}, {report}", self.command(report, pid),
                               r"incomplete: process \d+ \(process_two_all\w*\) has another copy of "
                               r"this TCMalloc, in \S+, whose heap is left out: this is about the "
                               r"heap of \S+libtcmalloc")
            # Neither copy knows the other's objects.
            result = subprocess.run([self.program, how, self.second, "cross"], text=True,
                                    env=self.environment, stderr=subprocess.PIPE, check=False,
                                    stdout=subprocess.DEVNULL)
            if result.returncode != -signal.SIGABRT:
                self.problems.append(f"{how}, cross: status {result.returncode}")
            self.check(f"{how}, cross", result.stderr,
                       "^tcmalloc: free of 0x[0-9a-f]+: not an object of this allocator")

    def linked(self):
        with self.process(self.own, "own", "wait") as pid:
            self.check("doctor", self.command("doctor", pid),
                       "0 B .* objects that the program holds",
                       "memory that the program maps itself, without malloc",
                       "other allocators in the process")
            self.check("leaks", self.command("leaks", pid, status=5),
                       "incomplete: the heap has no object: the program may have another malloc")
        if "minimal" in os.path.basename(self.library):
            return
        result = subprocess.run([self.own, "own", "end"], text=True, stdout=subprocess.DEVNULL,
                                env={**self.environment, "HEAPCHECK": "normal"}, check=False,
                                stderr=subprocess.PIPE)
        self.check("leak check", result.stderr, "no object is in use, so nothing was checked")

    def others(self):
        """redis-server, with jemalloc."""
        server = shutil.which("redis-server")
        if server is None:
            print("SKIP: there is no redis-server")
            sys.exit(SKIPPED)
        with tempfile.TemporaryDirectory() as folder:
            address = f"{folder}/socket"
            with subprocess.Popen([server, "--port", "0", "--unixsocket", address, "--save", "", "--dir", folder],
                                  stdout=subprocess.DEVNULL) as process:
                try:
                    end = time.monotonic() + 60
                    while time.monotonic() < end:
                        with socket.socket(socket.AF_UNIX) as client:
                            if client.connect_ex(address) == 0:
                                break
                        time.sleep(0.05)
                    text = self.command("doctor", process.pid, status=3)
                    if "jemalloc" not in text:
                        print(f"SKIP: this redis-server has no jemalloc: {text}")
                        sys.exit(SKIPPED)
                    self.check("doctor", text, "It runs on jemalloc, not on this TCMalloc")
                    self.check("doctor", text, "Started with 'tcmalloc run', the program is on TCMalloc")
                    for report in ("leaks", "objects", "types", "inspect"):
                        arguments = (process.pid, "0x1000") if report == "inspect" else (process.pid,)
                        self.check(report, self.command(report, *arguments, status=1),
                                   "runs on jemalloc, not on this TCMalloc: start the program with 'tcmalloc run'")
                finally:
                    process.terminate()


def main():
    what, *paths = sys.argv[1:]
    test = Test(*paths)
    getattr(test, what)()
    for problem in test.problems:
        print(f"FAILED: {problem}")
    return 1 if test.problems else 0


if __name__ == "__main__":
    sys.exit(main())
