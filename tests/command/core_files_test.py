#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests core files of another machine: the program and the library are found by build id."""

import os
import re
import shutil
import subprocess

import cores
from harness import SAMPLED, Target, build_id, debuginfod, gcore, new_folder, run_test


class Elsewhere:
    """A core of a process whose program and library are not on this machine."""

    def __init__(self, test, folder, note=lambda target: None):
        """note(target) is called before the core is written."""
        build_id(test.program)  # skips the test if there is none
        there = folder / "elsewhere/srv"  # the tree of the other machine, as it was mounted here
        there.mkdir(parents=True)
        program = shutil.copy(test.program, there / "server")
        library = "linked"
        names = ["server"]
        if test.library != "linked":
            library = shutil.copy(os.path.realpath(test.library), there / "libtcmalloc.so.4")
            names.append("libtcmalloc.so.4")
        with Target(test, library=library, program=program, folder=folder, **SAMPLED) as target:
            target.tell("free")
            self.call_sites = test.ask("profile", target.pid, "--format", "folded").stdout
            note(target)
            self.core = (cores.crash if cores.why_none() is None else gcore)(target, folder)
        # A tree in which the files have the same paths as on the other machine.
        self.tree = folder / "tree"
        moved = self.tree / there.relative_to("/")
        moved.parent.mkdir(parents=True)
        shutil.move(there, moved)
        self.files = [moved / name for name in names]


def check_names(test, there, wanted, *options, environment=None):
    """Whether the names of functions are found. Returns the errors."""
    run = test.ask("profile", there.core, "--format", "folded", *options, environment=environment)
    test.expect((run.stdout == there.call_sites) == wanted,
                f"{options}: the names are {'not ' * wanted}those of the process\n{run.stdout[:300]}\n{run.stderr}")
    test.expect((run.stderr == "") == wanted, f"{options}: {run.stderr}")
    return run.stderr


def test_places(test):
    with new_folder() as folder:
        there = Elsewhere(test, folder)
        test.expect("main" in there.call_sites, there.call_sites[:300])
        flat, by_id, empty = folder / "flat", folder / "by_id", folder / "empty"
        flat.mkdir()
        empty.mkdir()
        for file in there.files:
            identity = build_id(file)
            shutil.copy(file, flat / ("renamed." + file.name))
            place = by_id / ".build-id" / identity[:2] / identity[2:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        for paths in ([there.tree], [flat], [by_id], there.files, [empty, flat]):
            check_names(test, there, True, *[option for path in paths for option in ("--files", path)])
        # The stack is unwound by the files' call frame information.
        for options, found in ((["--files", there.tree], True), ([], False)):
            stack = test.ask("explain", there.core, *options).stdout.partition("Stack of thread")[2]
            test.expect(bool(re.search(r"\bmain\b", stack)) == found, f"explain {options}:\n{stack}")
        test.fails("stats", there.core, "--files", folder / "none", words=f"cannot read {folder}/none: No such file")


def test_missing(test):
    with new_folder() as folder:
        there = Elsewhere(test, folder)
        program = there.files[0]
        identity = build_id(program)
        errors = check_names(test, there, False)
        test.expect(f"server (build id {identity}) is not on this machine: --files names where it is" in errors, errors)
        other = folder / "other"
        other.mkdir()
        errors = check_names(test, there, False, "--files", other)
        test.expect(f"server (build id {identity}) is not in {other}, and not on this machine" in errors, errors)
        # Another build.
        shutil.copy("/bin/true", other / "server")
        errors = check_names(test, there, False, "--files", other)
        test.expect(f"{other}/server is another file than the process's, which has build id {identity}; this one has "
                    f"{build_id('/bin/true')}" in errors, errors)
        # A pipe and a directory with the name of a file have no effect.
        for make in (os.mkfifo, os.mkdir):
            (other / "server").unlink()
            make(other / "server")
            check_names(test, there, False, "--files", other)
        # Debug information alone has the names.
        debug = folder / "debug/.build-id" / identity[:2]
        debug.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", program, debug / (identity[2:] + ".debug")], check=True)
        check_names(test, there, True, "--files", folder / "debug", *[option for file in there.files[1:] for option in ("--files", file)])


def test_served(test):
    with new_folder() as folder:
        there = Elsewhere(test, folder)
        with debuginfod(folder, {f"{build_id(file)}/executable": file for file in there.files}) as environment:
            check_names(test, there, True, environment=environment)
            shutil.rmtree(folder / "cache")
            shutil.rmtree(folder / "served/buildid")
            errors = check_names(test, there, False, environment=environment)
            test.expect("no server in DEBUGINFOD_URLS has it" in errors, errors)


if __name__ == "__main__":
    run_test(globals())
