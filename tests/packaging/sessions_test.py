#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the sessions with a redis-server that the pages of docs/command/, docs/control.md and docs/doctor.md show.

Usage: sessions_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER

A session is an indented block of lines "$ tcmalloc ..." with what each prints. The server is that of pages_test.py, on the
installed library. Each line that a page shows has to be printed: numbers and addresses may differ, and a line "..." stands
for any lines. Lines of call sites, types, sizes and files of the server, which depend on its version and on chance, need not
be the same: FREE matches them. OTHERS are sessions with other programs than this server, and the tests that compare
them.
"""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from clients import environment
from pages_test import SKIPPED, shape, start_redis

PAGES = ("docs/command/*.md", "docs/control.md", "docs/doctor.md")
SESSION = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
ADDRESS = re.compile(r"0x[0-9a-f]+")
OTHERS = {
    "tcmalloc leaks": "process.command_leaks",
    "tcmalloc profile core": "process.core_files",
    "tcmalloc inspect --referrers": "process.referrers",
    "tcmalloc types": "process.types",
    "tcmalloc doctor 2879 --for": "process.doctor",
    "tcmalloc profile 2593 --watch": "programs.profile_page",
}
FREE = re.compile(r"^[\w:~+-]+$"                                      # a frame of a call stack
                  r"|\bobjects [\w+-]+$"                              # the first frame
                  # Reasons of doctor. Free pages are released while the sessions run, so they may be too few for a reason.
                  r"|^-> |^N.* of it in |^/usr/|^N in the page heap, "
                  r"|^A [0-9a-fN ]+"                                   # contents of an object
                  r"|^N N N N N|^N N% N objects N|^N N% N objects large"  # a size class
                  r"|^[+-]?N N N \w+( of N bytes, [a-z ]+)?$"          # a figure that has changed
                  r"|^objects N of|^handed out|^span A"
                  r"|^N of the heap was never touched"
                  r"|^N N N N redis-server TCMalloc N$")                # its settings follow
# The server gets more keys before the second of two figures.
SECOND = re.compile(r"\bb\.(json|snapshot)")


def sessions(text):
    """[[(command, [line])]] of the indented blocks that begin with a command."""
    for block in SESSION.findall(text):
        lines = [line[4:] for line in block.rstrip("\n").split("\n")]
        lines = lines[next((i for i, line in enumerate(lines) if line), 0):]
        if not lines or not lines[0].startswith("$ tcmalloc "):
            continue
        found = []
        for line in lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        yield found


def left_to_others(command):
    return any(command.startswith(other) for other in OTHERS)


def shapes(text):
    return [line for line in shape(ADDRESS.sub("A", text)) if line]


def missing(printed, written):
    """Lines that a page shows and that were not printed."""
    there = set(shapes(printed))

    def is_there(line):
        if line in there or FREE.search(line):
            return True
        # "..." stands for the rest of the line, or for other lines.
        return line.endswith("...") and any(other.startswith(line[:-3]) for other in there)
    return [line for line in shapes("\n".join(written)) if not is_there(line)]


def object_of(command, own, pid):
    """The address of an object of the server."""
    listed = subprocess.run([command, "objects", str(pid), "--list"], env=own, stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return ADDRESS.search(listed)[0]


class Sessions:
    def __init__(self, work, own, server, redis):
        self.work, self.own, self.server, self.redis = work, own, server, redis
        self.address = object_of(work / "tcmalloc/bin/tcmalloc", own, server.pid)
        self.ran = self.failed = self.left = 0

    def run(self, page, command, written):
        if left_to_others(command):
            self.left += 1
            return
        if SECOND.search(command) and "diff" not in command:
            self.redis([f"SET more{self.ran}.{key} {'w' * 100}" for key in range(50000)])
        here = re.sub(r"(?<= )\d{4,6}\b", str(self.server.pid), ADDRESS.sub(self.address, command))
        done = subprocess.run(["bash", "-c", here], cwd=self.work, env=self.own, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100)
        self.ran += 1
        wrong = missing(done.stdout, written)
        refused = any(line.startswith("tcmalloc: ") for line in written)
        if wrong or (done.returncode != 0) != refused:
            self.failed += 1
            print(f"FAILED: {page}: {here}: status {done.returncode}: no line like", *wrong, f"in\n{done.stdout}", sep="\n")


def main():
    source, build, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    absent = [name for name in ("redis-server", "redis-cli") if shutil.which(name) is None]
    if absent:
        print(f"SKIP: not installed: {', '.join(absent)}")
        return SKIPPED
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run(["cmake", "--install", build, "--prefix", work / "tcmalloc"], check=True, stdout=subprocess.DEVNULL)
    own = environment(HOME=str(work), PATH=f"{work}/tcmalloc/bin:/usr/bin:/bin")
    del own["TCMALLOC_MAX_FREE_QUEUE_SIZE"]
    ran = failed = left = 0
    pages = sorted(path for pattern in PAGES for path in source.glob(pattern))
    for path in pages:
        page, commands = path.relative_to(source), [line for session in sessions(path.read_text()) for line in session]
        if all(left_to_others(command) for command, _ in commands):
            left += len(commands)
            continue
        # A path of a socket is at most 108 bytes long.
        with tempfile.TemporaryDirectory(prefix="tcmalloc-pages-") as folder:
            server, redis = start_redis(pathlib.Path(folder), own)
            try:
                run = Sessions(work, own, server, redis)
                for command, written in commands:
                    run.run(page, command, written)
            finally:
                server.send_signal(signal.SIGKILL)
                server.wait()
        ran, failed, left = ran + run.ran, failed + run.failed, left + run.left
    print(f"{ran} commands, {left} left to other tests, {failed} failed")
    return 1 if failed or ran < 18 else 0


if __name__ == "__main__":
    sys.exit(main())
