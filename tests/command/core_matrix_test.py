#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests every command that reads a process, on every form of core file.

  core_matrix_test.py COMMAND DOCUMENT LIBRARY PROGRAM DEBUG_LIBRARY NO_PIE STATIC STATIC_PIE

The commands are those of 'tcmalloc --help': a new one needs a row here. Each gives the same answer as for the process,
or names what is missing; its exit status is a documented one, and it never says "no leaks" on missing data. DOCUMENT
has the table that this test prints.
"""

import contextlib
import json
import pathlib
import re
import shutil
import sys

import cores
from core_files_test import Elsewhere
from core_test import PT_LOAD, segments
from field_table import FieldTable
from harness import DAMAGED, INCOMPLETE, LEAKS, OTHER_MALLOC, SAMPLED, SKIPPED, Skipped, Target, Test, gcore, new_folder

RIGHT, MISSING, REFUSED = "right", "incomplete", "refuses"
# Commands that read no process that exists already.
NO_PROCESS = ("run", "ps")

# The forms of core files, which are the columns of the table. TABLE has the answers that each column permits.
WHOLE, FILES, TRUNCATED, CHANGING, DEVICE = (
    "whole file, from the kernel or `gcore`", "from another machine, with `--files`", "truncated file", "a thread was changing the heap",
    "heap in a device or hugetlbfs")
EITHER = f"{RIGHT} or {MISSING}"
TABLE = {
    # command: (arguments, outcomes for the columns)
    "stats": ((), RIGHT, RIGHT, EITHER, EITHER, RIGHT),
    "doctor": ((), RIGHT, RIGHT, EITHER, EITHER, MISSING),
    "objects": ((), RIGHT, RIGHT, EITHER, MISSING, RIGHT),
    "profile": (("--format", "folded"), RIGHT, RIGHT, EITHER, EITHER, RIGHT),
    "types": ((), RIGHT, RIGHT, EITHER, MISSING, MISSING),
    "inspect": (("{object}",), RIGHT, RIGHT, EITHER, MISSING, RIGHT),
    "inspect --contents": (("{object}", "--contents"), RIGHT, RIGHT, EITHER, MISSING, MISSING),
    "inspect --referrers": (("{object}", "--referrers"), RIGHT, RIGHT, MISSING, MISSING, MISSING),
    "leaks": ((), RIGHT, RIGHT, MISSING, MISSING, MISSING),
    "explain": ((), RIGHT, RIGHT, EITHER, EITHER, RIGHT),
    "diff": (("{json}",), RIGHT, RIGHT, EITHER, EITHER, RIGHT),
    # Runs on a debug library; on other heaps the command says that there are no red zones to check.
    "check": ((), RIGHT, RIGHT, EITHER, MISSING, MISSING),
    "timeline": ((), *[REFUSED] * 5),
    "top": ((), *[REFUSED] * 5),
    "snapshot": (("{folder}/snapshot",), *[REFUSED] * 5),
    "flush": ((), *[REFUSED] * 5),
    "release": ((), *[REFUSED] * 5),
    "trim": ((), *[REFUSED] * 5),
    "set": (("release-rate=1",), *[REFUSED] * 5),
}
COLUMNS = (WHOLE, FILES, TRUNCATED, CHANGING, DEVICE)
PARTS = (0.999, 0.9, 0.6, 0.2, 0.02, 0.0001)


def table():
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| `{name}` | " + " | ".join(outcomes) + " |" for name, (_, *outcomes) in TABLE.items()]
    return "\n".join(lines) + "\n"


class Said:
    """The answers of the commands for the process at rest, before its core is written."""

    def __init__(self, test, target, folder):
        target.tell("wait 2")
        self.object = target.tell("address").split()[0]
        self.json = folder / "before.json"
        self.json.write_text(json.dumps(test.json("stats", target.pid)))
        self.stats = json.loads(target.tell("json"))
        self.objects = test.json("objects", target.pid)["objects"]
        self.profile = test.ask("profile", target.pid, "--format", "folded").stdout
        self.leaked = test.json("leaks", target.pid, status=None)["objects"]
        checked = re.search(r": 0 of (\d+ objects) damaged", test.ask("check", target.pid, status=None).stdout)
        self.checked = checked and checked[1]
        self.folder = folder


def is_right(name, text, said):
    """Whether a complete answer is that of the process."""
    if name == "profile":
        return text == said.profile
    place = f"at {said.object} (offset 0): in use"
    words = {
        "stats": (f"the program holds {said.stats['in_use_bytes'] / (1 << 20):.1f} MiB",),
        "objects": (f"{said.objects} objects",),
        "types": (f"{said.objects} objects",),
        "inspect": (place,),
        "inspect --contents": (place, "01 01 01"),
        "inspect --referrers": (place, "variable objects in "),
        "leaks": (f"in {said.leaked} objects" if said.leaked else "no leaks found",),
        "check": (f"0 of {said.checked} damaged",),
        "doctor": ("are objects that the program holds",),
        "explain": ("Stack of thread",),
        "diff": ("The program holds",),
    }[name]
    return all(word in text for word in words)


def outcome(test, name, run, said, what):
    """RIGHT, MISSING or REFUSED; anything else is a failure."""
    text, said_all = run.stdout, run.stdout + run.stderr
    documented = {"leaks": (LEAKS, INCOMPLETE), "inspect --referrers": (INCOMPLETE,), "check": (DAMAGED, INCOMPLETE),
                  **dict.fromkeys(("stats", "doctor", "explain"), (OTHER_MALLOC,))}.get(name, ())
    test.expect(run.returncode in (0, 1, *documented), f"{what}: exit status {run.returncode}: {said_all[-500:]}")
    refused = re.fullmatch(r"tcmalloc: .* needs a running process.*\n", run.stderr)
    if refused and run.returncode == 1 and not text:
        return REFUSED
    if "incomplete: " in said_all or "neither a process nor a core file" in run.stderr or "takes no samples" in run.stderr:
        test.expect("no leaks" not in text, f"{what}: {text[:300]}")
        test.expect(run.returncode != 1 or run.stderr.startswith("tcmalloc: ") or "incomplete: " in text, f"{what}: {said_all[:500]}")
        return MISSING
    # A file that was written in the middle of a change may contradict itself.
    if run.returncode == 1 and "was changing its heap when the file was written" in run.stderr and run.stderr.count("\n") == 1:
        return MISSING
    if run.returncode != 1 and is_right(name, text, said):
        return RIGHT
    return f"wrong, exit status {run.returncode}: {said_all[:300]} ... {said_all[-300:]}"


def check(test, column, core, said, what, *options):
    for name, (arguments, *outcomes) in TABLE.items():
        command = name.split()[0]
        if command == "check" and "_debug" not in test.library:
            run = test.ask(command, core, *options, status=1)
            said_all = run.stdout + run.stderr
            test.expect("does not run on a debug library" in run.stderr or "incomplete: " in said_all or
                        "neither a process nor a core file" in run.stderr, f"{what}: check: {said_all}")
            continue
        if command != "check" and "_debug" in test.library:
            continue
        filled = [each.format(object=said.object, json=said.json, folder=said.folder) for each in arguments]
        order = (filled[0], core) if command == "diff" else (core, *filled)
        more = () if command == "diff" or REFUSED in outcomes else options  # which have no --files
        run = test.ask(command, *order, *more, status=None)
        found = outcome(test, name, run, said, f"{what}: {name}")
        permitted = outcomes[COLUMNS.index(column)]
        test.expect(found in permitted.split(" or "), f"{what}: {name}: {found}, not {permitted}:\n{run.stdout}{run.stderr}")


@contextlib.contextmanager
def process(test, program, library, **variables):
    test.program, test.library = program, library
    with new_folder() as folder, Target(test, folder=folder, **SAMPLED, **variables) as target:
        target.tell("free")
        yield target, Said(test, target, folder), folder


class Contents:
    """The memory in a 64-bit core that this test changes."""

    def __init__(self, core):
        self.bytes = bytearray(core.read_bytes())
        self.parts = [(start, offset, size) for _, kind, _, offset, start, _, size, _, _ in segments(core) if kind == PT_LOAD]

    def place(self, address):
        return next(offset + address - start for start, offset, size in self.parts if start <= address < start + size)

    def read(self, address, size):
        return self.bytes[self.place(address):][:size]

    def marks(self, kind):
        return FieldTable([(start, size) for start, _, size in self.parts if size > 0], self.read).marks(kind)


def whole(test, programs):
    for (program, library), forms in zip(programs, ((cores.DEFAULT_FILTER, cores.WITH_FILES, "gcore"), *[(cores.DEFAULT_FILTER,)] * 3)):
        for form in forms:
            if form == "gcore" and shutil.which("gcore") is None:
                continue
            with process(test, program, library) as (target, said, folder):
                core = gcore(target, folder) if form == "gcore" else cores.crash(target, folder, form)
                check(test, WHOLE, core, said, f"{pathlib.Path(program).name}, {form}")
    with process(test, *programs[0], TCMALLOC_MEMFS_MALLOC_PATH="/dev/shm/heap") as (target, said, folder):
        check(test, WHOLE, cores.crash(target, folder), said, "a memory file")


def damaged(test, program, library):
    """Tests files that lack their end, and files in which a lock or a change flag is set."""
    with process(test, program, library) as (target, said, folder):
        core = cores.crash(target, folder)
        contents = core.read_bytes()
        cut = folder / "cut"
        for part in PARTS:
            cut.write_bytes(contents[:int(len(contents) * part)])
            check(test, TRUNCATED, cut, said, f"{part:.2%} of a core")
        for kind in ("Lock", "Change"):
            changed = Contents(core)
            # Takes a lock or mark on which the objects depend.
            name, address = next((name, address) for name, address in changed.marks(kind).items()
                                 if "registry" in name or "page_heap" in name)
            test.expect(changed.read(address, 1) == b"\0", f"{name} is set in the core of a process at rest")
            changed.bytes[changed.place(address)] = 1
            cut.write_bytes(changed.bytes)
            check(test, CHANGING, cut, said, f"{name} is set")


def elsewhere(test, program, library):
    test.program, test.library = program, library
    with new_folder() as folder:
        said = []
        other = Elsewhere(test, folder, note=lambda target: said.append(Said(test, target, folder)))
        check(test, FILES, other.core, said[0], "another machine", "--files", other.tree)


def device(test, program, library):
    with new_folder() as folder:
        file = folder / "device"
        with file.open("wb") as out:
            out.truncate(1 << 30)
        variables = {"TCMALLOC_DEVMEM_START": "1", "TCMALLOC_DEVMEM_DEVICE": str(file)}
        for write in (cores.crash, gcore) if shutil.which("gcore") else (cores.crash,):
            with process(test, program, library, **variables) as (target, said, inner):
                check(test, DEVICE, write(target, inner), said, f"a device, {write.__name__}")


def main():
    command, document, library, program, *others = sys.argv[1:]
    try:
        cores.needed()
    except Skipped as reason:
        print(f"SKIP: {reason}")
        return SKIPPED
    test = Test(command, program, library)
    commands = re.findall(r"^  (\S+)", test.ask("--help").stdout.partition("Subcommands:")[2], re.MULTILINE)
    test.expect_equal({name.split()[0] for name in TABLE}, {*commands} - {*NO_PROCESS}, "the commands of TABLE")
    shown = re.search(r"<!-- cores -->\n(.*?)<!-- /cores -->", pathlib.Path(document).read_text(), re.DOTALL)
    test.expect(shown is not None and shown[1] == table(), f"{document} must have this table:\n{table()}")
    debug, no_pie, static, static_pie = others
    whole(test, ((program, library), (no_pie, library), (static, "linked"), (static_pie, "linked")))
    damaged(test, program, library)
    whole(test, ((program, debug),))
    damaged(test, program, debug)
    for each in (library, debug):
        elsewhere(test, program, each)
        device(test, program, each)
    print(f"{test.failed} failures")
    return min(test.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
