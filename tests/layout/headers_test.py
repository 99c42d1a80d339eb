#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles each header and each source of the libraries by itself, with the flags that it or its folder is compiled with.

  headers_test.py ROOT BUILD_DIR

A file that needs another one included before it fails here; so does a header that cannot be included
twice. The build compiles the sources of a folder together, and has no -Wshadow; here they have it.
The compiler is that of the build folder: the presets use g++ and clang.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import source  # noqa: E402


def compile_commands(root, build):
    """Folder or file of the libraries -> the words of the command that compiles it, or one of its files, without the file."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        # A file that includes the files that are compiled together, or a file itself.
        together = re.findall(r'#include "(.*)"', path.read_text()) if path.name.startswith("unity_") else [entry["file"]]
        files = [pathlib.Path(file) for file in together]
        files = [file for file in files if any(root / folder in file.parents for folder in source.LIBRARY_FOLDERS)]
        if not files:
            continue
        words = iter(shlex.split(entry["command"]))
        kept = []
        for word in words:
            if word == "-o":
                next(words)
            elif word != "-c" and word != entry["file"]:
                kept.append(word)
        for file in files:
            name = pathlib.PurePath(source.name_of(root, file))
            commands.setdefault(name.parent.as_posix(), (kept, entry["directory"]))
            commands[name.as_posix()] = kept, entry["directory"]
    return commands


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    build = pathlib.Path(sys.argv[2]).resolve()
    commands = compile_commands(root, build)
    if not commands:
        print("compile_commands.json knows no file of the libraries")
        return 1
    files = [path for path in source.library_files(root) if path.suffix != ".c"]
    default = commands[min(commands)]

    def check(file):
        name = source.name_of(root, file)
        # If no file of the folder is compiled alone, the options of another folder serve.
        words, directory = commands.get(name) or commands.get(name.rpartition("/")[0], default)
        unit = f'#include "{name}"\n' * (2 if file.suffix == ".h" else 1)
        run = subprocess.run([*words, "-Wshadow", "-fsyntax-only", "-x", "c++", "-"], input=unit, text=True,
                             cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return name, run.returncode, run.stdout

    failed = 0
    with ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        for name, status, output in pool.map(check, files):
            if status != 0:
                failed += 1
                print(f"{name} does not compile alone:\n{output}")
    compiler = next(iter(commands.values()))[0][0]
    print(f"{len(files)} headers and sources compiled with {compiler}, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
