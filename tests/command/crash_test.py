#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc explain' on the cores of programs that crash."""

import os
import re
import subprocess

import cores
from harness import TIMEOUT_S, Process, Skipped, clean_environment, gcore, needs, new_folder, run_test

CRASHES = 8

# Maps each crash to its cause and to the text of the answer, in which "OBJECT" stands for the
# object's address and "AT" for the address of the access.
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
    "interior": ("abort of the allocator", r"not the start of an object.*is 24 bytes into an object of \d+ bytes at OBJECT, in use"),
    "assert": ("abort", r"the program aborted itself"),
    # The optimized exported function jumps to its last call and has no frame.
    "allocator": ("access", r"write to AT, .*The thread was in the allocator \((tcmalloc_stats_json|tcmalloc::.*)\)"),
    "sampled": ("access", r"This value is at offset (12|24) of an object of \d+ bytes at OBJECT, in use"),
}
# The innermost function of the program, main by default. On 32 bits the processor returns to the address before it faults, and
# the caller's address is gone.
FUNCTIONS = {"freed": ("ReadNode",), "wild": ("ReadInt",), "write": ("WriteInt",), "stack": ("Recurse",), "jump": ("Jump",),
             "allocator": ("Allocator",), "double": ("Double",), "interior": ("Interior",), "thread-stack": ("Recurse",),
             "return": ("Return", "_start")}


def crash_of(test, what, **options):
    crash = cores.Crash(test.library, test.program, what, TCMALLOC_SAMPLE_PARAMETER="20000" if what == "sampled" else "0", **options)
    test.expect(crash.status < 0, f"{what}: exit status {crash.status}")
    return crash


def functions(thread):
    return [frame["function"] for frame in thread["stack"]]


def check(test, what, crash):
    cause, wanted = EXPECTED[what]
    found = test.json("explain", crash.core)
    wanted = wanted.replace("OBJECT", "0x" + crash.said[0]).replace("AT", "0x" + crash.said[1].lstrip("0"))
    test.expect_equal((found["cause"], found["incomplete"]), (cause, []), what)
    test.expect(re.search(wanted, found["answer"]), f"{what}: not '{wanted}':\n{found['answer']}")
    thread = found["threads_shown"][0]
    test.expect({*FUNCTIONS.get(what, ("main",))} & {*functions(thread)}, f"{what}: {functions(thread)}")
    text = test.ask("explain", crash.core).stdout
    test.expect(text.startswith(found["answer"][:60]) and "\nStack of thread " in text, f"{what}:\n{text}")
    if what in ("freed", "overrun", "sampled"):
        objects = [one.get("object", {}).get("start") for one in thread["registers"]]
        test.expect(int(crash.said[0], 16) in objects, f"{what}: the registers point to {objects}")
    if what == "sampled" and any("sample" in one for one in thread["registers"]):
        test.expect(re.search(r"100000 bytes were requested by\n +AllocateSampled", text), text)
    if what == "thread-stack":
        others = test.json("explain", crash.core, "--all")["threads_shown"][1:]
        test.expect(any("main" in functions(one) for one in others), f"{others}")


def test_kernel(test):
    for what in EXPECTED:
        with crash_of(test, what) as crash:
            check(test, what, crash)
    with crash_of(test, "freed", dump_filter=cores.DEFAULT_FILTER) as crash:
        found = test.json("explain", crash.core)
        test.expect("after it freed it" in found["answer"] and "ReadNode" in functions(found["threads_shown"][0]), f"{found}")


def test_gcore(test):
    needs("gdb")
    preload = [] if test.library == "linked" else ["-ex", f"set environment LD_PRELOAD {test.library}"]
    with new_folder() as folder:
        core = folder / "core"
        run = subprocess.run(["gdb", "-batch", "-nx", *preload, "-ex", "run", "-ex", f"generate-core-file {core}", "--args", test.program,
                              "freed"], env=clean_environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        if not core.exists():
            raise Skipped(f"gdb runs no program here: {run.stdout[-300:]}")
        found = test.json("explain", core)
        test.expect(found["cause"] == "access" and "after it freed it" in found["answer"], found["answer"])
        with Process(test.library, test.program, "wait") as process:
            text = test.ask("explain", gcore(process, folder)).stdout
        test.expect("its core was written while it ran" in text, text)


def test_busy(test):
    held = 0
    for _ in range(CRASHES):
        with crash_of(test, "busy") as crash:
            found = test.json("explain", crash.core, "--all", status=(0, 1))
            test.expect("null and an offset of" in found["answer"] and "ReadNode" in functions(found["threads_shown"][0]), f"{found}")
            test.expect("held" not in found or found["held"] in found["answer"], found["answer"])
            held += "held" in found or found["incomplete"] != []
            for command in ("stats", "objects", "profile"):
                run = test.ask(command, crash.core, status=(0, 1))
                test.expect(run.returncode == 0 or run.stdout == "" and run.stderr.count("\n") == 1, f"{command}: {run}")
    print(f"{held} of {CRASHES} crashed in the middle of a change")


def test_wrong(test):
    test.fails("explain", os.getpid(), words="explain needs a core file")
    test.fails("explain", "/no/such/file", words="cannot read /no/such/file")


if __name__ == "__main__":
    run_test(globals())
