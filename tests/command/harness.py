# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of the tcmalloc command: programs that it reads, and its answers.

A test file has a function test_WHAT(test) for each test, and ends with run_test(globals()). Its arguments are WHAT COMMAND
PROGRAM LIBRARY. LIBRARY may be "linked": then the program has the allocator in itself. COMMAND may be the folder of all builds:
then the test uses a command that one of them has, for programs that no command is built for.
"""

import contextlib
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

# Some tests expect of the command what the tests of these folders expect of the library.
PROCESS = pathlib.Path(__file__).resolve().parents[1] / "process"
sys.path[:0] = [str(PROCESS), str(PROCESS / "misuse")]
import process_test  # noqa: E402
from process_test import SKIPPED, Skipped, environment as clean_environment  # noqa: E402

TIMEOUT_S = 60
DAMAGED, OTHER_MALLOC, LEAKS, INCOMPLETE, PENDING = 2, 3, 4, 5, 6  # exit statuses of the command
# Without the library's thread, which releases memory, a program that does nothing has a heap that does not change.
AT_REST = {"TCMALLOC_BACKGROUND": "0"}
SAMPLED = {**AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "20000"}


def wait_until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, f"not within {TIMEOUT_S} seconds: {what}"
        time.sleep(0.002)


def tasks(pid):
    return list(pathlib.Path(f"/proc/{pid}/task").iterdir())


def status_of(process, key):
    """A line of /proc/PID/status; empty if there is no such process. `process` is a PID or a folder of /proc."""
    folder = process if isinstance(process, pathlib.Path) else pathlib.Path(f"/proc/{process}")
    try:
        return re.search(rf"^{key}:\s+(\S+)", (folder / "status").read_text(), re.MULTILINE)[1]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(process):
    """The letter that ps prints."""
    return status_of(process, "State")


def children_of(pid):
    try:
        return [int(child) for task in tasks(pid) for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_asleep(thread):
    """Whether a thread waits in the kernel. `thread` is a folder of /proc. A thread that is preempted while it prepares to wait has
    the state S, too, but still runs: only the file `syscall` tells the two apart."""
    if state_of(thread) != "S":
        return False
    try:
        return (thread / "syscall").read_text() != "running\n"
    except OSError:
        return False


def wait_until_asleep(pid):
    wait_until(lambda: all(is_asleep(task) for task in tasks(pid)), f"all threads of {pid} sleep")


def wait_for_mapping(pid, name):
    wait_until(lambda: name in pathlib.Path(f"/proc/{pid}/maps").read_text(), f"{pid} has {name}")


def needs(program):
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not installed (scripts/setup.sh test)")


def needs_root():
    if os.geteuid() != 0:
        raise Skipped("the rest needs root")


def namespace(*options):
    """A prefix of commands that run in namespaces of their own; the program is its child."""
    prefix = ("unshare", *options, "--fork", "--kill-child")
    allowed = subprocess.run([*prefix, "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if allowed.returncode != 0:
        raise Skipped(f"namespaces are not permitted here: {allowed.stdout.strip()}")
    return prefix


class Process:
    """A program that prints lines and then one that begins with `ready`, and waits, until the end of the block. `said` are the
    words of the lines before."""

    def __init__(self, library, *command, ready="ready", folder=None, user=None, stderr=None, **variables):
        preload = {} if library == "linked" else {"LD_PRELOAD": str(library)}
        self.process = subprocess.Popen(command, env=clean_environment(**preload, **variables), text=True, cwd=folder, user=user,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self.pid = self.process.pid
        self.said = []
        for line in self.process.stdout:
            if line.startswith(ready):
                return
            self.said.append(line.split())
        raise AssertionError(f"{command} has ended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Target(Process):
    """A process of the program observed_program.c."""

    def __init__(self, test, library=None, prefix=(), program=None, **options):
        # A prefix preloads the library itself, for the program only.
        super().__init__("linked" if prefix else library or test.library, *prefix, program or test.program, **options)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def objects(self):
        """The objects that the library lists."""
        words = self.tell("objects").split()
        return {(int(words[i], 16), int(words[i + 1])) for i in range(0, len(words), 2)}


class Tracer:
    """A process that traces all threads of another one, as a debugger does. The threads keep running."""

    SCRIPT = """
import ctypes, pathlib, sys
libc = ctypes.CDLL(None, use_errno=True)
for task in pathlib.Path(f"/proc/{sys.argv[1]}/task").iterdir():
    if libc.ptrace(0x4206, int(task.name), None, None) != 0:  # PTRACE_SEIZE
        sys.exit("cannot trace")
