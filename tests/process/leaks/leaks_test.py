#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the leak checker finds the leaks of a program that leaks memory in known ways.

  leaks_test.py WHAT PROGRAM LIBRARY CLEAN_PROGRAM

leaks.cc prints what each of its functions has leaked or holds. This test
reads the checker's profile, assigns each stack to the function of the program that is in it, and compares bytes and
objects with what the function printed: the profile must have all leaked objects and no others.
"""

import pathlib
import re
import shutil
import subprocess

import process_test
from process_test import Skipped

# The prefixes of the names of functions whose objects each mode reports as leaked.
LOST = {
    "minimal": ("Lose", "Far"),
    "normal": ("Lose", "Far", "Early"),
    "strict": ("Lose", "Far", "Early", "Late"),
    "draconian": ("Lose", "Far", "Early", "Late", "HoldGlobal", "HoldInterior", "HoldCLibrary",
                  "HoldReached", "HoldToldMapping", "HoldThread"),
    "as-is": ("Lose", "Far", "Early"),
}
STATUS_OF_LEAKS = 1


class Program:
    """Names of functions for addresses, from the program's file."""

    def __init__(self, path):
        self.path = str(pathlib.Path(path).resolve())
        run = subprocess.run(["nm", "-S", "--defined-only", path], check=True, text=True, stdout=subprocess.PIPE)
        self.functions = []
        for line in run.stdout.split("\n"):
            words = line.split()
            if len(words) == 4 and words[2] in "tT":
                start = int(words[0], 16)
                self.functions.append((start, start + int(words[1], 16), words[3]))
        headers = subprocess.run(["readelf", "-lW", path], check=True, text=True, stdout=subprocess.PIPE).stdout
        load = re.search(r"LOAD\s+0x\w+ 0x(\w+)", headers)
        self.first_address = int(load[1], 16)

    def name_of(self, address):
        for start, end, name in self.functions:
            if start <= address < end:
                return name
        return None


def read_profile(test, path, program):
    """[(objects, bytes, [name or address])] of a profile."""
    text = pathlib.Path(path).read_text()
    header, _, rest = text.partition("\n")
    match = re.fullmatch(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heapprofile", header)
    test.expect(match, f"the header is {header!r}")
    rows, _, maps = rest.partition("\nMAPPED_LIBRARIES:\n")
    starts = [int(line.split("-")[0], 16) for line in maps.split("\n") if line.rstrip().endswith(program.path)]
    test.expect(starts, "the profile does not list the program")
    bias = min(starts) - program.first_address
    entries = []
    for row in rows.split("\n"):
        if not row:
            continue
        match = re.fullmatch(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x\w+)*)", row)
        test.expect(match, f"a row is {row!r}")
        frames = [program.name_of(int(frame, 16) - 1 - bias) for frame in match[5].split()]
        entries.append((int(match[1]), int(match[2]), frames))
    total = re.match(r"heap profile: (\d+): (\d+)", header)
    test.expect((int(total[1]), int(total[2])) == (sum(e[0] for e in entries),
                                                   sum(e[1] for e in entries)),
                "the profile's sums are not those of its rows")
    return entries


def by_function(entries, names):
    """{name: (bytes, objects)} and what belongs to none of them."""
    found, others = {}, []
    for objects, size, frames in entries:
        name = next((frame for frame in frames if frame in names), None)
        if name is None:
            others.append((objects, size, frames))
        else:
            old = found.get(name, (0, 0))
            found[name] = (old[0] + size, old[1] + objects)
    return found, others


class Run:
    """A run of the program. told: {name: (bytes, objects)}, which it printed."""

    def __init__(self, test, mode, *arguments, **variables):
        """Removes the profiles of earlier runs first."""
        for path in test.folder.glob("*.heap"):
            path.unlink()
        run = test.run(*arguments, **({"HEAPCHECK": mode} if mode else {}),
                       **{"HEAP_CHECK_DUMP_DIRECTORY": test.folder, **variables})
        self.status, self.out, self.err = run.returncode, run.stdout, run.stderr
        self.told = {match[1]: (int(match[2]), int(match[3]))
                     for match in re.finditer(r"^(\w+) (\d+) (\d+)$", self.out, re.M)}
        self.files = sorted(test.folder.glob("*.heap"))


