#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests what a program notices if tcmalloc leaks --snapshot forks it (leaks_fork.c)."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from harness import (INCOMPLETE, LEAKS, TIMEOUT_S, Process, Tracer, children_of, is_asleep, needs_root, new_folder, run_test, state_of,
                     status_of, tasks, wait_until)

LEAKED = 10
CHECKS = 5
KILLS = 100
SEED = 24
SLEEPING = ("nanosleep", "read", "futex", "epoll", "sigsuspend", "handler", "wait")
WHERES = (*SLEEPING, "spin", "sequence", "dispatch")


class Forked(Process):
    """Runs leaks_fork.c until the end of the block."""

    def __init__(self, test, where, **options):
        super().__init__(test.library, test.program, where, stderr=subprocess.PIPE, **options)
        self.where = where
        if where in SLEEPING:
            wait_until(lambda: is_asleep(pathlib.Path(f"/proc/{self.pid}")), f"{where} sleeps")
        self.asleep_s = time.monotonic()

    def expect_right(self, test):
        """Lets the program end what it does."""
        out, err = self.process.communicate(f"{self.asleep_s:.9f}\n", timeout=TIMEOUT_S)
        test.expect(out == "right\n" and self.process.returncode == 0, f"{self.where}: {out} {err} {self.process.returncode}")

    def children(self):
        return children_of(self.pid)

    def is_alone(self):
        """The program is not traced and has no children but its own."""
        return len(self.children()) == (self.where == "wait") and all(status_of(task, "TracerPid") == "0" for task in tasks(self.pid))


def check(test, program, objects=LEAKED, status=LEAKS):
    report = test.json("leaks", program.pid, "--snapshot", status=status)
    test.expect(report.get("objects") == objects, f"{program.where}: {str(report)[:1500]}")
    test.expect(report.get("complete") == (status == LEAKS), f"{program.where}: {report.get('incomplete')}")
    return report


def test_calls(test):
    for where in WHERES:
        with Forked(test, where) as program:
            for _ in range(CHECKS):
                check(test, program)
            # In one case the program has a child of its own.
            test.expect_equal(len(program.children()), where == "wait", f"{where}: children")
            program.expect_right(test)


