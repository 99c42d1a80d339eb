#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the tcmalloc command on guarded samples.

PROGRAM is the program of guarded_bugs.cc; for "signals" and "figures" that of observed_program.c.
"""

import json
import os
import re
import signal
import subprocess

import cores
from command_test import commands_profile, expect_objects, librarys_profile
from guarded_test import BUGS, FAULT, IN_CHILD, IN_THREAD, sections
from harness import AT_REST, TIMEOUT_S, Target, children_of, clean_environment, new_folder, run_test, state_of, tasks, wait_until

GUARDED = {"TCMALLOC_SAMPLE_PARAMETER": "1", "TCMALLOC_GUARDED_SAMPLE": "1"}
PREFIX = "tcmalloc: "


def core_of(test, bug, **variables):
    return cores.Crash(test.library, test.program, bug, of_printed=True, **{**GUARDED, **variables, "CORES": "1"})


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
    stack = functions(found["threads_shown"][0])
    if bug not in IN_THREAD | IN_CHILD:
        test.expect(any(bug in name for name in stack), f"{bug}: not on the stack {stack}")
        test.expect(any(bug in name for name in functions(mistake["allocated"])), f"{bug}: {functions(mistake['allocated'])}")
    if bug in IN_THREAD:
        test.expect(found["threads_shown"][0]["thread"] != mistake["allocated"]["thread"], f"{bug}: the same thread")


def test_explain(test):
    for bug, (status, line) in BUGS.items():
        with core_of(test, bug) as crash:
            found = test.json("explain", crash.core)
            cause = "access" if status == FAULT else "abort of the allocator"
            test.expect_equal((found["cause"], found["incomplete"]), (cause, []), bug)
            check_mistake(test, bug, line, found)
            text = test.ask("explain", crash.core).stdout
            test.expect("\n  allocated by thread " in text, f"{bug}:\n{text}")
            test.expect(("\n  freed by thread " in text) == ("that was freed" in " ".join(text.split())), f"{bug}:\n{text}")
    # The library aborts at a double free without guarded samples, too.
    with core_of(test, "DoubleFree", TCMALLOC_GUARDED_SAMPLE="0", TCMALLOC_SAMPLE_PARAMETER="0") as crash:
        found = test.json("explain", crash.core)
        test.expect("guarded" not in found and "double free" in found["answer"], f"{found['answer']}")


def run_command(test, *arguments, **variables):
    return subprocess.run([test.command, "run", "-q", "--library", test.library, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
                          env={**clean_environment(), **GUARDED, **variables})


def check_run(test, bug, status, line, run):
    test.expect(run.returncode == 128 - status, f"{bug}: status {run.returncode}\n{run.stderr}")
    first = run.stderr.split("\n", 1)[0]
    said = re.match(r"tcmalloc run: process \d+ \(process_guarded\): (.*)", first)
    if status != FAULT:
        # The library has reported it.
        test.expect(re.match(line, first) and "tcmalloc run" not in run.stderr, f"{bug}: {run.stderr}")
        return
    test.expect(said and re.match(line[len(PREFIX):], said[1]), f"{bug}: expected {line}, got\n{run.stderr}")
    found = {title: frames for title, (_, frames) in sections(run.stderr).items()}
    wanted = {"done", "allocated"} | ({"freed"} if "that was freed" in first else set())
    test.expect(set(found) == wanted and all(found.values()), f"{bug}: stacks of {set(found)}, not {wanted}:\n{run.stderr}")
    if bug not in IN_THREAD | IN_CHILD and said:
        test.expect(all(any(bug in frame for frame in frames) for frames in found.values()), f"{bug}: not named:\n{run.stderr}")


def test_run(test):
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


def test_signals(test):
    """A program with threads is stopped, continued and ended as without guarded samples."""

    def start():
        runner = subprocess.Popen([test.command, "run", "-q", "--library", test.library, test.program],
                                  env=clean_environment(**{**GUARDED, "TCMALLOC_SAMPLE_PARAMETER": "1000"}), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        runner.stdin.write("busy 4\nrest\nwait 4\n")
        runner.stdin.flush()
        test.expect([runner.stdout.readline() for _ in range(4)] == ["ready\n", *["done\n"] * 3], "the program starts")
        return runner, children_of(runner.pid)[0]

    def end(runner, line, wanted, what):
        said, errors = runner.communicate(line, timeout=TIMEOUT_S)
        test.expect_equal((said, errors, runner.returncode), wanted, what)

    runner, pid = start()
    test.expect(len(tasks(pid)) >= 5, "threads")
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: {state_of(task) for task in tasks(pid)} <= {"T", "t"}, "it stops")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not {state_of(task) for task in tasks(pid)} & {"T", "t"}, "it continues")
    end(runner, "rest\n", ("done\n", "", 0), "stopped and continued")
    # A signal ends a program with threads; a signal that was sent is no fault.
    for number in (signal.SIGTERM, signal.SIGSEGV):
        runner, pid = start()
        os.kill(pid, number)
        end(runner, None, ("", "", 128 + number), f"signal {number}")


def guarded_object(test, target, pairs):
    """(start, size, what inspect says) of a guarded object among those in use."""
    for start, size in sorted(pairs):
        # Most objects are at the end of their pages: looks for one of these.
        if size <= 8192 and (start + size + 15) // 16 * 16 % 4096 == 0:
            found = test.json("inspect", target, hex(start + size - 1))
            if "guarded" in found:
                test.expect_equal((found["state"], found["object"]), ("in use", {"start": start, "bytes": size}), "inspect")
                return start, found
    raise AssertionError("no guarded object among those in use")


def test_figures(test):
    with Target(test, **{**GUARDED, **AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "20000"}) as target:
        for step in ("address", "free", "more 3000", "rest"):
            target.tell(step)
            wanted = expect_objects(test, target, f"after '{step}'")
            by_class = {row["name"]: row for row in test.json("objects", target.pid)["by_class"]}
            guarded = by_class["guarded samples"]
            stats = json.loads(target.tell("json"))
            test.expect(guarded["objects"] > 10 and 0 < guarded["bytes"] <= stats["guarded_bytes"] <= 512 << 10, f"{guarded}, {stats}")
            figures = test.json("stats", target.pid)
            test.expect_equal({name: figures.get(name) for name in stats}, stats, f"after '{step}'")
            types = test.json("types", target.pid)
            test.expect_equal((types["objects"], types["unreadable_objects"]), (len(wanted), 0), "objects by type")
            recorded, _ = librarys_profile(target.tell("profile"))
            test.expect(recorded == commands_profile(test, target, "in-use")[0], f"after '{step}': another profile")
        start, found = guarded_object(test, target.pid, wanted)
        test.expect(found["guarded"]["allocated_by_thread"] == target.pid and found["guarded"]["allocated_at"], f"{found}")
        text = test.ask("inspect", target.pid, hex(start), "--contents").stdout
        test.expect("allocated  by thread" in text and f"  {start:#x}  " in text, text)
        text = test.ask("inspect", target.pid, hex((start + 8192) // 4096 * 4096)).stdout
        test.expect("a page without access, beside guarded objects" in text, text)
        doctor = test.json("doctor", target.pid)
        test.expect_equal(sum(row["bytes"] for row in doctor["shares"]), doctor["resident_bytes"], "the sum of the shares")
        # Guarded objects, with 512 KiB of pages, are not memory that the program maps itself.
        own = sum(row["bytes"] for row in doctor["shares"] if "maps itself" in row["what"])
        test.expect(own < 400 << 10, f"doctor: {own} bytes that the program maps itself")
        with new_folder() as folder:
            test.ask("snapshot", target.pid, folder / "snapshot", "--contents")
            saved = test.objects(folder / "snapshot")
            test.expect(saved == test.objects(target.pid), "the snapshot has other objects")
            guarded_object(test, folder / "snapshot", saved)


if __name__ == "__main__":
    run_test(globals())
