#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests guarded samples on programs with one bug each.

  guarded_test.py WHAT PROGRAM LIBRARY

  bugs      each bug of the program (guarded_bugs.cc) is noticed where it happens, and the report names it and the
            functions that did it
  quiet     without TCMALLOC_GUARDED_REPORT an access prints nothing, and the signal ends the process
  off       without TCMALLOC_GUARDED_SAMPLE nothing is noticed, and nothing printed
"""

import re
import signal

import process_test

UNNOTICED = 3

ADDRESS = r"0x[0-9a-f]+"
FAULT = -signal.SIGSEGV
ABORT = -signal.SIGABRT


def fault(kind, access, place):
    """Returns the first line that is printed after an access, and the signal."""
    return FAULT, rf"tcmalloc: {kind}: {access} at {ADDRESS}, {place} an object of \d+ bytes? at {ADDRESS}"


def freed(access, place):
    status, line = fault("use after free", access, place)
    return status, line + " that was freed"


def wrong(kind, call, rest):
    return ABORT, rf"tcmalloc: {kind}: {call} of {ADDRESS}, {rest}"


def late(kind, call, place):
    return ABORT, rf"tcmalloc: {kind}: {call} finds that the program wrote {place} an object of \d+ bytes at {ADDRESS}"


OBJECT = r"an object of \d+ bytes?"
AFTER = r"\d+ bytes? after the end of"
DELETE, DELETE_ARRAY = "operator delete", r"operator delete\[\]"
BUGS = {
    "ReadAfterFree": freed("read", "byte 3 of"),
    "WriteAfterFree": freed("write", "byte 3 of"),
    "WriteAfterDeleteArray": freed("write", "byte 499 of"),
    "WriteAfterReallocShrank": freed("write", "byte 5 of"),
    "FreedLongAgo": freed("read", "byte 0 of"),
    "FreedInChild": freed("read", "byte 0 of"),
    "LastByteOfLargest": freed("write", "byte 8191 of"),
    "FreedByThread": freed("read", "byte 7 of"),
    "AfterFreeInThread": freed("write", "byte 100 of"),
    "NextOfFreedNode": freed("read", "byte 0 of"),
    "CopyOfFreed": freed("read", r"byte \d+ of"),
    "ReadAfterEnd": fault("overflow", "read", AFTER),
    "WriteAfterEnd": fault("overflow", "write", AFTER),
    "AfterEndInChild": fault("overflow", "write", "0 bytes after the end of"),
    "ReadFarAfterEnd": fault("overflow", "read", r"38\d\d bytes after the end of"),
    "CopyPastEnd": fault("overflow", "write", AFTER),
    "ReadAfterEndOfAligned": fault("overflow", "read", "0 bytes after the end of"),
    "ReadBeforeStart": fault("underflow", "read", "1 byte before"),
    "WriteBeforeStart": fault("underflow", "write", "8 bytes before"),
    "BeforeStartInThread": fault("underflow", "read", "2 bytes before"),
    "DoubleFree": wrong("double free", "free", OBJECT + " that was freed"),
    "FreeOfInside": wrong("invalid free", "free", "byte 16 of " + OBJECT),
    "FreeOfNew": wrong("mismatched free", "free", OBJECT + " that came from operator new"),
    "DeleteOfMalloc": wrong("mismatched free", DELETE, OBJECT + " that came from malloc"),
    "ReallocOfFreed": wrong("use after free", "realloc", OBJECT + " that was freed"),
    "DeleteAsBase": wrong("wrong size", DELETE, OBJECT + ", but the call says 32 bytes"),
    "FreeOfNewArray": wrong("mismatched free", "free", OBJECT + r" that came from operator new\[\]"),
    "ByteInSlack": late("overflow", "free", "1 byte after the end of"),
    "AfterObjectAtStart": late("overflow", "free", "20 bytes after the end of"),
    "BeforeObjectAtEnd": late("underflow", "free", "1 byte before"),
    "SlackOfNew": late("overflow", DELETE_ARRAY, "0 bytes after the end of"),
    "SlackFoundByRealloc": late("overflow", "realloc", "0 bytes after the end of"),
}
IN_CHILD = {"FreedInChild", "AfterEndInChild"}
IN_THREAD = {"AfterFreeInThread", "BeforeStartInThread"}


def run(test, bug, **variables):
    return test.run(bug, **{"TCMALLOC_SAMPLE_PARAMETER": 1, **variables})


def sections(report):
    """The stacks of a report by their titles: done, freed, allocated."""
    found = {}
    for line in report.splitlines():
        if match := re.match(r"  (done|freed|allocated) by thread (\d+)", line):
            title = match[1]
            found[title] = (int(match[2]), [])
        elif line.startswith("    ") and found:
            found[title][1].append(line.strip())
    return found


def check_report(test, bug, done, line):
    lines = done.stderr.splitlines()
    test.expect(lines and re.match(line, lines[0]), f"{bug}: expected {line}, got\n{done.stderr}")
    stacks = sections(done.stderr)
    test.expect("that was freed" not in lines[0] or "freed" in stacks, f"{bug}: no stack of the free:\n{done.stderr}")
    test.expect({"done", "allocated"} <= stacks.keys(), f"{bug}: stacks are missing:\n{done.stderr}")
    for title, (thread, frames) in stacks.items():
        test.expect(thread > 0 and frames, f"{bug}: {title}: no thread or no frames:\n{done.stderr}")
    if bug not in IN_THREAD | IN_CHILD:
        test.expect(any(bug in frame for frame in stacks["done"][1]), f"{bug}: not named:\n{done.stderr}")
    if bug in IN_THREAD:
        test.expect(stacks["done"][0] != stacks["allocated"][0], f"{bug}: the same thread:\n{done.stderr}")


def test_bugs(test):
    names = test.run().stdout.split()
    test.expect(sorted(names) == sorted(BUGS), f"the program has other bugs: {set(names) ^ set(BUGS)}")
    for bug, (status, line) in BUGS.items():
        done = run(test, bug, TCMALLOC_GUARDED_SAMPLE=1, TCMALLOC_GUARDED_REPORT=1)
        test.expect(done.returncode == status, f"{bug}: status {done.returncode}\n{done.stderr}")
        check_report(test, bug, done, line)


def test_quiet(test):
    for bug in ("ReadAfterFree", "WriteAfterEnd", "DoubleFree", "SlackOfNew"):
        status, line = BUGS[bug]
        done = run(test, bug, TCMALLOC_GUARDED_SAMPLE=1)
        test.expect(done.returncode == status, f"{bug}: status {done.returncode}\n{done.stderr}")
        if status == FAULT:
            test.expect(done.stderr == "", f"{bug}: printed\n{done.stderr}")
        else:
            check_report(test, bug, done, line)


def test_off(test):
    for variables in ({"TCMALLOC_SAMPLE_PARAMETER": 0}, {"TCMALLOC_GUARDED_REPORT": 1}):
        for bug in ("ReadAfterFree", "SlackOfNew", "FreeOfNew", "WriteAfterDeleteArray"):
            done = run(test, bug, **variables)
            test.expect(done.returncode == UNNOTICED and done.stderr == "", f"{bug}: {done.returncode}\n{done.stderr}")


if __name__ == "__main__":
    process_test.main(globals())
