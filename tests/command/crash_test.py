#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc explain' on the cores of programs that crash.

  crash_test.py WHAT COMMAND PROGRAM LIBRARY

  kernel    cores of the kernel: each crash of crash.c
  gcore     cores of gdb: of a crash, and of a process that runs
  busy      crashes while other threads allocate: an answer, or one line that says why there is none
  damaged   cores that end early, or lack memory: "incomplete"
  wrong     other processes, snapshots, cores of other programs

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cores
from command_test import SKIPPED, TIMEOUT_S, Test, clean_environment, run_one

# The core contains the code, too, from which explain distinguishes a read from a write.
WITH_FILES = "0x37"
DEFAULT = "0x33"
CRASHES = 8
SAMPLED = "20000"

# For each crash: the cause, and what the answer says ("OBJECT": the object's address, "AT": that of the access).
EXPECTED = {
    "freed": ("access", r"SIGSEGV in thread \d+.*read of AT, which is in memory outside of the heap, where reading is not "
                        r"permitted\. This value is at offset (12|24) of an object of 64 bytes at OBJECT, free.* to which \w+ "
                        r"points: the program probably used the object after it freed it"),
    "reused": ("access", r"is at offset 0 \(and \d+ times after it\) of an object of 64 bytes at OBJECT, in use"),
    "overrun": ("access", r"of an object of 64 bytes at OBJECT, in use, to which \w+ points\. If the program did not put it "
                          r"there, it was overwritten: past the end of an object of 64 bytes at 0x\w+, in use"),
    "wild": ("access", r"read of AT, which is no memory"),
    "write": ("access", r"write to AT, which is in memory outside of the heap, where writing is not permitted"),
    "null": ("access", r"read of AT, which is null and an offset of \d+ bytes"),
    "jump": ("jump", r"a jump to AT, which is in memory outside of the heap, where there is no code"),
    "return": ("jump", r"a jump to 0x(43)+, which is no"),
    "stack": ("stack overflow", r"the stack overflowed: \w+ to 0x\w+, \d+ bytes below the thread's stack, which has \S+ MiB"),
    "thread-stack": ("stack overflow", r"the stack overflowed: \w+ to 0x\w+, \d+ bytes below the thread's stack"),
    "double": ("abort of the allocator", r"SIGABRT .*: the allocator aborted the program: \"tcmalloc: free of OBJECT: double "
                                         r"free, the object of 64 bytes is already free\"\. OBJECT is the start of an object "
                                         r"of 64 bytes at OBJECT, free"),
    "interior": ("abort of the allocator", r"not the start of an object.*is 24 bytes into an object of \d+ bytes at OBJECT, "
                                           r"in use"),
    "assert": ("abort", r"the program aborted itself"),
    # The optimized exported function jumps to its last call and has no frame.
    "allocator": ("access", r"write to AT, .*The thread was in the allocator "
                            r"\((tcmalloc_stats_json|tcmalloc::.*)\)"),
    "sampled": ("access", r"This value is at offset (12|24) of an object of \d+ bytes at OBJECT, in use"),
}
# The innermost function of the program.
FUNCTIONS = {"freed": "ReadNode", "wild": "ReadInt", "write": "WriteInt", "stack": "Recurse", "jump": "Jump",
             "allocator": "Allocator", "double": "Double", "thread-stack": "Recurse",
             "return": "Return"}
# On 32 bits the processor returns to the address before it faults, and the caller's address is gone.
FUNCTIONS_32 = {"return": "_start"}


def crash_of(test, what, dump_filter=WITH_FILES):
    crash = cores.Crash(test.library, test.program, what, dump_filter=dump_filter,
                        TCMALLOC_SAMPLE_PARAMETER=SAMPLED if what == "sampled" else "0")
    test.expect(crash.status < 0, f"{what}: exit status {crash.status}")
    return crash


def check(test, what, crash, name="explain"):
    cause, wanted = EXPECTED[what]
    found = test.json("explain", crash.core)
    at = "0x" + crash.said[1].lstrip("0")
    wanted = wanted.replace("OBJECT", "0x" + crash.said[0]).replace("AT", at)
    test.expect(found["cause"] == cause, f"{name} {what}: {found['cause']}, not {cause}")
    test.expect(re.search(wanted, found["answer"]), f"{name} {what}: not '{wanted}':\n{found['answer']}")
    test.expect(found["incomplete"] == [], f"{name} {what}: {found['incomplete']}")
    thread = found["threads_shown"][0]
    functions = [frame["function"] for frame in thread["stack"]]
    wanted = {FUNCTIONS.get(what, "main"), FUNCTIONS_32.get(what)}
    test.expect(wanted & set(functions), f"{name} {what}: {functions}")
    text = test.ask("explain", crash.core).stdout
    test.expect(text.startswith(found["answer"][:60]) and "\nStack of thread " in text, f"{name} {what}:\n{text}")
    return found