def check_mode(test, mode, lost=None, extra_allowed=False, **variables):
    """Checks that what each leaking function printed was found, and nothing else unless extra_allowed."""
    run = Run(test, mode, **variables)
    lost = LOST[mode] if lost is None else lost
    known = Program(test.program)
    test.expect(len(run.told) >= 18, f"the program said only {run.out!r}")
    test.expect(run.status == STATUS_OF_LEAKS, f"the status is {run.status}: {run.err}")
    test.expect(len(run.files) == 1 and re.fullmatch(rf"{pathlib.Path(test.program).name}\.\d+\._main_-end\.heap",
                                                     run.files[0].name), f"the files are {run.files}: {run.err}")
    found, others = by_function(read_profile(test, run.files[0], known), run.told)
    for name in sorted(run.told):
        expected = run.told[name] if name.startswith(lost) else (0, 0)
        test.expect(found.get(name, (0, 0)) == expected,
                    f"{mode}: {name}: found (bytes, objects) {found.get(name)}, expected {expected}\n{run.err}")
    test.expect(extra_allowed or not others, f"{mode}: also found {others}\n{run.err}")
    sums = re.search(r"Leak check _main_ detected leaks of (\d+) bytes in (\d+) objects\b", run.err)
    test.expect(sums, f"no line with the sums: {run.err}")
    total = (sum(f[0] for f in found.values()) + sum(o[1] for o in others),
             sum(f[1] for f in found.values()) + sum(o[0] for o in others))
    test.expect((int(sums[1]), int(sums[2])) == total, f"the sums are {sums[0]}, not {total}")
    command = ("pprof --text --lines --inuse_objects --edgefraction=1e-10 --nodefraction=1e-10 "
               f'"{known.path}" "{run.files[0]}"\n')
    test.expect(command in run.err, f"not the command {command!r} in {run.err}")
    print(f"{mode}: {len(found)} functions, {total[0]} bytes in {total[1]} objects")
    return run


def test_normal(test):
    run = check_mode(test, "normal")
    # The largest leaks come first, and no more than requested.
    sizes = [int(size) for size in re.findall(r"^  (\d+) bytes? in \d+ object", run.err, re.M)]
    test.expect(sizes == sorted(sizes, reverse=True) and len(sizes) > 5, f"the places are {sizes}")
    # Only the first object of a list is directly leaked, and one of a cycle.
    for name in ("LoseList", "LoseCycle"):
        size, objects = run.told[name]
        line = (f"{size} bytes in {objects} objects, directly leaked: {size // objects} "
                "bytes in 1 object, allocated from\n")
        test.expect(line in run.err, f"{name}: no {line!r} in {run.err}")


def test_modes(test):
    check_mode(test, "minimal")
    check_mode(test, "strict")
    # The C library's and the C++ library's own objects are not freed either.
    check_mode(test, "draconian", extra_allowed=True)
    check_mode(test, "as-is")
    check_mode(test, "as-is", (*LOST["as-is"], "HoldThread"), extra_allowed=True, HEAP_CHECK_IGNORE_THREAD_LIVE="0")
    check_mode(test, "as-is", LOST["strict"], HEAP_CHECK_AFTER_DESTRUCTORS="1")


def test_offset(test):
    lost = tuple(name for name in LOST["normal"] if name != "Far")
    # A pointer to any byte holds an object here. A stray word points into a large object too often (docs/leak-checker.md):
    # with 32 bits any word may, with 64 one that is half overwritten. So the largest leaked object has 5000 bytes.
    check_mode(test, "normal", lost, HEAP_CHECK_MAX_POINTER_OFFSET="-1", LEAKS_LARGE_BYTES="5000")
    check_mode(test, "normal", lost, HEAP_CHECK_MAX_POINTER_OFFSET="2000")
    run = check_mode(test, "normal", HEAP_CHECK_MAX_POINTER_OFFSET="1999")
    test.expect("  of these, 4000 bytes in 1 object are reachable by pointers beyond byte 1999 of " in run.err,
                f"no line about the pointer to byte 2000: {run.err}")
    check_mode(test, "normal", (*LOST["normal"], "HoldInterior"), HEAP_CHECK_MAX_POINTER_OFFSET="0", extra_allowed=True)


