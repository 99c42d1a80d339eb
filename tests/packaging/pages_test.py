#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of README.md and of the pages for operators on a redis-server, and compares what they print.

Usage: pages_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER

The library and the command are installed into the home folder, as README.md says. A redis-server runs on it, holds a tenth
of the keys that it once had, and is PID. Blocks of shell commands are run; a block of text after one is what it prints:
numbers may differ, and a line "..." stands for any lines. In the table of questions of README.md each command is run.
your-program is perl.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from clients import environment

SKIPPED = 77
PAGES = ("README.md", "docs/tuning.md", "docs/containers.md")
BLOCK = re.compile(r"^```([a-z+]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUESTION = re.compile(r"^\| [^|]*\? \| `(tcmalloc [^`|]*)`|^\| How do I [^|]* \| `(tcmalloc [^`|]*)`", re.MULTILINE)
NUMBER = re.compile(r"\b\d[\d.]*\b(?: (?:B|[KMG]iB)\b)?")
KEYS = 200000
SEED = 20261126
# Exit statuses of the command that are answers: "leaks" found leaks, or could not read everything.
ANSWERS = {"leaks": (0, 4, 5)}
LEAST_COMMANDS = 10


def shape(text):
    """The lines with each number as N and without runs of spaces."""
    return [re.sub(r" +", " ", NUMBER.sub("N", line)).strip() for line in text.strip("\n").split("\n")]


def has_shape(printed, written):
    """Whether the lines are the written ones, where "..." stands for any."""
    if not written:
        return not printed
    if written[0] == "...":
        return any(has_shape(printed[skip:], written[1:]) for skip in range(len(printed) + 1))
    return bool(printed) and printed[0] == written[0] and has_shape(printed[1:], written[1:])


def start_redis(folder, own):
    """The server, after nine of ten of its keys were deleted."""
    socket = folder / "redis"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL,
        env=own | {"LD_PRELOAD": f"{own['HOME']}/tcmalloc/lib/libtcmalloc.so.4", "TCMALLOC_SAMPLE_PARAMETER": "524288"})
    while not socket.exists():
        if server.poll() is not None:
            raise SystemExit(f"redis-server has ended with status {server.returncode}")
        time.sleep(0.01)
    print(f"seed {SEED}")
    choice = random.Random(SEED)
    commands = [f"SET key{key} {'v' * choice.randint(50, 450)}" for key in range(KEYS)]
    commands += [f"DEL key{key}" for key in range(KEYS) if choice.random() < 0.9]
    subprocess.run(["redis-cli", "-s", socket, "--pipe"], input="\n".join(commands) + "\n", text=True, check=True,
                   stdout=subprocess.DEVNULL, timeout=100)
    return server


class Pages:
    def __init__(self, folder, own, pid, user=None):
        """Commands run as `user`, or, if it is None, as this process's user."""
        self.folder, self.own, self.pid = folder, own, pid
        self.user = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.ran = self.failed = 0

    def run(self, command, statuses=(0,)):
        """Runs a command and returns its output on both streams; None after a complaint."""
        self.ran += 1
        here = re.sub(r"\bPID\b", str(self.pid), command)
        # The output is not a pipe: a server that the command leaves would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(["bash", "-eu", "-c", here], cwd=self.folder, env=self.own, stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT, text=True, timeout=100, **self.user)
            output.seek(0)
            printed = output.read()
        if done.returncode not in statuses:
            self.failed += 1
            print(f"FAILED: status {done.returncode} of\n{here}\n{printed}")
            return None
        return printed

    def page(self, path, text):
        printed = None
        for language, contents in BLOCK.findall(text):
            if language == "sh":
                printed = self.run(contents)
            elif language == "text" and printed is not None:
                if not has_shape(shape(printed), shape(contents)):
                    self.failed += 1
                    print(f"FAILED: {path}: printed\n{printed}instead of\n{contents}")
                printed = None

    def questions(self, text):
        found = [question or other for question, other in QUESTION.findall(text)]
        if len(found) != 5:
            self.failed += 1
            print(f"FAILED: not five questions: {found}")
        for command in found:
            answer = self.run(command, ANSWERS.get(command.split()[1], (0,)))
            print(f"{command}: {(answer or '').strip().splitlines()[:1]}")


def main():
    source, build, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    missing = [name for name in ("redis-server", "redis-cli", "perl") if shutil.which(name) is None]
    if missing:
        print(f"SKIP: not installed: {', '.join(missing)}")
        return SKIPPED
    shutil.rmtree(work, ignore_errors=True)
    (work / "bin").mkdir(parents=True)
    subprocess.run(["cmake", "--install", build, "--prefix", work / "tcmalloc"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(shutil.which("perl"), work / "bin/your-program")
    own = environment(HOME=str(work), PATH=f"{work}/tcmalloc/bin:{work}/bin:{os.environ['PATH']}")
    del own["TCMALLOC_MAX_FREE_QUEUE_SIZE"]  # tcmalloc ps shows what is set
    # A path of a socket is at most 108 bytes long.
    with tempfile.TemporaryDirectory(prefix="tcmalloc-pages-") as folder:
        server = start_redis(pathlib.Path(folder), own)
        try:
            pages = Pages(work, own, server.pid)
            for name in PAGES:
                pages.page(name, (source / name).read_text())
            pages.questions((source / "README.md").read_text())
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
    print(f"{pages.ran} commands, {pages.failed} failed")
    return 1 if pages.failed or pages.ran < LEAST_COMMANDS else 0


if __name__ == "__main__":
    sys.exit(main())
