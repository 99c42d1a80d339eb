#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests memory bugs on the debug libraries: each ends the program with the line that names it.

  debug_library_test.py WHAT BUGS LIBRARY

BUGS is the program of bugs.cc, LIBRARY a debug library, which is preloaded. WHAT:

  reports  every bug but reads: the line, the stacks
  fence    TCMALLOC_PAGE_FENCE=1: accesses beyond the end and after the free fault at once; other bugs are reported
  settings the other variables of the debug libraries
"""

import os
import re
import signal

import process_test

# Bug -> (the end of the line, as a pattern; whether the report has the stack of the free). {p} is the pointer.
AFTER = r"the object of {size} bytes? was written after its end, at offset {at}: found 0x[0-9a-f]+, expected 0xfd"
BEFORE = r"the object of {size} bytes was written before its start, at offset -{at}: found 0x[0-9a-f]+, expected 0xfd"
LATE = r"the freed object of {size} bytes was written after the free, at offset {at}: found 0x[0-9a-f]+, expected 0xcd"
TWICE = r"double free, the object of {size} bytes is already free"
INSIDE = r"not the start of an object, but {where} the object of {size} bytes at 0x[0-9a-f]+"
WRONG = r"the object of {size} bytes was allocated by {by}: expected {free}"
LARGE = 1 << 20


def after(call, size, at=None):
    return call, AFTER.format(size=size, at=size if at is None else at), False


def late(size, at):
    return "", LATE.format(size=size, at=at), True


def twice(call, size):
    return call, TWICE.format(size=size), True


def inside(call, where, size):
    return call, INSIDE.format(where=where, size=size), False


def wrong(call, by, size):
    free = {"malloc": "free", "operator new": "operator delete", r"operator new\[\]": r"operator delete\[\]"}[by]
    return call, WRONG.format(size=size, by=by, free=free), False


CHECK, FREE, DELETE, DELETES = "check", "free", "operator delete", r"operator delete\[\]"
REPORTS = {
    "write_after_end": after(FREE, 24),
    "write_after_end_of_large": after(FREE, LARGE),
    "write_after_end_of_new_array": after(DELETES, 10),
    "write_after_end_never_freed": after(CHECK, 24),
    "write_before_start": (FREE, BEFORE.format(size=24, at=1), False),
    "memset_over_next_object": after(CHECK, 24),
    "write_before_start_never_freed": (CHECK, BEFORE.format(size=24, at=1), False),
    "memset_before_start": (FREE, "the header before the object was overwritten: .*", None),
    "write_after_free": late(24, 3),
    "write_after_free_of_large": late(LARGE, 500000),
    "write_after_delete_array": late(100, 99),
    "write_after_realloc": late(24, 0),
    "write_after_free_found_by_frees": late(24, 3),
    "double_free": twice(FREE, 24),
    "double_free_of_large": twice(FREE, LARGE),
    "realloc_after_free": twice("realloc", 24),
    "size_after_free": twice("malloc_usable_size", 24),
    "free_inside": inside(FREE, "16 bytes into", 100),
    "free_at_end": inside(FREE, "0 bytes after the end of", 64),
    "free_inside_freed": (FREE, INSIDE.format(where="32 bytes into", size=100).replace("the object", "the freed object"),
                          True),
    "free_stack": (FREE, "not an object, but a pointer into a thread's stack", None),
    "free_global": (FREE, "not an object, but a pointer into the image of the program or a library", None),
    "malloc_delete": wrong(DELETE, "malloc", 24),
    "new_free": wrong(FREE, "operator new", 24),
    "new_delete_array": wrong(DELETES, "operator new", 24),
    "new_array_free": wrong(FREE, r"operator new\[\]", 24),
    "delete_wrong_size": (DELETE, "the object has 24 bytes, but the sized free says 32", False),
    "delete_wrong_alignment":
        (DELETE, "the object of 100 bytes was allocated with alignment 64, but the free says alignment 32", False),
}
# Bugs that fault with a page fence, at the instruction. The free finds a write within the padding at the end.
FAULTS = {name for name in REPORTS if re.match(r"(write|memset)_after_(free|delete|realloc)", name)} | {
    "read_after_end_of_page", "read_after_free", "write_after_end_of_large", "memset_over_next_object"}


class Bugs(process_test.Test):

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.full = "minimal" not in os.path.basename(self.library)

    def names(self):
        names = self.run("--list").stdout.split()
        self.expect(len(names) > 25, "bugs --list lists them")
        return names

    def check_report(self, name, result, call, pattern, has_free):
        """The report of a bug, which ended the program."""
        self.expect(result.returncode == -signal.SIGABRT, f"{name}: ends by {result.returncode}, not by SIGABRT: "
                    f"{result.stderr}{result.stdout}")
        said = re.match(r"misuses (0x[0-9a-f]+)\n", result.stdout)
        if not said:
            self.expect(False, f"{name}: no pointer in {result.stdout!r}")
            return
        lines = result.stderr.split("\n")
        start = f"{call} of " if call else ""
        self.expect(re.fullmatch(f"tcmalloc: {start}{said[1]}: {pattern}(, and up to [0-9]+ bytes? more)?", lines[0]),
                    f"{name}: {lines[0]!r} is not {start}{said[1]}: {pattern}")
        self.expect(all(line.startswith("  ") for line in lines[1:-1]) and lines[-1] == "",
                    f"{name}: other lines than stacks: {result.stderr}")
        headings = [line for line in lines if re.match(r"  \S", line)]
        if has_free is None:
            return
        self.expect(any(re.match("  allocated by ", line) for line in headings), f"{name}: no stack of the allocation")
        self.expect(has_free == any(re.match("  freed by ", line) for line in headings), f"{name}: stack of the free")
        if self.full and not re.search("alignment", name):
            allocates = re.search(r"  allocated by [^\n]*\n    (\S+)", result.stderr)
            self.expect(allocates and re.search("AllocateIt|New(Array)?It", allocates[1]),
                        f"{name}: the allocation is by {allocates and allocates[1]}: {result.stderr}")


def test_reports(test):
    names = test.names()
    for name in names:
        result = test.run(name)
        if name == "none" or name.startswith("read_"):
            test.expect(result.returncode == 0 and result.stderr == "", f"{name}: {result}")
        elif name not in REPORTS:
            test.expect(False, f"{name} is not in the table")
        else:
            test.check_report(name, result, *REPORTS[name])
    test.expect(set(REPORTS) <= set(names), f"no bugs: {set(REPORTS) - set(names)}")


def test_fence(test):
    for name in test.names():
        result = test.run(name, TCMALLOC_PAGE_FENCE="1")
        if name == "none":
            test.expect(result.returncode == 0 and result.stderr == "", f"{name}: {result}")
        elif name in FAULTS:
            test.expect(result.returncode == -signal.SIGSEGV and "survived" not in result.stdout, f"{name}: {result}")
        elif name in REPORTS:
            call, pattern, has_free = REPORTS[name]
            # The library may find this free by the protection of the page, without the offset in the object.
            if name == "free_inside_freed":
                pattern = "not the start of an object, but a pointer into a freed one of 100 bytes at 0x[0-9a-f]+"
            if result.returncode == -signal.SIGSEGV and re.match("write|mem", name) and "survived" not in result.stdout:
                continue  # the end is at the fence
            test.check_report(name, result, call, pattern, has_free)


def test_settings(test):
    # Without a queue nothing is kept, so a second free finds a recycled header.
    result = test.run("double_free", TCMALLOC_MAX_FREE_QUEUE_SIZE="0")
    test.expect(result.returncode == -signal.SIGABRT and "double free" in result.stderr, f"no queue: {result}")
    result = test.run("write_after_free", TCMALLOC_MAX_FREE_QUEUE_SIZE="0")
    test.expect(result.returncode == 0, f"no queue: {result}")
    # A queue of 1 MB no longer contains the object after 100 MB.
    result = test.run("write_after_free_found_by_frees", TCMALLOC_RECLAIM_MEMORY="false")
    test.expect(result.returncode == -signal.SIGABRT and "was written after the free, at offset 3" in result.stderr, f"{result}")
    result = test.run("double_free", TCMALLOC_SYMBOLIZE_STACKTRACE="0")
    test.expect("FreeIt" not in result.stderr and re.search("freed by free:\n    0x", result.stderr), f"{result}")
    # Objects that the program holds or has freed are not leaked, wherever the header is.
    if test.full:
        result = test.run("none", HEAPCHECK="normal")
        test.expect(result.returncode == 0 and " leaks of " not in result.stderr, f"leak check: {result}")
    for name in ("read_after_end_of_page", "read_after_free"):
        result = test.run(name, TCMALLOC_PAGE_FENCE="1", TCMALLOC_PAGE_FENCE_READABLE="1")
        test.expect(result.returncode == 0, f"readable fence: {name}: {result}")
    for name in ("write_after_end_of_large", "write_after_free"):
        result = test.run(name, TCMALLOC_PAGE_FENCE="1", TCMALLOC_PAGE_FENCE_READABLE="1")
        test.expect(result.returncode == -signal.SIGSEGV, f"readable fence: {name}: {result}")
    result = test.run("double_free_of_large", TCMALLOC_PAGE_FENCE="1", TCMALLOC_PAGE_FENCE_NEVER_RECLAIM="1")
    test.expect(result.returncode == -signal.SIGABRT and "double free" in result.stderr, f"{result}")


if __name__ == "__main__":
    process_test.main(globals(), Bugs)
