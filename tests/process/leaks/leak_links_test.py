#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The leak checker in programs with the static library in them, linked by a compiler's command.

  leak_links_test.py WHAT SOURCE CLIENT INCLUDE STATIC_LIBRARY CXX_COMPILER [OPTION...]

  plain    SOURCE (leaks.cc), which does not refer to the checker, has it, and so has CLIENT
           (leak_client.cc), which uses it
  set_uid  a setuid program ignores HEAPCHECK
"""

import os
import pathlib
import re
import subprocess
import sys

import leaks_test
from leaks_test import CannotRun, LOST, Run, check_mode, expect

# The numbers are those of Debian and other systems; any two that are not root's are enough.
NOBODY, OWNER = 65534, 1


class Linker:

    def __init__(self, folder, include, library, compiler, *options):
        self.folder = folder
        self.before = [compiler, "-std=c++20", "-O1", "-fno-builtin", f"-I{include}", *options]
        self.library = library

    def link(self, name, source, *options):
        program = str(self.folder / name)
        run = subprocess.run([*self.before, "-o", program, source, *options, self.library,
                              "-pthread"], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        expect(run.returncode == 0, f"{run.args}: {run.stdout}")
        return program


def early_alone(others):
    """Whether `others` is the object from before the library's constructors, which run after the program's own."""
    return [(objects, frames) for objects, _, frames in others] == [(1, [])]


def plain(linker, source, client, folder):
    program = linker.link("leaks", source)
    late = tuple(name for name in LOST["strict"] if name != "Early")
    usual = tuple(name for name in LOST["normal"] if name != "Early")
    for mode, lost, others in (("minimal", LOST["minimal"], False), ("normal", usual, early_alone),
                               ("strict", late, early_alone)):
        profiles = folder / mode
        profiles.mkdir()
        check_mode(program, None, mode, profiles, lost, others)
    run = Run(linker.link("client", client), None, "normal", folder, ["normal", "lose"])
    expect(run.status == leaks_test.STATUS_OF_LEAKS and
           re.search(r"Leak check _main_ detected leaks of (104|96) bytes in 1 objects", run.err),
           f"client: {run.status} {run.err}")


def set_uid(linker, source, client, folder):
    if os.geteuid() != 0:
        raise CannotRun("only root can make a program that belongs to somebody else")
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        raise CannotRun(f"the file system of {folder} ignores set-uid")
    if "NoNewPrivs:\t1" in pathlib.Path("/proc/self/status").read_text():
        raise CannotRun("this process and its children ignore set-uid")
    program = linker.link("leaks", source)
    folder.chmod(0o755)
    profiles = folder / "profiles"
    profiles.mkdir()
    profiles.chmod(0o777)
    try:
        os.chown(program, OWNER, -1)
        os.chown(profiles, NOBODY, -1)
    except OSError as error:
        raise CannotRun(f"files cannot belong to others: {error}") from error
    # Runs the same program as the same user.
    os.chmod(program, 0o755)
    run = Run(program, None, "normal", profiles, ["7"], user=NOBODY)
    expect(run.status == leaks_test.STATUS_OF_LEAKS and "detected leaks" in run.err and
           len(run.files) == 1, f"not set-uid: {run.status} {run.err}")
    run.files[0].unlink()
    os.chmod(program, 0o4755)
    for mode in ("normal", "draconian"):
        run = Run(program, None, mode, profiles, ["7"], user=NOBODY)
        expect((run.status, run.err, run.files) == (7, "", []) and len(run.told) >= 18,
               f"set-uid, {mode}: {run.status} {run.err} {run.files}")
    print("set-uid: not checked")


def main():
    what, source, client = sys.argv[1:4]
    test = {"plain": plain, "set_uid": set_uid}[what]
    return leaks_test.status_of(
        lambda folder: test(Linker(folder, *sys.argv[4:]), source, client, folder))


if __name__ == "__main__":
    sys.exit(main())
