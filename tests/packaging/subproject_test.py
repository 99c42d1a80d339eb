#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what the library adds to a CMake project that contains it, and that it builds without the command.

  subproject_test.py SOURCE WORK C_COMPILER CXX_COMPILER

Only the sources of the library are compiled, and the project's own are compiled with its own options. There are no tests, no
command, no rules of installation, no compiler cache and no precompiled headers. If the command
cannot be built, or is not wanted, the libraries are built without it. Nothing is compiled here: the
test reads what CMake has written.
"""

import json
import pathlib
import shutil
import sys

from steps import expect, run

OWN_OPTION = "-DOWN_OPTION"
PROJECT = """cmake_minimum_required(VERSION 3.23)
project(outer LANGUAGES C CXX)
enable_testing()
add_subdirectory({source} tcmalloc)
add_executable(outer outer.cc)
target_compile_options(outer PRIVATE {option})
target_link_libraries(outer PRIVATE tcmalloc::tcmalloc_minimal_static)
"""


def compilers():
    return f"-DCMAKE_C_COMPILER={sys.argv[3]}", f"-DCMAKE_CXX_COMPILER={sys.argv[4]}"


def targets_of(build):
    return run("ninja", "-C", build, "-t", "targets", "all")


def without_command(source, work):
    for name, option in (("missing", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON"), ("off", "-DTCMALLOC_COMMAND=OFF")):
        build = work / name
        said = " ".join(run("cmake", "-G", "Ninja", "-S", source, "-B", build, *compilers(), "-DTCMALLOC_TESTS=OFF",
                            "-DTCMALLOC_BENCH=OFF", option).split())
        targets = targets_of(build)
        expect("libtcmalloc.so.4:" in targets and "\ntcmalloc_command:" not in targets, f"{name}: the targets")
        # CMake prints why it does not build the command, unless the user turned the command off.
        reason = said.partition("The tcmalloc command is left out")[2]
        expect("fmt" in reason if name == "missing" else not reason, f"{name}: {said}")


def main():
    source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    shutil.rmtree(work, ignore_errors=True)
    folder, build, programs = work / "outer", work / "build", work / "programs"
    folder.mkdir(parents=True)
    programs.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT.format(source=source, option=OWN_OPTION))
    (folder / "outer.cc").write_text("int main() {}\n")
    # A compiler cache that CMake would find.
    cache = programs / "ccache"
    cache.write_text('#!/bin/sh\nexec "$@"\n')
    cache.chmod(0o755)
    run("cmake", "-G", "Ninja", "-S", folder, "-B", build, "--log-level=WARNING", f"-DCMAKE_PROGRAM_PATH={programs}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *compilers())
    commands = json.loads((build / "compile_commands.json").read_text())
    # The library's files, and those that CMake writes to compile several of them together.
    folders = {source / "src", source / "instruments", source / "formats", build / "tcmalloc/src"}
    library = [entry for entry in commands if folders & set(pathlib.Path(entry["file"]).parents)]
    others = [entry for entry in commands if entry not in library]
    expect([pathlib.Path(entry["file"]).name for entry in others] == ["outer.cc"],
           f"also compiled: {[entry['file'] for entry in others]}")
    for entry in others:
        options = [word for word in entry["command"].split() if word.startswith("-")]
        own = [word for word in options if not word.startswith(("-I", "-isystem", "-o", "-c", "-std"))]
        expect(own == [OWN_OPTION], f"the project's source is compiled with {own}")
    expect(library, "no file of the library is compiled")
    expect("\ntcmalloc_command:" not in targets_of(build), "the command is a part of another project")
    expect(not any("-Werror" in entry["command"] for entry in commands), "warnings are errors")
    rules = (build / "CMakeFiles/rules.ninja").read_text()
    expect(str(cache) not in rules, "a compiler cache is used")
    expect("cmake_pch" not in rules + json.dumps(commands), "there are precompiled headers")
    tests = run("ctest", "--test-dir", build, "-N")
    expect("Total Tests: 0" in tests, tests)
    installed = work / "installed"
    run("cmake", "--install", build, "--prefix", installed)
    expect(not any(path.is_file() for path in installed.rglob("*")), "something is installed")
    without_command(source, work)
    print(f"{len(library)} files of the library, {len(others)} of the project")


if __name__ == "__main__":
    main()