def test_cost(test):
    with Forked(test, "sleep") as program:
        report = check(test, program)
        test.expect(report["stopped_ms"] > 0 and report["fork_existed_ms"] > 0, f"{report}")
        text = subprocess.run([test.command, "leaks", str(program.pid), "--snapshot"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False).stdout
        test.expect(text.startswith("tcmalloc: --snapshot forks process") and all(words in text for words in (
            "page tables", "more memory", "has leaked", "to be forked")), text)
        program.expect_right(test)


def test_excluded(test):
    for where in ("dontfork", "wipeonfork"):
        with Forked(test, where) as program:
            check(test, program)
            program.expect_right(test)
        with Forked(test, where + "_large") as program:
            report = check(test, program, objects=LEAKED + 1, status=INCOMPLETE)
            reason = str(report["incomplete"])
            test.expect("keeps out of forks" in reason and "0x" in reason and report["probable"], reason)
            program.expect_right(test)
    with new_folder(dir="/dev/shm") as folder, Forked(test, "sleep", TCMALLOC_MEMFS_MALLOC_PATH=f"{folder}/heap") as program:
        reason = str(check(test, program, status=INCOMPLETE)["incomplete"])
        test.expect("went on changing" in reason and str(folder) in reason, reason)
        program.expect_right(test)


def test_stopped(test):
    with Forked(test, "spin") as program:
        os.kill(program.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(program.pid) == "T", "it stops")
        for _ in range(3):
            check(test, program)
            # A thread that is released enters the stop again by itself, in the kernel.
            wait_until(lambda: state_of(program.pid) == "T", "it stays stopped")
        # A pending signal must reach the program, not interrupt the injected call.
        os.kill(program.pid, signal.SIGURG)
        check(test, program)
        os.kill(program.pid, signal.SIGCONT)
        check(test, program)
        program.expect_right(test)


def test_killed(test):
    random.seed(SEED)
    print(f"seed {SEED}")
    wheres = ("spin", "futex", "handler", "wait")
    for where in wheres:
        with Forked(test, where) as program:
            start = time.monotonic()
            check(test, program)
            whole_s = time.monotonic() - start
            for _ in range(KILLS // len(wheres)):
                tool = start_tool(test, program)
                time.sleep(random.uniform(0, 1.1 * whole_s))
                tool.kill()
                tool.communicate()
                wait_until(program.is_alone, f"{where} is alone")
            check(test, program)
            program.expect_right(test)


def start_tool(test, program):
    return subprocess.Popen([test.command, "leaks", str(program.pid), "--snapshot"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def stop_with_fork(test, program):
    """Runs the command; stops the process that does the work while the fork exists and the program runs again."""
    while True:
        tool = start_tool(test, program)
        while tool.poll() is None:
            workers = children_of(tool.pid)
            if len(workers) != 1 or not any(state_of(child) == "t" for child in program.children()):
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGSTOP)
                wait_until(lambda: state_of(workers[0]) in ("T", "Z", ""), "the worker stops")
                forks = [child for child in program.children() if state_of(child) == "t"]
                if forks and status_of(program.pid, "TracerPid") == "0":
                    return tool, workers[0], forks
                os.kill(workers[0], signal.SIGCONT)
        tool.communicate()  # it ended before its fork was seen


def test_worker(test):
    with Forked(test, "large") as program:

        def expect_failure(tool, words):
            out, err = tool.communicate(timeout=TIMEOUT_S)
            test.expect(tool.returncode == 1 and words in err and not out, f"{tool.returncode} {out}{err}")
            test.expect_equal(program.children(), [], "children")

        for _ in range(3):
            tool, worker, _ = stop_with_fork(test, program)
            os.kill(worker, signal.SIGKILL)
            expect_failure(tool, "was killed by signal 9")
        # Kills the fork, as the kernel does when memory is short.
        tool, worker, forks = stop_with_fork(test, program)
        for fork in forks:
            os.kill(fork, signal.SIGKILL)
        os.kill(worker, signal.SIGCONT)
        expect_failure(tool, "incomplete: the fork")
        program.expect_right(test)


def expect_refusal(test, program, reason, **options):
    run = test.ask("leaks", program.pid, "--snapshot", status=1, **options)
    lines = [line for line in run.stderr.splitlines() if "forks process" not in line]
    test.expect(len(lines) == 1 and reason in lines[0] and not run.stdout, f"{program.where}: {run.stdout}{run.stderr}")
    test.expect_equal(program.children(), [], f"{program.where}: children")


def test_refused(test):
    if pathlib.Path(test.program).read_bytes()[4] == 1:  # ELFCLASS32
        with Forked(test, "sleep") as program:
            expect_refusal(test, program, "is a 32-bit process")
            program.expect_right(test)
        return
    with Forked(test, "sleep") as program, new_folder() as folder:
        run = test.ask("leaks", program.pid, "--snapshot", "--no-stop", status=None)
        test.expect(run.returncode != 0 and "excludes" in run.stderr, run.stderr)
        test.ask("snapshot", program.pid, folder / "snapshot", "--contents")
        test.fails("leaks", folder / "snapshot", "--snapshot", words="needs a running process")
        with Tracer(program.pid):
            expect_refusal(test, program, "is traced by")
        program.expect_right(test)
    with Forked(test, "seccomp") as program:
        expect_refusal(test, program, "has a seccomp filter")
        program.expect_right(test)
    needs_root()
    for where, reason in (("namespace", "pid namespace for its children"), ("userfault", "userfaultfd")):
        with Forked(test, where) as program:
            expect_refusal(test, program, reason)
            program.expect_right(test)
    with new_folder() as folder:
        command = shutil.copy(test.command, folder)
        with Forked(test, "sleep") as program:
            expect_refusal(test, program, "user", user="nobody", command=command)
            program.expect_right(test)
        test.program = shutil.copy(test.program, folder)
        if test.library != "linked":
            test.library = shutil.copy(test.library, folder)
        with Forked(test, "sleep", user="nobody") as program:
            check(test, program)
            program.expect_right(test)
        with Forked(test, "limit", user="nobody") as program:
            expect_refusal(test, program, "does not fork")
            program.expect_right(test)


if __name__ == "__main__":
    run_test(globals())