print("traces", flush=True)
sys.stdin.read()
"""

    def __init__(self, pid):
        self.process = subprocess.Popen([sys.executable, "-c", self.SCRIPT, str(pid)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "traces\n"

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.communicate(timeout=TIMEOUT_S)


class Test(process_test.Test):

    def __init__(self, command, program, library):
        super().__init__(os.curdir, program, library)
        path = pathlib.Path(command)
        if path.is_dir():
            path = max(path.glob("*/bin/tcmalloc"), key=lambda built: built.stat().st_mtime, default=None)
            if path is None:
                raise Skipped(f"no build in {command} has the command")
        self.command = path

    def ask(self, *arguments, status=0, command=None, environment=None, **options):
        """Runs the command. `status` is the exit status that the command must have, or all those
        that it may have; None: any."""
        run = subprocess.run([command or self.command, *map(str, arguments)], stdout=subprocess.PIPE, text=True, errors="replace",
                             stderr=subprocess.PIPE, check=False, timeout=3 * TIMEOUT_S,
                             env=environment or clean_environment(), **options)
        statuses = status if isinstance(status, tuple) else (status,)
        if status is not None:
            self.expect(run.returncode in statuses, f"{arguments}: exit status {run.returncode}, not {status}\n"
                        f"{run.stdout[:500]}{run.stderr[:500]}")
        return run

    def json(self, *arguments, **options):
        return json.loads(self.ask(*arguments, "--json", **options).stdout or "{}")

    def fails(self, *arguments, words, status=1, **options):
        """The command fails with one line, which has all the words. Returns the line."""
        run = self.ask(*arguments, status=status, **options)
        words = (words,) if isinstance(words, str) else words
        self.expect(run.stderr.startswith("tcmalloc: ") and run.stderr.count("\n") == 1 and run.stdout == "" and
                    all(word in run.stderr for word in words), f"{arguments}: not {words}: {run.stdout}{run.stderr}")
        return run.stderr

    def fails_as_nobody(self, *arguments, words):
        """The command fails without the rights of a debugger."""
        self.as_nobody(self.fails, *arguments, words=words)

    def as_nobody(self, f, *arguments, **options):
        """Calls f, which runs the command, without the rights of a debugger."""
        needs_root()
        with new_folder() as folder:  # the build folder may be readable by root only
            return f(*arguments, **options, user="nobody", command=shutil.copy(self.command, folder))

    def check_sums(self, figures, least=20 << 20):
        parts = sum(figures[name] for name in ("in_use_bytes", "page_heap_free_bytes", "central_cache_free_bytes",
                                               "thread_cache_free_bytes", "metadata_bytes"))
        self.expect_equal(parts, figures["actual_bytes"], "the sum of the parts")
        self.expect_equal(figures["virtual_bytes"] - figures["released_bytes"], parts, "virtual less released bytes")
        self.expect(least < figures["in_use_bytes"] >= figures["large_in_use_bytes"], f"{figures['in_use_bytes']} in use")

    def objects(self, target):
        """The objects that the command lists."""
        return {tuple(pair) for pair in self.json("objects", target, "--list")["list"]}


@contextlib.contextmanager
def new_folder(**options):
    """A folder that everybody may read."""
    with tempfile.TemporaryDirectory(**options) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield folder


def gcore(process, folder):
    """Returns a core of a process that continues."""
    needs("gcore")
    subprocess.run(["gcore", "-o", folder / "core", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)
    return folder / f"core.{process.pid}"


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", notes)
    if found is None:
        raise Skipped("the compiler gives programs no build id")
    return found[1]


@contextlib.contextmanager
def debuginfod(folder, files):
    """The environment in which a web server serves the files {path below buildid/: file}."""
    libraries = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    if "libdebuginfod.so.1" not in libraries:
        raise Skipped("libdebuginfod.so.1 is not installed (scripts/setup.sh test)")
    for name, file in files.items():
        place = folder / "served/buildid" / name
        place.parent.mkdir(parents=True)
        shutil.copy(file, place)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield clean_environment(DEBUGINFOD_URLS=f"http://127.0.0.1:{web.server_address[1]}",
                                DEBUGINFOD_CACHE_PATH=f"{folder}/cache")
        web.shutdown()


def run_test(tests, test_class=Test):
    """Runs the test that the arguments name, and ends with its status."""
    what, *arguments = sys.argv[1:]
    status = 0
    test = None
    try:
        test = test_class(*arguments)
        tests[f"test_{what}"](test)
    except Skipped as reason:
        print(f"SKIP: {reason}")
        status = SKIPPED
    failed = test.failed if test else 0
    print(f"{failed} failures")
    sys.exit(1 if failed else status)
