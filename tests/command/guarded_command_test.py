#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tcmalloc command on guarded samples.

  guarded_command_test.py WHAT COMMAND PROGRAM LIBRARY

  explain   'tcmalloc explain' of the core of each bug of guarded_bugs.cc says what the library says about it in the
            process
  run       'tcmalloc run' prints the report of each access of guarded_bugs.cc when the program dies of it, and nothing
            about the mistakes that the program or the library report themselves
  signals   under 'tcmalloc run' with guarded samples a program with threads is stopped, continued and ended as without it
  figures   objects, types, inspect, profile, stats, doctor and snapshots know guarded objects as the process itself does
            (PROGRAM: of observed_program.c)
  older     for a core without guarded samples, and for a program that takes none, no such mistake is reported
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import cores
from command_test import (AT_REST, TIMEOUT_S, Target, Test, clean_environment, commands_profile, librarys_profile, listed,
                          run_one, walked)
from crash_test import WITH_FILES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process" / "misuse"))
from guarded_test import BUGS, FAULT, IN_CHILD, IN_THREAD, UNNOTICED  # noqa: E402

GUARDED = {"TCMALLOC_SAMPLE_PARAMETER": "1", "TCMALLOC_GUARDED_SAMPLE": "1"}
PREFIX = "tcmalloc: "


def core_of(test, bug, **variables):
    return cores.Crash(test.library, test.program, bug, dump_filter=WITH_FILES, of_printed=True,
                       **{**GUARDED, **variables, "CORES": "1"})


def functions(trace):
    return [frame["function"] for frame in trace["stack"]]


def check_mistake(test, bug, line, found):
    """The evidence of an answer in JSON."""
    mistake = found.get("guarded")
    test.expect(mistake is not None, f"{bug}: no mistake with a guarded object: {found['answer']}")
    if mistake is None:
        return
    test.expect(re.match(line[len(PREFIX):], mistake["line"]), f"{bug}: '{mistake['line']}' is not '{line}'")
    test.expect(mistake["allocated"]["thread"] > 0 and functions(mistake["allocated"]), f"{bug}: no stack of the allocation")
    freed = "that was freed" in mistake["line"]
    test.expect(freed == mistake["object"]["freed"] == ("freed" in mistake), f"{bug}: freed? {mistake}")
    offset = mistake["address"] - mistake["object"]["start"]
    test.expect(mistake["object"]["offset"] == offset, f"{bug}: offset {mistake['object']}")
    if freed:
        test.expect(mistake["freed"]["thread"] > 0 and functions(mistake["freed"]), f"{bug}: no stack of the free")
        test.expect(mistake["freed"]["when_ms"] >= mistake["allocated"]["when_ms"] > 0, f"{bug}: times {mistake}")
    stack = [frame["function"] for frame in found["threads_shown"][0]["stack"]]
    if bug not in IN_THREAD | IN_CHILD:
        test.expect(bug in stack or any(bug in name for name in stack), f"{bug}: not on the stack {stack}")
        test.expect(any(bug in name for name in functions(mistake["allocated"])), f"{bug}: {functions(mistake['allocated'])}")
    if bug in IN_THREAD:
        test.expect(found["threads_shown"][0]["thread"] != mistake["allocated"]["thread"], f"{bug}: the same thread")


@cores.needed
def explain_test(test):
    for bug, (status, line) in BUGS.items():
        with core_of(test, bug) as crash:
            found = test.json("explain", crash.core)
            cause = "access" if status == FAULT else "abort of the allocator"
            test.expect(found["cause"] == cause, f"{bug}: {found['cause']}, not {cause}")
            check_mistake(test, bug, line, found)
            test.expect(found["incomplete"] == [], f"{bug}: {found['incomplete']}")
            text = test.ask("explain", crash.core).stdout
            test.expect("\nThe object was\n" in text and "\n  allocated by thread " in text, f"{bug}:\n{text}")
            test.expect(("\n  freed by thread " in text) == ("that was freed" in " ".join(text.split())), f"{bug}:\n{text}")
    print(f"{len(BUGS)} cores")
    return 0


