#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What three tools report about the same program: the leak checker, LeakSanitizer, valgrind's memcheck.

  leak_tools_test.py WHAT SOURCE PROGRAM LIBRARY DOCUMENT

  checker         PROGRAM (leaks.cc) with LIBRARY preloaded, HEAPCHECK=normal and strict
  leak_sanitizer  SOURCE (leaks.cc) compiled by clang 19 with -fsanitize=leak, and =address
  memcheck        PROGRAM under valgrind
  document        DOCUMENT (docs/leak-checker.md) has the table and the notes that are below, and
                  each difference between the tools has a note
"""

import pathlib
import re
import shutil
import subprocess
import sys
import typing
import xml.etree.ElementTree

import leaks_test
from leaks_test import CannotRun, Program, Run, environment_of, expect, told_by

CLANG = "clang++-19"


class Way(typing.NamedTuple):
    """A row of the document's table. A tool's cell is a key of VERDICTS, and the number of a note.

    A mode of HEAPCHECK before a colon is necessary for the verdict; with normal the object is held.
    """
    text: str
    names: tuple  # the names of the program's functions
    checker: str
    leak_sanitizer: str
    memcheck: str


WAYS = (
    Way("a list", ("LoseList",), "leaked", "leaked", "leaked"),
    Way("a cycle", ("LoseCycle",),
        "leaked, one directly", "leaked, all indirectly (1)", "leaked, one directly"),
    Way("a C++ object with a vector inside", ("LoseVector",), "leaked", "leaked", "leaked"),
    Way("held by an encoded pointer", ("LoseHidden",), "leaked", "leaked", "leaked"),
    Way("a large object", ("LoseLarge",), "leaked", "leaked", "leaked"),
    Way("in an unreachable mapping", ("LoseInMapping",),
        "leaked", "leaked", "reachable (2)"),
    Way("before `main`", ("EarlyLost",), "leaked", "leaked", "leaked"),
    Way("by a global object's destructor", ("LateLost",), "`strict`: leaked", "leaked (3)", "leaked (3)"),
    Way("held by a pointer to its byte 2000", ("FarPointer",),
        "leaked (4)", "held", "possibly lost (5)"),
    Way("held by a pointer to its byte 104", ("HoldInterior",),
        "held", "held", "possibly lost (5)"),
    Way("held by global data", ("HoldGlobal",), "held", "held", "reachable"),
    Way("held by a thread's stack, register, thread-local storage",
        ("HoldThreadStack", "HoldThreadRegister", "HoldThreadLocal"), "held", "held", "reachable"),
    Way("held by an object of the C library's `malloc`", ("HoldCLibrary",),
        "held", "leaked (6)", "reachable (6)"),
    Way("held by a mapping that global data points to", ("HoldReached",),
        "held", "leaked (7)", "reachable"),
    Way("held by registered memory", ("HoldToldMapping",), "held", "held", "reachable"),
    Way("ignored on request; allocated while disabled", ("HoldToldIgnored", "HoldToldDisabled"),
        "held", "held", "leaked (8)"),
)

# The reasons why the tools differ.
NOTES = {
    1: "LeakSanitizer calls an object directly leaked if no leaked object points to it; the others "
       "begin with one object of the cycle.",
    2: "memcheck searches all mappings, reachable or not.",
    3: "Both check after the destructors.",
    4: "`HEAP_CHECK_MAX_POINTER_OFFSET=-1` makes it reachable.",
    5: "memcheck calls an object possibly lost if only pointers into its middle refer to it.",
    6: "LeakSanitizer replaces the C library's `malloc` by name, and does not search objects that "
       "it does not know; memcheck replaces the function itself.",
    7: "LeakSanitizer searches data, stacks and its own objects.",
    8: "memcheck does not see the request.",
}

HEADER = "| way | bytes, objects | `HEAPCHECK=normal` | LeakSanitizer | memcheck |"

NOTHING = (0, 0)


def total(kinds, *names):
    figures = [kinds.get(name, NOTHING) for name in names]
    return sum(f[0] for f in figures), sum(f[1] for f in figures)


def is_lost(kinds, told):
    return (total(kinds, "directly", "indirectly") == told and
            total(kinds, "possibly", "reachable") == NOTHING)


# Whether a tool's figures {kind: (bytes, objects)} fit a way that leaks or holds (bytes, objects).
VERDICTS = {
    "leaked": lambda kinds, told: is_lost(kinds, told) and total(kinds, "directly") != NOTHING,
    "leaked, one directly":
        lambda kinds, told: is_lost(kinds, told) and total(kinds, "directly")[1] == 1,
    "leaked, all indirectly":
        lambda kinds, told: is_lost(kinds, told) and total(kinds, "directly") == NOTHING,
    "possibly lost": lambda kinds, told: kinds == {"possibly": told},
    "reachable": lambda kinds, told: kinds == {"reachable": told},
    # The tool does not mention it.
    "held": lambda kinds, told: kinds == {},
}


def parts(cell):
    """(the mode that it takes or None, the verdict, the note's number or None)"""
    match = re.fullmatch(r"(?:`(\w+)`: )?([a-z, ]+?)(?: \((\d+)\))?", cell)
    expect(match and match[2] in VERDICTS, f"{cell!r} is no verdict")
    return match[1], match[2], match[3] and int(match[3])


class Findings:
    """{name: {kind: (bytes, objects)}}, and what belongs to none of the program's ways."""

    def __init__(self, told):
        self.of = {name: {} for name in told}
        self.others = []

    def add(self, frames, kind, size, objects):
        name = next((frame for frame in frames if frame in self.of), None)
        if name is None:
            self.others.append((kind, size, objects, frames))
            return
        old = self.of[name].get(kind, NOTHING)
        self.of[name][kind] = (old[0] + size, old[1] + objects)


def judge(tool, told, findings, mode=None):
    for way in WAYS:
        wanted_mode, verdict, _ = parts(getattr(way, tool))
        if wanted_mode not in (None, mode):
            verdict = "held"
        for name in way.names:
            expect(VERDICTS[verdict](findings.of[name], told[name]),
                   f"{tool}: {name} ({way.text}): {told[name]} is not {verdict}, but "
                   f"{findings.of[name]}")
    print(f"{tool}: as in the table")


def of_checker(run):
    program = Program(run.program)
    findings = Findings(run.told)
    site = re.compile(r"  (\d+) bytes? in (\d+) objects?"
                      r"(?:, directly leaked: (\d+) bytes? in (\d+) objects?)?"
                      r"(, all reachable from other leaked objects)?, allocated from\n((?:    .*\n)*)")
    for match in site.finditer(run.err):
        size, objects = int(match[1]), int(match[2])
        direct = (int(match[3]), int(match[4])) if match[3] else (size, objects)
        if match[5]:
            direct = NOTHING
        frames = [program.name_of(int(offset, 16)) for offset in
                  re.findall(re.escape(program.path) + r"\+0x(\w+)\)?\n", match[6])]
        if direct != NOTHING:
            findings.add(frames, "directly", *direct)
        if direct != (size, objects):
            findings.add(frames, "indirectly", size - direct[0], objects - direct[1])
    return findings


def checker(source, program, library, folder):
    for mode in ("normal", "strict"):
        run = Run(program, library, mode, folder, HEAP_CHECK_MAX_LEAKS="1000")
        run.program = program
        findings = of_checker(run)
        judge("checker", run.told, findings, mode)
        expect(not findings.others, f"{mode}: also {findings.others}")


def of_leak_sanitizer(path, told, err):
    program = Program(path)
    findings = Findings(told)
    site = re.compile(r"^(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\) "
                      r"allocated from:\n((?:    #.*\n)*)", re.M)
    for match in site.finditer(err):
        frames = [program.name_of(int(offset, 16)) for offset in
                  re.findall(re.escape(program.path) + r"\+0x(\w+)\)", match[4])]
        findings.add(frames, match[1].lower() + "ly", int(match[2]), int(match[3]))
    return findings


def leak_sanitizer(source, program, library, folder):
    if shutil.which(CLANG) is None:
        raise CannotRun(f"{CLANG} is not installed")
    for sanitizer in ("leak", "address"):
        built = str(folder / sanitizer)
        command = [CLANG, "-std=c++20", "-O1", "-fno-builtin", f"-fsanitize={sanitizer}", "-o",
                   built, source, "-pthread"]
        run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if "libclang_rt" in run.stdout:
            raise CannotRun("there is no libclang-rt-19-dev")
        expect(run.returncode == 0, f"{command}: {run.stdout}")
        # Names of functions come from the program's file, so that no other tool has to be installed.
        options = "symbolize=0:detect_leaks=1:exitcode=23"
        run = subprocess.run([built], text=True, timeout=120, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             env=environment_of(None, None, folder, LSAN_OPTIONS=options,
                                                ASAN_OPTIONS=options))
        if "LeakSanitizer has encountered a fatal error" in run.stderr:
            raise CannotRun("the system does not let LeakSanitizer stop threads")
        expect(run.returncode == 23, f"{sanitizer}: {run.returncode} {run.stderr}")
        told = told_by(run.stdout)
        findings = of_leak_sanitizer(built, told, run.stderr)
        judge("leak_sanitizer", told, findings)
        expect(not findings.others, f"{sanitizer}: also {findings.others}")


def of_memcheck(told, output):
    kinds = {"DefinitelyLost": "directly", "IndirectlyLost": "indirectly",
             "PossiblyLost": "possibly", "StillReachable": "reachable"}
    findings = Findings(told)
    for error in xml.etree.ElementTree.parse(output).iter("error"):
        kind = error.find("kind").text.removeprefix("Leak_")
        if kind not in kinds:
            continue
        # The sum also counts objects that this one leads to, which have errors of their own.
        direct = re.match(r"[\d,]+ \(([\d,]+) direct, ", error.find("xwhat/text").text)
        size = direct[1].replace(",", "") if direct else error.find("xwhat/leakedbytes").text
        findings.add([fn.text for fn in error.find("stack").iter("fn")], kinds[kind], int(size),
                     int(error.find("xwhat/leakedblocks").text))
    return findings


def memcheck(source, program, library, folder):
    if shutil.which("valgrind") is None:
        raise CannotRun("valgrind is not installed")
    output = folder / "memcheck.xml"
    run = subprocess.run(["valgrind", "--leak-check=full", "--show-leak-kinds=all", "--xml=yes",
                          f"--xml-file={output}", program], text=True, timeout=150,
                         env=environment_of(None, None, folder), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    expect(run.returncode == 0, f"valgrind: {run.returncode} {run.stderr}")
    told = told_by(run.stdout)
    findings = of_memcheck(told, output)
    # The C library's object is one of memcheck's as well.
    size, objects = told["HoldCLibrary"]
    told["HoldCLibrary"] = (size + 100, objects + 1)
    judge("memcheck", told, findings)
    # memcheck calls the C library's memory for threads possibly lost.
    others = [other for other in findings.others if other[0] not in ("possibly", "reachable")]
    expect(not others, f"also {others}")


def is_kept(verdict):
    """Only memcheck lists reachable objects."""
    return verdict in ("held", "reachable")


def check_notes():
    used = set()
    for way in WAYS:
        cells = [parts(cell) for cell in (way.checker, way.leak_sanitizer, way.memcheck)]
        notes = {note for _, _, note in cells if note}
        verdicts = {(mode, "held" if is_kept(verdict) else verdict) for mode, verdict, _ in cells}
        expect(notes or len(verdicts) == 1, f"{way.text}: the tools differ, and there is no note")
        used |= notes
    expect(used == set(NOTES), f"notes {sorted(NOTES)}, used {sorted(used)}")


def document(source, program, library, folder, path):
    check_notes()
    told = Run(program, None, None, folder).told
    named = [name for way in WAYS for name in way.names]
    expect(sorted(named) == sorted(told), f"the table is of {named}, the program of {list(told)}")
    text = pathlib.Path(path).read_text()
    rows = [f"| {way.text} | {'; '.join('%d, %d' % told[name] for name in way.names)} | "
            f"{way.checker} | {way.leak_sanitizer} | {way.memcheck} |" for way in WAYS]
    _, _, rest = text.partition(HEADER + "\n")
    expect(rest, f"no table {HEADER}")
    table, _, rest = rest.partition("\n\n")
    for found, row in zip(table.split("\n")[1:], rows):
        expect(found == row, f"the document says\n{found}\nwhere the test has\n{row}")
    expect(len(table.split("\n")) == 1 + len(rows), "the table has not as many rows as the test")
    notes = " ".join(f"({number}) {note}" for number, note in NOTES.items())
    found = " ".join(rest.partition("\n\n")[0].split())
    expect(found == notes, f"the document's notes are\n{found}\nand the test's\n{notes}")
    print(f"{len(rows)} rows, {len(NOTES)} notes")


def main():
    what, *arguments, path = sys.argv[1:]
    if what == "document":
        return leaks_test.status_of(lambda folder: document(*arguments, folder, path))
    test = {"checker": checker, "leak_sanitizer": leak_sanitizer, "memcheck": memcheck}[what]
    return leaks_test.status_of(lambda folder: test(*arguments, folder))


if __name__ == "__main__":
    sys.exit(main())
