#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc leaks --snapshot on leaks_fork.c: what the program that is forked notices of it.

  leaks_fork_test.py WHAT COMMAND PROGRAM LIBRARY

  calls     the main thread is in a system call, in a signal handler, in a loop, or in a restartable sequence
  cost      the command prints the cost first, then the pause and how long the fork existed
  excluded  memory that a fork lacks, or that continues to change, is copied separately, or named
  stopped   a process that is stopped stays stopped
  killed    the command is killed at KILLS random moments: the program notices nothing
  worker    the process that does the work is killed: the program keeps no child
  refused   processes that must not be forked, and kernels that do not fork
"""

import contextlib
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
import time

from command_test import SKIPPED, Test, clean_environment
from leaks_command_test import INCOMPLETE, LEAKS, Skipped

LEAKED = 10
CHECKS = 5
KILLS = 100
SEED = 24
TIMEOUT_S = 60
SLEEPING = ("nanosleep", "read", "futex", "futex_time", "poll", "epoll", "sigsuspend", "handler", "wait")
WHERES = (*SLEEPING, "spin", "sequence", "dispatch", "sleep")


class Forked:
    """Runs leaks_fork.c until the end of the block."""

    def __init__(self, test, where, prefix=(), **options):
        environment = clean_environment()
        if test.library != "linked" and not prefix:
            environment["LD_PRELOAD"] = test.library
        environment.update(options.pop("variables", {}))
        self.process = subprocess.Popen([*prefix, test.program, where], env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.pid = self.process.pid
        self.where = where
        line = self.process.stdout.readline()
        assert line == "ready\n", line + self.process.stderr.read()
        while self.where in SLEEPING and self.status("State") != "S":
            time.sleep(0.001)
        self.asleep_s = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def expect_right(self, test):
        """Lets the program end what it does."""
        out, err = self.process.communicate(f"{self.asleep_s:.9f}\n", timeout=TIMEOUT_S)
        test.expect(out == "right\n" and self.process.returncode == 0, f"{self.where}: {out} {err} {self.process.returncode}")

    def status(self, key):
        return re.search(rf"^{key}:\s+(\S+)", pathlib.Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)[1]

    def children(self):
        return children_of(self.pid)

    def await_rest(self):
        """Waits until the program is not traced and has no children but its own; returns what is left after a while."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            states = [path.read_text() for path in pathlib.Path(f"/proc/{self.pid}/task").glob("*/status")]
            children = self.children()
            left = (children if len(children) > (self.where == "wait") else [],
                    [text for text in states if "TracerPid:\t0\n" not in text])
            if not any(left) or time.monotonic() > end:
                return left
            time.sleep(0.002)


def check(test, program, *options, objects=LEAKED, status=LEAKS):
    run = test.ask("leaks", program.pid, "--snapshot", "--json", *options, status=status)
    report = json.loads(run.stdout or "{}")
    test.expect(report.get("objects") == objects, f"{program.where}: {run.stdout[:1500]} {run.stderr}")
    if status == LEAKS:
        test.expect(report.get("complete"), f"{program.where}: {report.get('incomplete')}")
    return report, run.stderr


def calls(test):
    for where in WHERES:
        with Forked(test, where) as program:
            for _ in range(CHECKS):
                check(test, program)
            # In one case the program has a child of its own.
            test.expect(len(program.children()) == (where == "wait"), f"{where}: children {program.children()}")
            program.expect_right(test)


def cost(test):
    with Forked(test, "sleep") as program:
        report, err = check(test, program)
        test.expect("forks process" in err and "page tables" in err and "more memory" in err, err)
        test.expect(report["stopped_ms"] > 0 and report["fork_existed_ms"] > 0, f"{report}")
        both = subprocess.run([test.command, "leaks", str(program.pid), "--snapshot"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False)
        test.expect(both.stdout.startswith("tcmalloc: --snapshot forks") and "has leaked" in both.stdout, both.stdout)
        test.expect("to be forked" in both.stdout, both.stdout)
        program.expect_right(test)


def excluded(test):
    for where in ("dontfork", "wipeonfork"):
        with Forked(test, where) as program:
            check(test, program)
            program.expect_right(test)
        with Forked(test, where + "_large") as program:
            report, _ = check(test, program, objects=LEAKED + 1, status=INCOMPLETE)
            reason = str(report.get("incomplete"))
            test.expect("keeps out of forks" in reason and "0x" in reason and report.get("probable"), reason)
            program.expect_right(test)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with Forked(test, "sleep", variables={"TCMALLOC_MEMFS_MALLOC_PATH": f"{folder}/heap"}) as program:
            report, _ = check(test, program, status=INCOMPLETE)
            reason = str(report.get("incomplete"))
            test.expect("went on changing" in reason and folder in reason, reason)
            program.expect_right(test)


def await_stopped(program):
    end = time.monotonic() + 60
    while program.status("State") != "T":
        if time.monotonic() > end:
            raise AssertionError(f"the process does not stop: state {program.status('State')}")
        time.sleep(0.001)


def stopped(test):
    with Forked(test, "spin") as program:
        os.kill(program.pid, signal.SIGSTOP)
        await_stopped(program)
        for _ in range(3):
            check(test, program)
            # A thread that is released enters the stop again by itself, in the kernel.
            await_stopped(program)
        # A pending signal must reach the program, not interrupt the injected call.
        os.kill(program.pid, signal.SIGURG)
        check(test, program)
        os.kill(program.pid, signal.SIGCONT)
        check(test, program)
        program.expect_right(test)


def killed(test):
    random.seed(SEED)
    print(f"seed {SEED}")
    command = [test.command, "leaks", "", "--snapshot", "--json"]
    for where in ("spin", "futex_time", "handler", "wait"):
        with Forked(test, where) as program:
            command[2] = str(program.pid)
            start = time.monotonic()
            check(test, program)
            whole_s = time.monotonic() - start
            for i in range(KILLS // 4):
                tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0, 1.1 * whole_s))
                tool.kill()
                tool.wait()
                left = program.await_rest()
                test.expect(not any(left), f"{where} after kill {i}: {left}")
            check(test, program)
            program.expect_right(test)


