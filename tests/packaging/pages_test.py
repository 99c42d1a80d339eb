#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs each command of README.md and of docs/, and compares what they print.

Usage: pages_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER

The library and the command are installed into the home folder, as README.md says. A redis-server runs on it and is the
process of each command; it holds a tenth of the keys that it once had. your-program, server and app are perl. `core` is a
snapshot of the server, which is a core file.

Commands are in blocks of sh, and in lines that begin with "$ " of blocks without a language. A block of text after one
of sh is what it prints: numbers may differ, and a line "..." stands for any lines. The output after a "$ " line is that
of another process, and is not compared; if it is a message of the command, the command must fail. In the table of
questions of README.md each command is run. A command that is not run here is in ELSEWHERE or NOT_RUN.
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
from steps import need

# These pages are about the design, and have no commands for users.
LEFT_OUT = ("docs/design/", "docs/decisions/")
# Pages and folders whose commands another test runs.
ELSEWHERE = {
    "docs/cmake.md": "packaging/examples_test.py",
    "docs/crashes.md": "command/crash_test.py",
    "docs/debian.md": "packaging/debian_root_steps.sh",
    "docs/getting-started.md": "packaging/getting_started_test.py",
    "docs/go.md": "packaging/examples_test.py",
    "docs/migrating-from-": "packaging/getting_started_test.py",
    "docs/python.md": "packaging/wheel_test.py",
    "docs/recipes/": "packaging/recipes_test.py",
    "docs/rust.md": "packaging/rust_test.py",
    "docs/system-memory.md": "process/memory/memory_document_test.py",
}
# The page and the beginning of each command that is not run, and why.
NOT_RUN = {
    ("docs/debugging.md", "LD_PRELOAD="): "the program must have the mistake: process/misuse/debug_library_test.py",
    ("docs/debugging.md", "tcmalloc check"): "the process must have the mistake: command/debug_check_test.py",
    ("docs/heap-profiler.md", "pprof"): "Go's pprof is compiled by programs/pprof_test.py",
    ("docs/leak-checker.md", "HEAPCHECK="): "the program must have the leak: process/leaks/leaks_test.py",
    ("docs/profiles.md", "TCMALLOC_PROFILE="): "the server must wait for a signal: process/profiles/reports_test.py",
    ("docs/profiles.md", "kill"): "sends the signal to that server",
    ("docs/profiles.md", "pprof"): "reads the file of that server",
    ("docs/statistics.md", "L=/path/to"): "process/statistics/statistics_document_test.py runs it",
    ("docs/statistics.md", "TCMALLOC_STATS_EVERY="): "the server must run for a while: process/profiles/reports_test.py",
    ("docs/statistics.md", "tail"): "reads the file of that server",
    ("docs/statistics.md", "MALLOCSTATS=1 TCMALLOC_REPORT_AT_TERM="): "the server must wait for a signal: process/profiles/reports_test.py",
    ("docs/statistics.md", "kill"): "sends the signal to that server",
    ("docs/verify.md", "sha256sum --check"): "packaging/release_test.py runs it on what a release publishes",
    ("docs/verify.md", "git checkout v"): "a clone need not have the tag",
}
BLOCK = re.compile(r"^```([a-z+]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block without a language: indented, or fenced.
SHOWN = re.compile(r"(?:^    .+\n(?:\n(?=    ))?)+|^```\n(?:.*\n)*?```$", re.MULTILINE)
SHOWN_COMMAND = re.compile(r"^ *\$ (.*)(?=\n *(.*))", re.MULTILINE)
QUESTION = re.compile(r"^\| [^|]*\? \| `(tcmalloc [^`|]*)`|^\| How do I [^|]* \| `(tcmalloc [^`|]*)`", re.MULTILINE)
NUMBER = re.compile(r"\b\d[\d.]*\b(?: (?:B|[KMG]iB)\b)?")
KEYS = 200000
SEED = 20261126
# Exit statuses of the command that are answers: "leaks" found leaks, or could not read everything.
ANSWERS = {"leaks": (0, 4, 5)}
LEAST_COMMANDS = 40


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
        self.address = "0"  # of an object of the process
        self.left_out = set()

    def run(self, command, statuses=(0,)):
        """Runs a command and returns its output on both streams; None after a complaint."""
        self.ran += 1
        here = re.sub(r"\bPID\b", str(self.pid), command).replace("/tmp/", f"{self.folder}/")
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

    def is_left_out(self, path, command):
        found = {(page, beginning) for page, beginning in NOT_RUN if page == path and command.startswith(beginning)}
        self.left_out |= found
        return bool(found)

    def page(self, path, text):
        printed = None
        for language, contents in BLOCK.findall(text):
            if language == "sh":
                printed = None if self.is_left_out(path, contents) else self.run(contents)
            elif language == "text" and printed is not None:
                if not has_shape(shape(printed), shape(contents)):
                    self.failed += 1
                    print(f"FAILED: {path}: printed\n{printed}instead of\n{contents}")
                printed = None

    def here(self, command):
        """The command, on this process and this machine."""
        command = re.sub(r"(?<= )\d{4,5}(?= |$)", str(self.pid), command)
        command = re.sub(r"0x7f[0-9a-f]{10}", self.address, command)
        return command.replace("/usr/lib/libtcmalloc", "~/tcmalloc/lib/libtcmalloc").replace("/opt/shop/", "./")

    def shown(self, path, text):
        for block in SHOWN.findall(BLOCK.sub("", text)):
            for command, after in SHOWN_COMMAND.findall(f"{block}\n"):
                if self.is_left_out(path, command):
                    continue
                subcommand = command.partition(" ")[2].partition(" ")[0]
                fails = after.startswith(f"tcmalloc: {subcommand} ")
                self.run(self.here(command), (1,) if fails else ANSWERS.get(subcommand, (0,)))

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
    need("redis-server", "redis-cli", "perl")
    shutil.rmtree(work, ignore_errors=True)
    (work / "bin").mkdir(parents=True)
    subprocess.run(["cmake", "--install", build, "--prefix", work / "tcmalloc"], check=True, stdout=subprocess.DEVNULL)
    for name in ("bin/your-program", "server", "app"):
        shutil.copy(shutil.which("perl"), work / name)
    (work / "server-files").mkdir()
    own = environment(HOME=str(work), PATH=f"{work}/tcmalloc/bin:{work}/bin:{os.environ['PATH']}")
    del own["TCMALLOC_MAX_FREE_QUEUE_SIZE"]  # tcmalloc ps would show the variable
    # A path of a socket is at most 108 bytes long.
    with tempfile.TemporaryDirectory(prefix="tcmalloc-pages-") as folder:
        server = start_redis(pathlib.Path(folder), own)
        try:
            pages = Pages(work, own, server.pid)
            pages.address = re.search(r"0x\w+", pages.run("tcmalloc objects PID --size 100 --list"))[0]
            pages.run("tcmalloc snapshot PID core --contents")
            for path in [source / "README.md", *sorted((source / "docs").rglob("*.md"))]:
                name = path.relative_to(source).as_posix()
                if not name.startswith((*LEFT_OUT, *ELSEWHERE)):
                    pages.page(name, path.read_text())
                    pages.shown(name, path.read_text())
            pages.questions((source / "README.md").read_text())
            for page, beginning in sorted(set(NOT_RUN) - pages.left_out):
                pages.failed += 1
                print(f"FAILED: {page} has no command that begins with {beginning}")
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
    print(f"{pages.ran} commands, {pages.failed} failed")
    return 1 if pages.failed or pages.ran < LEAST_COMMANDS else 0


if __name__ == "__main__":
    sys.exit(main())