def run_command(test, *arguments, **variables):
    return subprocess.run([test.command, "run", "-q", "--library", test.library, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
                          env={**clean_environment(), **GUARDED, **variables})


def stacks(report):
    """The frames of a report by their titles."""
    found = {}
    for line in report.splitlines():
        if match := re.match(r"  (done|freed|allocated) by thread \d+", line):
            found[match[1]] = []
        elif line.startswith("    ") and found:
            found[list(found)[-1]].append(line.strip())
    return found


def check_run(test, bug, status, line, run):
    test.expect(run.returncode == 128 - status, f"{bug}: status {run.returncode}\n{run.stderr}")
    first = run.stderr.split("\n", 1)[0]
    said = re.match(r"tcmalloc run: process \d+ \(process_guarded\): (.*)", first)
    if status != FAULT:
        # The library has reported it.
        test.expect(re.match(line, first) and "tcmalloc run" not in run.stderr, f"{bug}: {run.stderr}")
        return
    test.expect(said and re.match(line[len(PREFIX):], said[1]), f"{bug}: expected {line}, got\n{run.stderr}")
    found = stacks(run.stderr)
    wanted = {"done", "allocated"} | ({"freed"} if "that was freed" in first else set())
    test.expect(set(found) == wanted and all(found.values()), f"{bug}: stacks of {set(found)}, not {wanted}:\n{run.stderr}")
    if bug not in IN_THREAD | IN_CHILD and said:
        test.expect(all(any(bug in frame for frame in frames) for frames in found.values()), f"{bug}: not named:\n{run.stderr}")


def run_test(test):
    for bug, (status, line) in BUGS.items():
        children = ["--children"] if bug in IN_CHILD else []
        check_run(test, bug, status, line, run_command(test, *children, test.program, bug))
    # Children are traced if asked for.
    run = run_command(test, test.program, "FreedInChild")
    test.expect(run.returncode == 128 - FAULT and run.stderr == "", f"a child that is not traced: {run.stderr}")
    # The process reports it itself.
    run = run_command(test, test.program, "ReadAfterFree", TCMALLOC_GUARDED_REPORT="1")
    test.expect(run.returncode == 128 - FAULT and run.stderr.startswith("tcmalloc: use after free: read at"), run.stderr)
    test.expect("tcmalloc run" not in run.stderr, run.stderr)
    # After exec the process has another pool.
    run = run_command(test, "sh", "-c", f"exec {test.program} WriteAfterEnd")
    test.expect("overflow: write at" in run.stderr and run.returncode == 128 - FAULT, f"after exec: {run.stderr}")
    # Without guarded samples nothing is noticed.
    for variables in ({"TCMALLOC_GUARDED_SAMPLE": "0"}, {"TCMALLOC_GUARDED_SAMPLE": ""}):
        run = run_command(test, test.program, "ReadAfterFree", **variables)
        test.expect(run.returncode == UNNOTICED and "run" not in run.stderr, f"{variables}: {run.returncode} {run.stderr}")
    return 0


# Deliberate faults outside of the pool and inside, from which the program's handler recovers; then threads that start
# and end.
RECOVERS = ("import ctypes, os, signal, sys, threading\n"
            "for i in range(50):\n"
            "    thread = threading.Thread(target=lambda: bytearray(100))\n"
            "    thread.start(); thread.join()\n"
            "print('ready', flush=True)\n"
            "ends = threading.Event()\n"
            "others = [threading.Thread(target=ends.wait) for _ in range(4)]\n"
            "[thread.start() for thread in others]\n"
            "print(sys.stdin.readline(), end='', flush=True)\n"
            "ends.set()\n"
            "[thread.join() for thread in others]\n"
            "os._exit(7)\n")


def states(pid):
    return {re.search(r"^State:\s+(\w)", (task / "status").read_text(), re.MULTILINE)[1]
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def wait_for(condition, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} in {TIMEOUT_S} seconds")
        time.sleep(0.01)


def child_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def signals_test(test):
    with subprocess.Popen([test.command, "run", "-q", "--library", test.library, "/usr/bin/python3", "-c", RECOVERS],
                          env={**clean_environment(), **GUARDED, "TCMALLOC_SAMPLE_PARAMETER": "1000"}, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        test.expect(runner.stdout.readline() == "ready\n", "the program starts")
        pid = child_of(runner.pid)
        wait_for(lambda: len(list(pathlib.Path(f"/proc/{pid}/task").iterdir())) >= 5, "threads")
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: states(pid) <= {"T", "t"}, "stop")
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: not states(pid) & {"T", "t"}, "continuation")
        said, errors = runner.communicate("hello\n", timeout=TIMEOUT_S)
        test.expect(said == "hello\n" and errors == "" and runner.returncode == 7, f"{runner.returncode}: {said}{errors}")
    # A signal ends a program with threads; a signal that was sent is no fault.
    for number in (signal.SIGTERM, signal.SIGSEGV):
        with subprocess.Popen([test.command, "run", "-q", "--library", test.library, "/usr/bin/python3", "-c", RECOVERS],
                              env={**clean_environment(), **GUARDED, "TCMALLOC_SAMPLE_PARAMETER": "1000"}, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
            test.expect(runner.stdout.readline() == "ready\n", "the program starts")
            os.kill(child_of(runner.pid), number)
            _, errors = runner.communicate(timeout=TIMEOUT_S)
            test.expect(runner.returncode == 128 + number and errors == "", f"{number}: {runner.returncode} {errors}")
    return 0


def check_guarded_object(test, pid, pairs):
    """Some object of those in use is a guarded one, and inspect says so."""
    seen = 0
    for start, size in sorted(pairs):
        # Most objects are at the end of their pages: looks for one of these.
        if size > 8192 or (start + size + 15) // 16 * 16 % 4096 != 0 or seen == 3:
            continue
        found = test.json("inspect", pid, hex(start + size - 1))
        if "guarded" not in found:
            continue
        seen += 1
        test.expect(found["state"] == "in use" and found["object"] == {"start": start, "bytes": size}, f"{found}")
        test.expect(found["guarded"]["allocated_by_thread"] == pid and found["guarded"]["allocated_at"], f"{found}")
        text = test.ask("inspect", pid, hex(start), "--contents").stdout
        test.expect("allocated  by thread" in text and f"  {start:#x}  " in text, text)
        text = test.ask("inspect", pid, hex((start + 8192) // 4096 * 4096)).stdout
        test.expect("a page without access, beside guarded objects" in text, text)
    test.expect(seen > 0, "no guarded object among those in use")


def figures_test(test):
    with Target(test, **{**GUARDED, **AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "20000"}) as target:
        for step in ("", "free", "more 3000", "rest"):
            if step:
                target.tell(step)
            wanted, found = walked(target), listed(test, target)
            test.expect(wanted == found, f"after '{step}': {len(wanted - found)} objects are missing, "
                        f"{len(found - wanted)} are not the library's")
            by_class = {row["name"]: row for row in test.json("objects", target.pid)["by_class"]}
            guarded = by_class.get("guarded samples", {"objects": 0, "bytes": 0})
            stats = json.loads(target.tell("json"))
            test.expect(guarded["objects"] > 10, f"after '{step}': {guarded}")
            test.expect(0 < guarded["bytes"] <= stats["guarded_bytes"] <= 512 << 10, f"{guarded}, {stats['guarded_bytes']}")
            figures = test.json("stats", target.pid)
            wrong = [name for name, value in stats.items() if figures.get(name) != value]
            test.expect(not wrong, f"after '{step}': other figures: {wrong}")
            types = test.json("types", target.pid)
            test.expect(types["objects"] == len(wanted) and types["unreadable_objects"] == 0, f"{types['objects']} objects by type")
            recorded, _ = librarys_profile(target.tell("profile"))
            test.expect(recorded == commands_profile(test, target, "in-use")[0], f"after '{step}': another profile")
        check_guarded_object(test, target.pid, wanted)
        doctor = test.json("doctor", target.pid)
        shares = sum(row["bytes"] for row in doctor["shares"])
        test.expect(shares == doctor["resident_bytes"], f"doctor: shares of {shares} in {doctor['resident_bytes']}")
        # Guarded objects, with 512 KiB of pages, are not memory that the program maps itself.
        own = sum(row["bytes"] for row in doctor["shares"] if "maps itself" in row["what"])
        test.expect(own < 400 << 10, f"doctor: {own} bytes that the program maps itself")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "snapshot")
            test.ask("snapshot", target.pid, path, "--contents")
            saved = {tuple(pair) for pair in test.json("objects", path, "--list")["list"]}
            test.expect(saved == listed(test, target), "the snapshot has other objects")
            check_guarded_object_of_file(test, path, saved)
    return 0


def check_guarded_object_of_file(test, path, pairs):
    for start, size in sorted(pairs):
        if size <= 8192 and (start + size + 15) // 16 * 16 % 4096 == 0:
            found = test.json("inspect", path, hex(start))
            if "guarded" in found:
                test.expect(found["object"] == {"start": start, "bytes": size}, f"{found}")
                return
    test.expect(False, "no guarded object in the snapshot")


@cores.needed
def older_test(test):
    # The library aborts at a double free without guarded samples, too.
    with core_of(test, "DoubleFree", TCMALLOC_GUARDED_SAMPLE="0", TCMALLOC_SAMPLE_PARAMETER="0") as crash:
        found = test.json("explain", crash.core)
        test.expect("guarded" not in found and "double free" in found["answer"], f"{found['answer']}")
    return 0


if __name__ == "__main__":
    sys.exit(run_one(Test, {"explain": explain_test, "run": run_test, "signals": signals_test, "figures": figures_test,
                            "older": older_test}))
