#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc top in a terminal, driven by keys.

  command_top_test.py top COMMAND PROGRAM LIBRARY

PROGRAM is doctor_situations.c. The terminal is a window of tmux, which has a server of its own.
"""

import os
import re
import shutil
import subprocess
import sys
import time

from harness import AT_REST, TIMEOUT_S, Process, Test, clean_environment, needs, new_folder, run_test


class Terminal:
    """A terminal of 100 columns and 30 lines that runs a command."""

    def __init__(self, *command):
        self.socket = f"tcmalloc-top-test-{os.getpid()}"
        run = '"$@"; echo "exit status $?"; exec sleep 1000'
        self.tmux("new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", run, "sh", *map(str, command))

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.socket, "-f", "/dev/null", *arguments], text=True,
                              env=clean_environment(TERM="xterm", LC_ALL="C.UTF-8"), stdout=subprocess.PIPE, check=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def text(self):
        return self.tmux("capture-pane", "-p")

    def wait_for(self, pattern, absent=None):
        """Waits until the text matches, and does not match `absent`; returns it."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            text = self.text()
            if re.search(pattern, text) and not (absent and re.search(absent, text)):
                return text
            if time.monotonic() > end:
                sys.exit(f"FAILED: no {pattern!r} (and not {absent!r}) in\n{text}")
            time.sleep(0.05)


def check_keys(command, caches, leak, late):
    both, first, second = f"top{os.getpid()}", f"top{os.getpid()}c", f"top{os.getpid()}l"
    with Terminal(command, "top", "--every", "300ms") as terminal:
        terminal.wait_for(r"\[processes\]")
        terminal.keys("/", *both, "Enter")
        terminal.wait_for(rf"\b{caches.pid}\b(.|\n)*\b{leak.pid}\b|\b{leak.pid}\b(.|\n)*\b{caches.pid}\b")
        terminal.wait_for(rf"\+\d.*/s .*\b{leak.pid} ")  # it grows
        # A process that was seen several times executes another program.
        late.process.stdin.write("\n")
        late.process.stdin.flush()
        terminal.wait_for(rf"\b{late.pid}\b")
        # Keep one process, and open it.
        terminal.keys("Escape")
        terminal.wait_for(r"\[processes\]", absent=f"/{both}")
        terminal.keys("/", *first)
        terminal.wait_for(rf"/{first}_", absent=rf" {leak.pid} ")
        terminal.keys("Enter")
        terminal.wait_for(rf"/{first}(?!_)")
        terminal.keys("Enter")
        # The pattern needs the whole view: the terminal may be read while it is drawn.
        terminal.wait_for(rf"process {caches.pid}, 1[78] threads(.|\n)*resident for each byte in use(.|\n)*in thread caches")
        text = terminal.wait_for(rf"\[threads\](.|\n)*CACHED(.|\n)* {first} *\n(.|\n)*q quit")
        terminal.wait_for(r"in use .*[\u2581-\u2588]{3}")  # the timeline
        cached = [float(size) for size in re.findall(rf"^ *([\d.]+) MiB .* {first}$", text, re.MULTILINE)]
        if not cached or cached != sorted(cached, reverse=True):
            sys.exit(f"FAILED: caches {cached} are not sorted in\n{text}")
        terminal.keys("Tab")
        terminal.wait_for(r"\[size classes\](.|\n)*sort: MEMORY")
        terminal.keys("Right")
        terminal.wait_for("sort: IN USE")
        terminal.keys("r")
        terminal.wait_for("sort: IN USE reversed")
        terminal.keys("?")
        terminal.wait_for("reverse the order")
        terminal.keys("?")
        terminal.wait_for("sort: IN USE reversed", absent="reverse the order")
        terminal.keys("p")
        terminal.wait_for("paused")
        terminal.keys("p")
        # The process ends while the command shows it.
        caches.process.kill()
        caches.process.wait()
        terminal.wait_for(f"process {caches.pid} has ended")
        terminal.keys("Escape")
        terminal.wait_for(r"\[processes\]", absent=f"process {caches.pid} has ended")
        terminal.keys("/", *second, "Enter")
        terminal.wait_for(rf"\[processes\](.|\n)*\b{leak.pid}\b")
        terminal.tmux("resize-window", "-x", "60", "-y", "10")
        terminal.wait_for(r"\[processes\]")
        terminal.keys("q")
        terminal.wait_for("exit status 0")


def check_without_terminal(test, leak):
    def once(*arguments):
        return test.ask("top", "--once", "--every", "100ms", *arguments, stdin=subprocess.DEVNULL).stdout

    test.fails("top", words="--once", stdin=subprocess.DEVNULL)
    text = once()
    test.expect(f" {leak.pid} " in text, text)
    text = once(leak.pid)
    test.expect(f"process {leak.pid}" in text and "\033" not in text, text)
    text = once(os.getpid())
    test.expect("glibc's malloc" in text, text)


def test_top(test):
    needs("tmux")
    with new_folder() as folder:
        # Copies of the program have names of their own, by which the view shows them alone.
        names = [shutil.copy(test.program, folder / f"top{os.getpid()}{letter}") for letter in "cl"]
        # The caches stay full, however long the test takes.
        with (Process(test.library, names[0], "idle_caches", **AT_REST, TCMALLOC_RETENTION="256M") as caches,
              Process(test.library, names[1], "leak") as leak,
              Process("linked", "sh", "-c", 'echo ready; read line; LD_PRELOAD="$1" exec "$2" leak', "sh", test.library,
                      names[1]) as late):
            check_without_terminal(test, leak)
            check_keys(test.command, caches, leak, late)


if __name__ == "__main__":
    run_test(globals(), Test)