def test_settings(test):
    run = Run(test, "normal", HEAP_CHECK_MAX_LEAKS="2", PPROF_PATH="/opt/my/pprof", HEAP_CHECK_SHOW_CONTENTS="1")
    places = re.findall(r"^  \d+ bytes? in \d+ object", run.err, re.M)
    test.expect(len(places) == 2, f"not two places: {run.err}")
    test.expect(re.search(r"^  and \d+ more$", run.err, re.M), f"no line about the others: {run.err}")
    test.expect("\n/opt/my/pprof " in run.err, f"not the pprof that was asked for: {run.err}")
    test.expect("one of them at 0x" in run.err, f"no contents: {run.err}")
    known = Program(test.program)
    run = Run(test, "normal", HEAP_CHECK_IDENTIFY_LEAKS="1")
    entries = read_profile(test, run.files[0], known)
    test.expect(all(objects == 1 for objects, _, _ in entries), "not each object by itself")
    in_list = [frames for _, _, frames in entries if "LoseList" in frames]
    test.expect(len(in_list) == 10, f"the list: {len(in_list)} entries")
    run = Run(test, "normal", HEAP_CHECK_DUMP_DIRECTORY="/does/not/exist")
    test.expect("leak check: cannot write /does/not/exist/" in run.err and run.status == STATUS_OF_LEAKS,
                f"a folder that is not there: {run.status} {run.err}")
    run = Run(test, "thorough")
    test.expect(run.status == 0 and "HEAPCHECK=thorough is ignored" in run.err, f"thorough: {run.err}")
    run = Run(test, "normal", HEAPPROFILE=f"{test.folder}/profile")
    test.expect("cannot be used" in run.err, f"not a word about the heap profiler: {run.err}")
    # Without HEAPCHECK, and in modes that do not check the whole program, the library prints nothing.
    for mode in (None, "", "local"):
        run = Run(test, mode)
        test.expect((run.status, run.err) == (0, ""), f"{mode}: {run.status} {run.err}")


def elf_class(path):
    """1: for 32 bits, 2: for 64."""
    with open(path, "rb") as file:
        return file.read(5)[4]


def test_clean(test):
    """Programs without leaks: the check prints one line, and the program ends with its own status."""
    for command in (test.others, ["/bin/true"], ["/bin/cat", "/proc/self/maps"]):
        if elf_class(command[0]) != elf_class(test.library):
            print(f"{command[0]} cannot load the library: not run")
            continue
        test.program = command[0]
        run = Run(test, "normal", *command[1:])
        # cat closes stderr before the check, which cannot print then.
        line = "" if command[0] == "/bin/cat" else (
            rf'tcmalloc: leak check "_main_" of {re.escape(pathlib.Path(command[0]).resolve().name)} '
            r"\(pid \d+\): no leaks found, \d+ objects, \d+ bytes checked\n")
        test.expect(run.status == 0 and re.fullmatch(line, run.err), f"{command}: {run.status} {run.err}")


def under_gdb(test, arguments, **variables):
    """(the program's status, stderr)"""
    commands = ["set startup-with-shell off", "set disable-randomization off",
                f"set args {' '.join(arguments)}", "set environment HEAPCHECK normal",
                f"set environment LD_PRELOAD {test.library}",
                *(f"set environment {name} {value}" for name, value in variables.items()),
                "run", "print $_exitcode"]
    run = subprocess.run(["gdb", "-nx", "-batch", *(f"-ex={c}" for c in commands), test.program],
                         env=process_test.environment(HEAP_CHECK_DUMP_DIRECTORY=test.folder, DEBUGINFOD_URLS=""),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if "ptrace: Operation not permitted" in run.stdout + run.stderr:
        raise Skipped("the system does not let gdb trace a program")
    status = re.search(r"^\$1 = (\d+)$", run.stdout, re.M)
    test.expect(status, f"gdb: {run.stdout} {run.stderr}")
    return int(status[1]), run.stderr


def test_debugger(test):
    """The checker is off, and the program ends with its own status; a variable enables the check nevertheless."""
    if shutil.which("gdb") is None:
        raise Skipped("gdb is not installed")
    status, err = under_gdb(test, ["7"])
    line = ("tcmalloc: HEAPCHECK is ignored: a debugger traces the program "
            "(set HEAP_CHECK_RUN_UNDER_GDB=1 to check anyway)\n")
    test.expect(status == 7 and err.count(line) == 1 and "leak check" not in err, f"under gdb: {status} {err}")
    test.expect(not list(test.folder.glob("*.heap")), "under gdb: there is a profile")
    status, err = under_gdb(test, ["7"], HEAP_CHECK_RUN_UNDER_GDB="1")
    # A thread can have only one debugger.
    test.expect(status == STATUS_OF_LEAKS and line not in err and
                'leak check "_main_": other threads could not be stopped (Operation not permitted): '
                "objects that only they hold may be reported as leaks\n" in err,
                f"checked under gdb: {status} {err}")


if __name__ == "__main__":
    process_test.main(globals())
