#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc top in a terminal, driven by keys.

  top_test.py COMMAND PROGRAM LIBRARY

PROGRAM is doctor_situations.c. The terminal is a window of tmux, which has a server of its own.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TCMALLOC_", "LD_PRELOAD", "MALLOCSTATS", "TMUX"))}
    return {**kept, "LC_ALL": "C.UTF-8", **variables}


class Terminal:
    """A terminal of 100 columns and 30 lines that runs a command."""

    def __init__(self, *command):
        self.socket = f"tcmalloc-top-test-{os.getpid()}"
        run = '"$@"; echo "exit status $?"; exec sleep 1000'
        self.tmux("new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", run, "sh", *command)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.socket, "-f", "/dev/null", *arguments], text=True,
                              env=clean_environment(TERM="xterm"), stdout=subprocess.PIPE, check=True).stdout

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


def start(program, library, name, situation):
    """Runs a copy of the program that has a name of its own, by which the view shows it alone."""
    copy = shutil.copy(program, name)
    process = subprocess.Popen([copy, situation], env=clean_environment(LD_PRELOAD=library), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    return process


def live(command, caches, leak):
    both, first, second = f"top{os.getpid()}", f"top{os.getpid()}c", f"top{os.getpid()}l"
    with Terminal(command, "top", "--every", "300ms") as terminal:
        terminal.wait_for(r"\[processes\]")
        terminal.keys("/", *both, "Enter")
        terminal.wait_for(rf"\b{caches.pid}\b(.|\n)*\b{leak.pid}\b|\b{leak.pid}\b(.|\n)*\b{caches.pid}\b")
        terminal.wait_for(rf"\+\d.*/s .*\b{leak.pid} ")  # it grows
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
        caches.kill()
        caches.communicate()
        terminal.wait_for(f"process {caches.pid} has ended")
        terminal.keys("Escape")
        terminal.wait_for(r"\[processes\]", absent=f"process {caches.pid} has ended")
        terminal.keys("/", *second, "Enter")
        terminal.wait_for(rf"\[processes\](.|\n)*\b{leak.pid}\b")
        terminal.tmux("resize-window", "-x", "60", "-y", "10")
        terminal.wait_for(r"\[processes\]")
        terminal.keys("q")
        terminal.wait_for("exit status 0")


def without_terminal(command, leak):
    def ask(*arguments):
        return subprocess.run([command, "top", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=clean_environment(), timeout=TIMEOUT_S, check=False)
    run = ask()
    if run.returncode != 1 or "--once" not in run.stderr or run.stderr.count("\n") != 1:
        sys.exit(f"FAILED: without a terminal: {run}")
    run = ask("--once", "--every", "100ms")
    if run.returncode != 0 or not re.search(rf" {leak.pid} ", run.stdout):
        sys.exit(f"FAILED: --once: {run}")
    run = ask("--once", "--every", "100ms", str(leak.pid))
    if run.returncode != 0 or f"process {leak.pid}" not in run.stdout or "\033" in run.stdout:
        sys.exit(f"FAILED: --once PID: {run}")
    run = ask("--once", "--every", "100ms", str(os.getpid()))  # on another malloc
    if run.returncode != 0 or "glibc's malloc" not in run.stdout:
        sys.exit(f"FAILED: --once of another malloc: {run}")


def main():
    command, program, library = sys.argv[1:]
    if shutil.which("tmux") is None:
        print("SKIP: tmux is not installed (scripts/setup.sh test)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        name = f"{folder}/top{os.getpid()}"
        caches, leak = start(program, library, name + "c", "idle_caches"), start(program, library, name + "l", "leak")
        try:
            without_terminal(command, leak)
            live(command, caches, leak)
        finally:
            for process in (caches, leak):
                process.kill()
                process.communicate()
    print("0 failures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
