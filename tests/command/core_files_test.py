#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Core files of another machine: the program and the library are found by build id.

  core_files_test.py WHAT COMMAND PROGRAM LIBRARY

  places    in a directory with .build-id/, in the tree of the other machine, right in a directory, as a file
  missing   nowhere, another build, debug information alone: the report names the file and both build ids
  served    on a server of debuginfod

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import functools
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import cores
from command_test import SKIPPED, Target, Test, clean_environment, run_one
from core_test import SAMPLED, gcore
from cores import crash


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", notes)
    return found[1] if found else None


class Elsewhere:
    """A core of a process whose program and library are not on this machine."""

    def __init__(self, test, folder):
        self.root = folder / "elsewhere"  # the tree of the other machine, as it was mounted here
        there = self.root / "srv"
        there.mkdir(parents=True)
        program = there / "server"
        shutil.copy(test.program, program)
        library = "linked"
        self.files = [program]
        if test.library != "linked":
            library = there / "libtcmalloc.so.4"
            shutil.copy(os.path.realpath(test.library), library)
            self.files.append(library)
        with Target(test, library=str(library), program=program, folder=folder, **SAMPLED) as target:
            target.tell("free")
            self.call_sites = test.ask("profile", target.pid, "--format", "folded").stdout
            self.note(target)
            self.core = (crash if cores.why_none() is None else gcore)(target, folder)
        # A tree in which the files have the same paths as on the other machine.
        self.tree = folder / "tree"
        moved = self.tree / there.relative_to("/")
        moved.parent.mkdir(parents=True)
        shutil.move(there, moved)
        self.files = [moved / file.name for file in self.files]

    def note(self, target):
        """Is called on the process before its core is written."""


def skipped(test):
    if cores.why_none() is not None and shutil.which("gcore") is None:
        return "no cores are written here"
    if build_id(test.program) is None:
        return "the compiler gives programs no build id"
    return None


def names_test(test, there, wanted, *options, environment=None):
    run = test.ask("profile", there.core, "--format", "folded", *options, environment=environment)
    same = run.stdout == there.call_sites
    test.expect(same == wanted, f"{options}: the names are {'not ' * wanted}those of the process\n{run.stdout[:300]}\n{run.stderr}")
    return run.stderr


def places(test):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        there = Elsewhere(test, folder)
        test.expect(there.call_sites.count(";Outer;") + there.call_sites.count("Outer") > 0 or "main" in there.call_sites,
                    there.call_sites[:300])
        flat, by_id = folder / "flat", folder / "by_id"
        flat.mkdir()
        for file in there.files:
            identity = build_id(file)
            shutil.copy(file, flat / ("renamed." + file.name))
            place = by_id / ".build-id" / identity[:2] / identity[2:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        alone = [option for file in there.files for option in ("--files", file)]
        both = ["--files", folder / "empty", "--files", flat]
        (folder / "empty").mkdir()
        for options in (["--files", there.tree], ["--files", flat], ["--files", by_id], alone, both):
            errors = names_test(test, there, True, *options)
            test.expect(errors == "", f"{options}: {errors}")
        for command in ("stats", "objects", "doctor"):
            test.ask(command, there.core, "--files", there.tree)
        # The stack is unwound by the files' call frame information.
        for options, found in ((["--files", there.tree], True), ([], False)):
            stack = test.ask("explain", there.core, *options).stdout.partition("Stack of thread")[2]
            test.expect(bool(re.search(r"\bmain\b", stack)) == found, f"explain {options}:\n{stack}")
        run = test.ask("stats", there.core, "--files", folder / "none", status=1)
        test.expect(f"cannot read {folder}/none: No such file" in run.stderr, run.stderr)
    return 0


def missing(test):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        there = Elsewhere(test, folder)
        program = there.files[0]
        identity = build_id(program)
        errors = names_test(test, there, False)
        test.expect(f"server (build id {identity}) is not on this machine: --files names where it is" in errors, errors)
        other = folder / "other"
        other.mkdir()
        errors = names_test(test, there, False, "--files", other)
        test.expect(f"server (build id {identity}) is not in {other}, and not on this machine" in errors, errors)
        # Another build.
        shutil.copy("/bin/true", other / "server")
        errors = names_test(test, there, False, "--files", other)
        test.expect(f"{other}/server is another file than the process's, which has build id {identity}; this one has "
                    f"{build_id('/bin/true')}" in errors, errors)
        # A pipe and a directory of that name do not matter.
        (other / "server").unlink()
        os.mkfifo(other / "server")
        names_test(test, there, False, "--files", other)
        (other / "server").unlink()
        (other / "server").mkdir()
        names_test(test, there, False, "--files", other)
        # Debug information alone has the names.
        debug = folder / "debug/.build-id" / identity[:2]
        debug.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", program, debug / (identity[2:] + ".debug")], check=True)
        rest = [option for file in there.files[1:] for option in ("--files", file)]
        errors = names_test(test, there, True, "--files", folder / "debug", *rest)
        test.expect(errors == "", errors)
    return 0


def served(test):
    if not any("libdebuginfod.so.1" in line for line in
               subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.splitlines()):
        print("SKIP: libdebuginfod.so.1 is not installed (scripts/setup.sh test)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        there = Elsewhere(test, folder)
        for file in there.files:
            place = folder / "served/buildid" / build_id(file)
            place.mkdir(parents=True)
            shutil.copy(file, place / "executable")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder / "served")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            environment = clean_environment(DEBUGINFOD_URLS=f"http://127.0.0.1:{web.server_address[1]}",
                                            DEBUGINFOD_CACHE_PATH=f"{folder}/cache")
            errors = names_test(test, there, True, environment=environment)
            test.expect(errors == "", errors)
            shutil.rmtree(folder / "cache")
            shutil.rmtree(folder / "served/buildid")
            errors = names_test(test, there, False, environment=environment)
            test.expect("no server in DEBUGINFOD_URLS has it" in errors, errors)
            web.shutdown()
    return 0


def unless_skipped(run):
    def tested(test):
        reason = skipped(test)
        if reason is None:
            return run(test)
        print(f"SKIP: {reason}")
        return SKIPPED
    return tested


if __name__ == "__main__":
    sys.exit(run_one(Test, {test.__name__: unless_skipped(test) for test in (places, missing, served)}))
