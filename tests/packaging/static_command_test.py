#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The statically linked command: built, then run in a folder where nothing else is.

Usage: static_command_test.py SOURCE_FOLDER WORK_FOLDER COMMAND LIBRARY

* It needs no library and no dynamic linker.
* It prints the same as COMMAND about a process that runs on LIBRARY and about a snapshot of it, as text with names of
  functions and as JSON.
* The Python wheel with it is a manylinux wheel.
* With root's rights it does so in an empty root, which has /proc and /dev, as in an image without a distribution.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import wheel_test
from clients import environment
from steps import run, skip

# Runs a command in the root that is the first argument, with /proc and /dev, which every container has. For a mount namespace
# of its own.
IN_ROOT = 'cd "$0" && mkdir -p proc dev && mount --rbind /proc proc && mount --rbind /dev dev && exec chroot . "$@"'
NUMBER = re.compile(r"\d[\d.]*")


def shape(text):
    """The text without its numbers and their units: the process changes between two answers."""
    return re.sub(r" +", " ", re.sub(r"N (?:B|KiB|MiB)\b", "N", NUMBER.sub("N", text)))


def main():
    source, work = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
    command, library = sys.argv[3:5]
    compiler_knows = subprocess.run(["cc", "-print-file-name=liblzma.a"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if not os.path.isabs(compiler_knows.strip()):
        skip("there is no liblzma.a")
    for name in ("root", "wheel"):
        shutil.rmtree(work / name, ignore_errors=True)
    build = work / "build"  # stays: to compile the command takes minutes
    run("cmake", "--preset", "release", "-S", source, "-B", build, "-DTCMALLOC_STATIC_COMMAND=ON", "-DTCMALLOC_TESTS=OFF",
           "-DTCMALLOC_BENCH=OFF")
    run("cmake", "--build", build, "--target", "command", timeout=None)
    static = build / "bin/tcmalloc"
    for tag in ("NEEDED", "INTERP"):
        if tag in run("readelf", "--wide", "--dynamic", "--program-headers", static):
            sys.exit(f"the command has {tag}")
    root = work / "root"
    root.mkdir()
    shutil.copy(static, root)
    ways = [[static]]
    if os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0:
        ways.append(["unshare", "--mount", "sh", "-c", IN_ROOT, root, "/tcmalloc"])
    perl = subprocess.Popen(["perl", "-e", '$| = 1; my @list = map { "x" x 100 } 1 .. 1e5; print "ready\\n"; sleep'],
                            stdout=subprocess.PIPE, env=environment(LD_PRELOAD=library, TCMALLOC_SAMPLE_PARAMETER="65536"))
    try:
        perl.stdout.readline()
        pid = str(perl.pid)
        for way in ways:
            if run(*way, "--version") != run(command, "--version"):
                sys.exit("another version")
            for arguments in (("stats", pid), ("stats", pid, "--json"), ("profile", pid), ("doctor", pid), ("objects", pid)):
                wanted, found = run(command, *arguments), run(*way, *arguments)
                if shape(wanted) != shape(found):
                    sys.exit(f"{arguments} of {way}: {found}\ninstead of {wanted}")
                if arguments[0] == "profile" and "Perl_" not in found:
                    sys.exit(f"no functions of perl: {found}")
        snapshot = work / "perl.snap"
        run(static, "snapshot", pid, snapshot)
        if shape(run(static, "stats", snapshot)) != shape(run(command, "stats", snapshot)):
            sys.exit("another answer about a snapshot")
        if not wheel_test.lacks_tools():
            (work / "wheel").mkdir()
            wheel_test.build_wheel(source, pathlib.Path(library).parents[1], work / "wheel", static)
        print(f"{static.stat().st_size} bytes, {len(ways)} ways")
    finally:
        perl.kill()
        perl.wait()


if __name__ == "__main__":
    main()