def children_of(pid):
    try:
        return [int(child) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    except FileNotFoundError:
        return []


def stop_with_fork(test, program):
    """Runs the command; stops the process that does the work while the fork exists and the program runs again."""
    while True:
        tool = subprocess.Popen([test.command, "leaks", str(program.pid), "--snapshot"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        while tool.poll() is None:
            workers = children_of(tool.pid)
            if len(workers) != 1 or not any(state_of(child) == "t" for child in program.children()):
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGSTOP)
                while state_of(workers[0]) not in ("T", "Z", ""):
                    time.sleep(0.001)
                forks = [child for child in program.children() if state_of(child) == "t"]
                if forks and program.status("TracerPid") == "0":
                    return tool, workers[0], forks
                os.kill(workers[0], signal.SIGCONT)
        tool.communicate()  # it ended before its fork was seen


def worker(test):
    with Forked(test, "large") as program:
        for _ in range(3):
            tool, process, _ = stop_with_fork(test, program)
            os.kill(process, signal.SIGKILL)
            out, err = tool.communicate(timeout=TIMEOUT_S)
            test.expect(tool.returncode == 1 and "was killed by signal 9" in err and not out, out + err)
            test.expect(not program.children(), f"children: {program.children()}")
        # Kills the fork, as the kernel does when memory is short.
        tool, process, forks = stop_with_fork(test, program)
        for each in forks:
            os.kill(each, signal.SIGKILL)
        os.kill(process, signal.SIGCONT)
        out, err = tool.communicate(timeout=TIMEOUT_S)
        test.expect(tool.returncode == 1 and "incomplete: the fork" in err and not out, f"{tool.returncode} {out}{err}")
        test.expect(not program.children(), f"children: {program.children()}")
        program.expect_right(test)


def state_of(pid):
    try:
        return re.search(r"^State:\s+(\w)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    except FileNotFoundError:
        return ""


def expect_refusal(test, program, reason, **options):
    run = test.ask("leaks", program.pid, "--snapshot", status=1, **options)
    lines = [line for line in run.stderr.splitlines() if "forks process" not in line]
    test.expect(len(lines) == 1 and reason in lines[0] and not run.stdout, f"{program.where}: {run.stdout}{run.stderr}")
    test.expect(not program.children(), f"{program.where}: children {program.children()}")


def refused(test):
    with Forked(test, "sleep") as program:
        if "32" in elf_class(test.program):
            expect_refusal(test, program, "is a 32-bit process")
            program.expect_right(test)
            return
        run = test.ask("leaks", program.pid, "--snapshot", "--no-stop", status=None)
        test.expect(run.returncode != 0 and "excludes" in run.stderr, run.stderr)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "snapshot"
            test.ask("snapshot", program.pid, file, "--contents")
            run = test.ask("leaks", file, "--snapshot", status=1)
            test.expect("needs a running process" in run.stderr, run.stderr)
        program.expect_right(test)
    with Forked(test, "seccomp") as program:
        expect_refusal(test, program, "has a seccomp filter")
        program.expect_right(test)
    if os.geteuid() != 0:
        raise Skipped("the rest needs root")
    with Forked(test, "namespace") as program:
        expect_refusal(test, program, "pid namespace for its children")
        program.expect_right(test)
    with Forked(test, "userfault") as program:
        expect_refusal(test, program, "userfaultfd")
        program.expect_right(test)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copies = {path: shutil.copy(path, folder) for path in (test.program, test.library) if path != "linked"}
        program, library = test.program, test.library
        test.program, test.library = copies[program], copies.get(library, library)
        try:
            with Forked(test, "sleep", user="nobody") as program_of_nobody:
                check(test, program_of_nobody)
                program_of_nobody.expect_right(test)
            with Forked(test, "limit", user="nobody") as program_of_nobody:
                expect_refusal(test, program_of_nobody, "does not fork")
                program_of_nobody.expect_right(test)
            with Forked(test, "sleep") as program_of_root:
                command = shutil.copy(test.command, folder)
                expect_refusal(test, program_of_root, "user", user="nobody", command=command)
                program_of_root.expect_right(test)
        finally:
            test.program, test.library = program, library
    if shutil.which("strace") is None:
        return
    with Forked(test, "sleep") as program:
        tracer = subprocess.Popen(["strace", "-f", "-o", os.devnull, "-p", str(program.pid)], stderr=subprocess.PIPE,
                                  text=True)
        while "attached" not in tracer.stderr.readline():
            pass
        expect_refusal(test, program, "is traced by")
        tracer.terminate()
        tracer.wait()
        program.expect_right(test)


def elf_class(path):
    return {1: "ELF32", 2: "ELF64"}[pathlib.Path(path).read_bytes()[4]]


def main():
    what, command, program, library = sys.argv[1:]
    test = Test(command, program, library)
    if test.command is None:
        print("SKIP: no build has the command")
        return SKIPPED
    try:
        {"calls": calls, "cost": cost, "excluded": excluded, "stopped": stopped, "killed": killed, "worker": worker,
         "refused": refused}[what](test)
    except Skipped as reason:
        print(f"SKIP: {reason}")
        return 1 if test.failed else SKIPPED
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
