#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does what docs/getting-started.md says, and the pages for those who come from other libraries.

Usage: getting_started_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER PRESET

A block of C, C++ or CMake is a file whose name is in its first line, a comment; a block of shell
commands is run, in the source folder when it names the build folder, else in one of its
own; a block of text behind it is what it must print. With the preset musl, the section about musl
is run, else all the others.
"""

import pathlib
import re
import shutil
import subprocess
import sys

from clients import environment

DOCUMENTS = ("getting-started.md", "migrating-from-gperftools.md",
             "migrating-from-googles-tcmalloc.md")
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
        headings = re.findall(r"^## (.*)$", before, re.MULTILINE)
        section = headings[-1] if headings else section
        found.append((section, before, match.group(1), match.group(2)))
        end = match.end()
    return found


def main():
    source, build, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    preset = sys.argv[4]
    shutil.rmtree(work, ignore_errors=True)
    here = work / "here"
    here.mkdir(parents=True)
    own = environment(HOME=str(work))
    named = f"build/{preset}"
    ran = failures = 0
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
        run = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c",
                              contents.replace(named, str(build))],
                             cwd=folder, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, timeout=200)
        ran += 1
        output = run.stdout
        if run.returncode != 0:
            failures += 1
            print(f"{section}: status {run.returncode} of\n{contents}{run.stdout}{run.stderr}")
    print(f"ran {ran} blocks of commands")
    sys.exit(1 if failures or ran < (2 if preset == "musl" else 14) else 0)


if __name__ == "__main__":
    main()
