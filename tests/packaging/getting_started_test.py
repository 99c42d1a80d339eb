#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does what docs/getting-started.md says, and the pages for those who come from other libraries.

Usage: getting_started_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER PRESET

A block of C, C++ or CMake is a file whose name is in its first line, a comment. A block of shell commands is run, in
the source folder if it names the build folder, else in a folder of its own; a block of text after it is what it must
print. In each program that a block makes, malloc and operator new must be the allocator's. With the preset musl, only
the section about musl is run, else all other sections.

The commands that show whether the allocator is this one are run again with gperftools' library, by the
name that both libraries have, and must fail.
"""

import os

import pathlib
import re
import shutil
import subprocess
import sys

from clients import environment, who_serves

DOCUMENTS = ("getting-started.md", "migrating-from-gperftools.md", "migrating-from-googles-tcmalloc.md",
             "migrating-from-jemalloc.md", "migrating-from-mimalloc.md", "migrating-from-glibc.md")
CHECK_SECTION = "Did it work?"
MUSL_SECTION = "Programs for musl"
NOT_RUN = "<!-- not run by the test"
BLOCK = re.compile(r"^```([a-z+]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text):
    """[(section, text before, language, contents)]"""
    found = []
    end = 0
    section = ""
    for match in BLOCK.finditer(text):
        before = text[end:match.start()]
        headings = re.findall(r"^###? (.*)$", before, re.MULTILINE)
        section = headings[-1] if headings else section
        found.append((section, before, match.group(1), match.group(2)))
        end = match.end()
    return found


def programs(folder):
    """The executable files below a folder, without scripts and sources, with their times."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")
            if path.is_file() and not path.suffix and os.access(path, os.X_OK)
            and path.read_bytes()[:4] == b"\x7fELF"}


def run_shell(command, folder, own):
    return subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", command], cwd=folder, env=own,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)


def check_with_gperftools(contents, folder, own):
    """Checks that with gperftools the commands of CHECK_SECTION fail; returns a complaint or None."""
    named = re.sub(r"LD_PRELOAD=~/tcmalloc/lib/", "LD_PRELOAD=", contents)
    if named == contents:
        return f"does not preload ~/tcmalloc/lib/...:\n{contents}"
    name = re.search(r"LD_PRELOAD=(\S+)", named)[1]
    mapped = run_shell(f"LD_PRELOAD={name} cat /proc/self/maps", folder, own).stdout
    found = re.search(rf" (/\S*/{name.removesuffix('.4')}\S*)$", mapped, re.MULTILINE)
    if not found or not re.search(r"\.so\.4\.\d", found[1]):
        return f"gperftools' {name} is not installed (scripts/setup.sh test): {found}"
    run = run_shell(named, folder, own)
    if run.returncode == 0:
        return f"does not see that {found[1]} is gperftools':\n{named}{run.stdout}"
    return None


def main():
    source, build, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    preset = sys.argv[4]
    shutil.rmtree(work, ignore_errors=True)
    here = work / "here"
    here.mkdir(parents=True)
    own = environment(HOME=str(work))
    named = f"build/{preset}"
    ran = served = checked = failures = 0
    output = None
    for section, before, language, contents in (
            block for name in DOCUMENTS for block in blocks((source / "docs" / name).read_text())):
        if language in ("c", "c++", "cmake"):
            name = contents.split("\n")[0].split()[-1]
            (here / name).write_text(contents)
            continue
        if (section == MUSL_SECTION) != (preset == "musl") or NOT_RUN in before:
            continue
        if language == "text":
            if output != contents:
                failures += 1
                print(f"{section}: printed\n{output}instead of\n{contents}")
            output = None
            continue
        folder = source if named in contents else here
        before = programs(here)
        run = run_shell(contents.replace(named, str(build)), folder, own)
        ran += 1
        output = run.stdout
        if run.returncode != 0:
            failures += 1
            print(f"{section}: status {run.returncode} of\n{contents}{run.stdout}{run.stderr}")
        for program, time in programs(here).items():
            if before.get(program) == time or "CMakeFiles" in program.parts:
                continue
            served += 1
            for complaint in who_serves(program, work / "tcmalloc/lib"):
                failures += 1
                print(f"{section}: {complaint}, in what this made:\n{contents}")
        if section == CHECK_SECTION:
            checked += 1
            complaint = check_with_gperftools(contents, here, own)
            if complaint:
                failures += 1
                print(f"{section}: {complaint}")
    print(f"ran {ran} blocks of commands, which made {served} programs, and {checked} checks")
    wanted = (2, 1, 0) if preset == "musl" else (20, 10, 2)
    missing = any(count < least for count, least in zip((ran, served, checked), wanted))
    sys.exit(1 if failures or missing else 0)


if __name__ == "__main__":
    main()
