#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the commands of docs/tcmalloc.gdb find out where objects are, in a live process and in its core.

usage: debugging_test.py PROGRAM LIBRARY SCRIPT

PROGRAM is the program of debugging.c.
"""
import os
import re
import subprocess
import sys
import tempfile

ADDRESS = "0x[0-9a-f]+"
SMALL = rf"tcmalloc::SpanState::kSmall: span {ADDRESS}-{ADDRESS}, shard \d+\nsize class \d+, object \d+ of \d+, "
START = rf"\d+ bytes at {ADDRESS}, pointer is 0 bytes into it\n"
# The output of each command, as a pattern.
EXPECTED = {
    "tc-object in_use": SMALL + START + "in use by the program, .*\n",
    "tc-object (char*)in_use+20": SMALL + rf"\d+ bytes at {ADDRESS}, pointer is 20 bytes into it\nin use .*\n",
    "tc-object in_thread_cache": SMALL + START + rf"free: in the thread cache at {ADDRESS}\n",
    "tc-object in_other_thread": SMALL + START + rf"free: in the thread cache at {ADDRESS}\n",
    "tc-object in_central_list": SMALL + START + "free: in the central free list\n",
    "tc-object large": rf"tcmalloc::SpanState::kLarge: .*\nin use by the program, \d+ bytes at {ADDRESS}\n",
    "tc-object &large": f"{ADDRESS}: in no object of this allocator, or inside a large one\n",
    "tc-object 0": "0x0: in no object of this allocator, or inside a large one\n",
    "tc-object -1": "0xffffffffffffffff: in no object of this allocator, or inside a large one\n",
    # The others may be anywhere. Some objects are in each of these places.
    "many": "(?s)(?=.*free: in the thread cache)(?=.*free: in the central free list)"
            "(?!.*in use by)(?!.*found).*",
    "tc-heap": r"\d+ bytes from the system\n(\d+ .*\n){6}hard limit 18446744073709551615, soft limit 1844.*\n",
    "tc-caches": rf"(cache {ADDRESS}: slot {ADDRESS}, busy 0, \d+ of \d+ bytes claimed\n"
                 r"(  class \d+ of \d+ bytes: \d+ objects, limit \d+\n)+){2}",
    "tc-locks": "0 locks held\n",
}
# If every object is sampled, a small one has pages of its own.
SAMPLED = {"tc-object in_use": rf"tcmalloc::SpanState::kLarge: .*\nin use by the program, 112 bytes at {ADDRESS}\n"}
# The debugger sets these in the live process only: a lock that is held, and an object that was freed twice.
DAMAGE = {
    "set var $tc_heap->page_heap.state_.lock.state_._M_i = 65": "",
    "tc-locks": "tcmalloc::LockRank::kPageHeap is held by the thread whose this_thread_number is 1\n1 locks held\n",
    "tc-check": "tcmalloc::LockRank::kPageHeap .*\n1 locks held\n",
    "set var $tc_heap->page_heap.state_.lock.state_._M_i = 0": "",
    "tc-lookup in_thread_cache": "",
    "set var $tc_heap->registry.caches_.first_->list_node.next->table_.bins_.tops._M_elems[$tc_class]._M_b._M_p[-1]"
    " = (unsigned long)in_thread_cache": "",
    "tc-object in_thread_cache": SMALL + START + rf"(free: in the thread cache at {ADDRESS}\n){{2}}"
                                 "found 2 times: it was freed more than once\n",
}


def commands(expected):
    for number, command in enumerate(expected):
        yield f"-ex=echo <{number}>\\n"
        if command == "many":
            yield "-ex=set $i = 0"
            yield "-ex=python [gdb.execute(f'tc-object many[{i}]') for i in range(0, 4000, 100)]"
        else:
            yield f"-ex={command}"
    yield "-ex=echo <end>\\n"


def complaints(where, expected, output):
    count = 0
    for number, (command, pattern) in enumerate(expected.items()):
        match = re.search(rf"^<{number}>\n(.*?)^<(?:{number + 1}|end)>\n", output, re.DOTALL | re.MULTILINE)
        if match is None or not re.fullmatch(pattern, match[1]):
            count += 1
            print(f"FAILED: {where}: {command}: expected\n{pattern}")
    if count:
        print(output)
    return count


def gdb(script, *arguments):
    command = ["gdb", "-nx", "-batch", "-ex=set pagination off", f"-ex=source {script}", *arguments]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                              check=False, env={**os.environ, "DEBUGINFOD_URLS": ""}).stdout
    except subprocess.TimeoutExpired as expired:
        # The output shows where it stopped.
        return (expired.stdout or b"").decode() + "\nFAILED: gdb did not end within 100 s\n"


def start(library):
    return ("-ex=set startup-with-shell off", f"-ex=set environment LD_PRELOAD {library}",
            f"-ex=set environment LIBRARY_UNDER_TEST {library}")


def main():
    program, library, script = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        core = os.path.join(folder, "core")
        live = gdb(script, *start(library), "-ex=break LookAtHeap", "-ex=run", *commands(EXPECTED),
                   f"-ex=generate-core-file {core}", "-ex=echo <damage>\\n", *commands(DAMAGE), program)
        if "ptrace: Operation not permitted" in live:
            print("SKIP: the system does not let gdb trace a program")
            return 77
        before, _, after = live.partition("<damage>\n")
        count = complaints("live process", EXPECTED, before) + complaints("damaged process", DAMAGE, after)
        count += complaints("core", EXPECTED, gdb(script, *commands(EXPECTED), program, core))
    asked = 2 * len(EXPECTED) + len(DAMAGE)
    if "minimal" not in os.path.basename(library):
        sampled = gdb(script, *start(library), "-ex=set environment TCMALLOC_SAMPLE_PARAMETER 1", "-ex=break LookAtHeap",
                      "-ex=run", *commands(SAMPLED), program)
        count += complaints("sampled objects", SAMPLED, sampled)
        asked += len(SAMPLED)
    print(f"{asked} commands, {count} failed")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
