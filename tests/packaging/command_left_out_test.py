#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where the tcmalloc command cannot be built, the libraries are, and CMake says why.

  command_left_out_test.py SOURCE WORK C_COMPILER CXX_COMPILER

Nothing is compiled: the test looks at the targets of the configured builds.
"""

import pathlib
import shutil
import subprocess
import sys

OPTIONS = ["-DTCMALLOC_TESTS=OFF", "-DTCMALLOC_BENCH=OFF"]
SUBFOLDER = """cmake_minimum_required(VERSION 3.23)
project(outer LANGUAGES C CXX)
set(TCMALLOC_TESTS OFF)
set(TCMALLOC_BENCH OFF)
add_subdirectory({source} tcmalloc)
"""
SAID = "The tcmalloc command is left out"


class Builds:

    def __init__(self, source, work, compilers):
        self.source, self.work, self.compilers = source, work, compilers
        self.failed = 0

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(f"FAILED: {message}")

    def configure(self, name, source, *options):
        """The output of CMake, and the targets."""
        build = self.work / name
        run = subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", build,
                              f"-DCMAKE_C_COMPILER={self.compilers[0]}", f"-DCMAKE_CXX_COMPILER={self.compilers[1]}",
                              *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.expect(run.returncode == 0, f"{name}: {run.stdout}")
        targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True,
                                 check=False).stdout
        lines = targets.splitlines()
        self.expect(any("libtcmalloc.so.4:" in line for line in lines), f"{name}: no target of the library")
        return " ".join(run.stdout.split()), any(line.startswith("tcmalloc_command:") for line in lines)


def main():
    source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    builds = Builds(source, work, sys.argv[3:5])

    output, there = builds.configure("missing", source, *OPTIONS,
                                     "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")
    builds.expect(SAID in output and "fmt" in output.split(SAID)[-1], output)
    builds.expect(not there, "without a package there is a target of the command")

    output, there = builds.configure("off", source, *OPTIONS, "-DTCMALLOC_COMMAND=OFF")
    builds.expect(SAID not in output and not there, "TCMALLOC_COMMAND=OFF")

    outer = work / "outer"
    outer.mkdir()
    (outer / "CMakeLists.txt").write_text(SUBFOLDER.format(source=source))
    output, there = builds.configure("subfolder", outer)
    builds.expect(SAID not in output and not there, "in another project")

    print(f"{builds.failed} failures")
    return min(builds.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