@cores.needed
def kernel_test(test):
    for what in EXPECTED:
        with crash_of(test, what) as crash:
            found = check(test, what, crash)
            if what in ("freed", "overrun", "sampled"):
                objects = [one.get("object", {}).get("start") for one in found["threads_shown"][0]["registers"]]
                test.expect(int(crash.said[0], 16) in objects, f"{what}: the registers point to {objects}")
            if what == "sampled" and any("sample" in one for one in found["threads_shown"][0]["registers"]):
                text = test.ask("explain", crash.core).stdout
                test.expect("100000 bytes were requested by" in text and "AllocateSampled" in text, text)
            if what == "thread-stack":
                shown = test.json("explain", crash.core, "--all")["threads_shown"]
                test.expect(len(shown) >= 2, f"{len(shown)} threads")
                test.expect(any("main" == frame["function"] for one in shown[1:] for frame in one["stack"]), f"{shown[1:]}")
    with crash_of(test, "freed", DEFAULT) as crash:
        found = test.json("explain", crash.core)
        test.expect("after it freed it" in found["answer"], f"by {DEFAULT}: {found['answer']}")
        test.expect("ReadNode" in [frame["function"] for frame in found["threads_shown"][0]["stack"]], "its stack")
    return 0


def gdb(arguments):
    return subprocess.run(["gdb", "-batch", "-nx", *map(str, arguments)], env=clean_environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=TIMEOUT_S)


def gcore_test(test):
    if shutil.which("gdb") is None:
        print("SKIP: gdb is not installed")
        return SKIPPED
    preload = [] if test.library == "linked" else ["-ex", f"set environment LD_PRELOAD {test.library}"]
    with tempfile.TemporaryDirectory() as folder:
        core = pathlib.Path(folder, "core")
        run = gdb([*preload, "-ex", "run", "-ex", f"generate-core-file {core}", "--args", test.program, "freed"])
        if not core.exists():
            print(f"SKIP: gdb runs no program here: {run.stdout[-300:]}")
            return SKIPPED
        found = test.json("explain", core)
        test.expect(found["cause"] == "access" and "after it freed it" in found["answer"], found["answer"])
        core.unlink()
        gdb([*preload, "-ex", "break pause", "-ex", "run", "-ex", f"generate-core-file {core}", "--args", test.program, "wait"])
        text = test.ask("explain", core).stdout
        test.expect("its core was written while it ran" in text or "SIGTRAP" in text, text)
    return 0


@cores.needed
def busy_test(test):
    held = 0
    for _ in range(CRASHES):
        with crash_of(test, "busy") as crash:
            run = test.ask("explain", crash.core, "--json", status=None)
            found = json.loads(run.stdout)
            test.expect("null and an offset of" in found["answer"], found["answer"])
            test.expect("ReadNode" in [frame["function"] for frame in found["threads_shown"][0]["stack"]], "its stack")
            test.expect(run.returncode == (1 if found["incomplete"] else 0), f"{run.returncode}: {found['incomplete']}")
            test.expect("held" not in found or found["held"] in found["answer"], found["answer"])
            held += "held" in found or found["incomplete"] != []
            test.ask("explain", crash.core, "--all", status=None)
    print(f"{held} of {CRASHES} crashed in the middle of a change")
    return 0


@cores.needed
def damaged_test(test):
    with crash_of(test, "freed") as crash:
        whole = crash.core.read_bytes()
        complete = 0
        for part in (0.999, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.05, 0.01, 0.001, 0.0001, 0):
            cut = crash.core.with_name("cut")
            cut.write_bytes(whole[:int(len(whole) * part)])
            run = test.ask("explain", cut, status=None)
            said = run.stdout + run.stderr
            test.expect(run.returncode in (0, 1, 3), f"{part} of it: exit status {run.returncode}\n{said[:300]}")
            test.expect("incomplete: " in said or "neither a process nor a core" in said, f"{part} of it:\n{said}")
            complete += "after it freed it" in said
        print(f"{complete} of the cut cores have what the answer needs")
    return 0


def wrong_test(test):
    run = test.ask("explain", os.getpid(), status=1)
    test.expect("explain needs a core file" in run.stderr and run.stderr.count("\n") == 1, run.stderr)
    run = test.ask("explain", "/no/such/file", status=1)
    test.expect("cannot read /no/such/file" in run.stderr, run.stderr)
    if shutil.which("gdb") is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        core = pathlib.Path(folder, "core")
        with subprocess.Popen(["sleep", "60"]) as process:
            subprocess.run(["gcore", "-o", core, str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=True)
            process.kill()
        run = test.ask("explain", f"{core}.{process.pid}", status=3)
        test.expect("ran on glibc's malloc, not on this TCMalloc" in run.stdout and "Stack of thread" in run.stdout, run.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(run_one(Test, {"kernel": kernel_test, "gcore": gcore_test, "busy": busy_test, "damaged": damaged_test,
                            "wrong": wrong_test}))
